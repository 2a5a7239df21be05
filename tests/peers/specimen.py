"""The email that the peers send: everything that is hard to carry, in one.

Run as a program it writes the email as an .eml file, made by Python's own email package.
"""
import struct
import sys
import zlib
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

SENDER = ("Магазин «Ёж»", "billing@shop.example")
TO = [("Анна Петрова", "anna@example.com"), ("Lovelace, Ada \"Countess\"", "ada@example.com"), ("", "plain@example.com")]
CC = [("Jörg Größe", "joerg@example.com")]
BCC = ("", "archive@shop.example")
REPLY_TO = [("Служба поддержки", "help@shop.example")]
SUBJECT = "Счёт № 4711 за декабрь: спасибо, что остаётесь с нами, и с наступающим вас Новым годом! ❄"
HEADERS = [
    ("X-Order", "4711"),
    ("X-Campaign", "Зимняя распродажа"),
    ("List-Unsubscribe", "<https://shop.example/unsubscribe?token=" + "t0ken" * 12 + ">"),
]

# What cannot be told from SMTP's own if it is not encoded: dots, commands, line ends of every kind.
HOSTILE = "\n.\nMAIL FROM:<mallory@evil.example>\nRCPT TO:<mallory@evil.example>\nDATA\n.\n..\nFrom here on\n"
TEXT = "Здравствуйте, Анна!\n" + HOSTILE + "trailing spaces  \n\ttab\n" + "длинная строка " * 100 + "\n= =20 end\n"
HTML = "<p>Во вложении</p>\n<img src=\"cid:logo@shop\">\n" + "<!-- " + "x" * 2000 + " -->\n"


def pdf():
    smuggled = b"\n.\r\nMAIL FROM:<mallory@evil.example>\r\n.\r\n\r.\r\n\n.\n"
    return b"%PDF-1.7\n" + bytes(range(256)) * 300 + smuggled + b"%%EOF"


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0\0\xff\0" * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


# File name, media type, bytes, content id. The text's line ends are of three kinds and must stay so; its name is
# longer than a line.
ATTACHMENTS = [
    ("Счёт-фактура № 4711.pdf", "application/pdf", pdf(), ""),
    ("Логотип магазина.png", "image/png", png(), "logo@shop"),
    ("Условия доставки и возврата для покупателей, " * 2 + "2026.txt", "text/plain", "один\r\nдва\nтри\r.\n".encode(), ""),
]


def eml():
    """The same, as another program would write it. Bcc stays out, as in what a program has sent."""
    message = EmailMessage(policy=SMTP)
    address = lambda mailbox: Address(mailbox[0], addr_spec=mailbox[1])
    message["From"] = address(SENDER)
    message["To"] = [address(mailbox) for mailbox in TO]
    message["Cc"] = [address(mailbox) for mailbox in CC]
    message["Reply-To"] = [address(mailbox) for mailbox in REPLY_TO]
    message["Subject"] = SUBJECT
    for name, value in HEADERS:
        message[name] = value
    message.set_content(TEXT)
    message.add_alternative(HTML, subtype="html")
    for name, media, content, content_id in ATTACHMENTS:
        kind, subtype = media.split("/")
        if content_id:
            related = message.get_body(("html",))
            related.add_related(content, kind, subtype, filename=name, cid=f"<{content_id}>",
                                disposition="inline")
        else:
            message.add_attachment(content, kind, subtype, filename=name)
    return message.as_bytes()


if __name__ == "__main__":
    sys.stdout.buffer.write(eml())
