"""Holds the DKIM signatures of a message against the keys that are published.

Reads JSON: the message in base64, and the records of the DNS. Writes JSON: the selector of each signature and whether it
holds, sorted.
"""
import base64, json, re, sys

import dkim

given = json.load(sys.stdin)
message = base64.b64decode(given["message"])


def lookup(name, timeout=5):
    name = name.decode() if isinstance(name, bytes) else name
    return given["records"].get(name, "").encode()


count = len(re.findall(rb"(?im)^DKIM-Signature:", message.split(b"\r\n\r\n")[0]))
found = []
for index in range(count):
    verifier = dkim.DKIM(message)
    try:
        holds = verifier.verify(idx=index, dnsfunc=lookup)
    except dkim.DKIMException as error:
        print(error, file=sys.stderr)
        holds = False
    found.append((verifier.selector.decode() if verifier.selector else "", holds))
print(json.dumps(sorted(found)))
