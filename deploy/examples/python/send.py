"""Sends the email of an invoice through Postrider: python send.py INVOICE RECIPIENT [PDF]"""

import sys
import time

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from postrider.v1 import email_pb2, email_service_pb2, email_service_pb2_grpc

REPEAT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


def send(emails, request, tries=6):
    """Repeats the call under its key: it may have been accepted, and is never accepted twice."""
    pause = 0.2
    while True:
        try:
            return emails.SendEmail(request, timeout=5, metadata=[("x-client-id", "billing")])
        except grpc.RpcError as error:
            tries -= 1
            if error.code() not in REPEAT or tries == 0:
                raise
        time.sleep(pause)
        pause *= 2


def violations(error):
    """What is wrong with the request, by field."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        bad_request = error_details_pb2.BadRequest()
        if detail.Unpack(bad_request):
            yield from ((v.field, v.description) for v in bad_request.field_violations)


def main(invoice, recipient, pdf=None):
    email = email_pb2.Email(
        subject=f"Your invoice {invoice}",
        text="It is attached.",
        document_type="INVOICE",
        to=[email_pb2.Mailbox(address=recipient)],
        **{"from": email_pb2.Mailbox(address="billing@shop.example", name="Shop")},
    )
    if pdf:
        with open(pdf, "rb") as file:
            email.attachments.add(filename=f"{invoice}.pdf", content=file.read())
    request = email_service_pb2.SendEmailRequest(idempotency_key=f"invoice-{invoice}", email=email)

    with grpc.insecure_channel("127.0.0.1:50051") as channel:
        try:
            accepted = send(email_service_pb2_grpc.EmailServiceStub(channel), request)
        except grpc.RpcError as error:
            for field, description in violations(error):
                print(f"{field}: {description}")
            sys.exit(f"{error.code().name}: {error.details()}")
    print(accepted.message_id, email_pb2.Status.Name(accepted.status), "again" if accepted.deduplicated else "new")


if __name__ == "__main__":
    main(*sys.argv[1:])
