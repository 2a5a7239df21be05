"""An SMTP server of aiosmtpd: TLS required, then AUTH. Arguments: certificate file, key file, starttls or implicit.

Writes its port, then for each message that was handed over a line of JSON: recipients and the content in base64.
A recipient that begins with "unknown" is refused; a message to one that begins with "again" is refused for now, the
first time.
"""
import asyncio, base64, json, logging, ssl, sys, warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
from aiosmtpd.smtp import AuthResult, SMTP

put_off = set()


class Print:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("unknown"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        content = base64.b64encode(envelope.original_content).decode()
        print(json.dumps({"to": envelope.rcpt_tos, "content": content}), flush=True)
        again = {address for address in envelope.rcpt_tos if address.startswith("again")} - put_off
        put_off.update(again)
        return "451 4.3.0 come again" if again else "250 2.0.0 OK: queued as AIO12345"


def authenticate(server, session, envelope, mechanism, data):
    right = data.login == b"user" and data.password == b"secret"
    return AuthResult(success=right, handled=right)


tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain(sys.argv[1], sys.argv[2])


implicit = sys.argv[3] == "implicit"


def conversation():
    # Under implicit TLS it does not know that it is secured.
    secured = dict(auth_require_tls=False) if implicit else dict(tls_context=tls, require_starttls=True)
    return SMTP(Print(), hostname="localhost", auth_required=True, authenticator=authenticate, enable_SMTPUTF8=True,
                **secured)


async def serve():
    server = await asyncio.get_running_loop().create_server(
        conversation, "127.0.0.1", 0, ssl=tls if implicit else None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(serve())
