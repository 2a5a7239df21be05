"""Reads a message from standard input with Python's email package and holds it against the specimen.

Arguments: the id that Postrider gave it; optionally the headers, by name, that it need not have.
"""
import email
import re
import sys
from email import policy

import specimen

raw = sys.stdin.buffer.read()
message_id, optional = sys.argv[1], sys.argv[2:]


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found!r:.500}, expected {expected!r:.500}")


def addresses(header):
    return [(address.display_name, address.addr_spec) for address in message[header].addresses]


# On the wire.
equal("bytes beyond ASCII", re.findall(rb"[^\x20-\x7e\r\n\t]", raw), [])
equal("line ends that are not CRLF", re.findall(rb"\r(?!\n)|(?<!\r)\n", raw), [])
equal("lines longer than 998", [line for line in raw.split(b"\r\n") if len(line) > 998], [])
equal("the blind recipient", [line for line in raw.split(b"\r\n") if b"archive" in line], [])

message = email.message_from_bytes(raw, policy=policy.default)
for part in message.walk():
    equal("defects", part.defects + [d for header in part.values() for d in header.defects], [])

# The headers.
equal("From", addresses("From"), [specimen.SENDER])
equal("To", addresses("To"), specimen.TO)
equal("Cc", addresses("Cc"), specimen.CC)
equal("Reply-To", addresses("Reply-To"), specimen.REPLY_TO)
equal("Bcc", message["Bcc"], None)
equal("Subject", message["Subject"], specimen.SUBJECT)
equal("Message-ID", message["Message-ID"], f"<{message_id}@shop.example>")
equal("MIME-Version", message["MIME-Version"], "1.0")
for name, value in specimen.HEADERS:
    if message[name] is not None or name not in optional:
        equal(name, message[name], value)
for name in ("From", "To", "Cc", "Reply-To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type"):
    equal(f"headers {name}", len(message.get_all(name, [])), 1)
if message["Date"].datetime.utcoffset() is None:
    sys.exit("Date: without a zone")

# The bodies. In email a line ends in CRLF.
equal("text", message.get_body(("plain",)).get_content(), specimen.TEXT.replace("\n", "\r\n"))
equal("html", message.get_body(("html",)).get_content(), specimen.HTML.replace("\n", "\r\n"))

# The files: as many parts as were sent, each whole.
leaves = [part for part in message.walk() if not part.is_multipart()]
equal("parts", len(leaves), 2 + len(specimen.ATTACHMENTS))
for name, media, content, content_id in specimen.ATTACHMENTS:
    found = [part for part in leaves if part.get_filename() == name]
    equal(f"parts named {name}", len(found), 1)
    part = found[0]
    equal(f"{name}: bytes", part.get_payload(decode=True), content)
    equal(f"{name}: type", part.get_content_type(), media)
    equal(f"{name}: disposition", part.get_content_disposition(), "inline" if content_id else "attachment")
    equal(f"{name}: content id", part["Content-ID"], f"<{content_id}>" if content_id else None)
equal("attachments", [part.get_filename() for part in message.iter_attachments()],
      [name for name, _, _, content_id in specimen.ATTACHMENTS if not content_id])
print("equal")
