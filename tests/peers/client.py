"""A client on grpcio. Arguments: ADDRESS FOLDER COUNT [METADATA=VALUE …].

Sends the specimen COUNT times, each with a key and each a second time as after a lost answer; waits until every message
is sent; is refused once. Writes the ids, one a line.
"""
import sys
import time

import stubs  # First: it makes the modules below.
import grpc
import specimen
from error_details_pb2 import BadRequest, ErrorInfo, Status
from postrider.v1 import email_pb2 as words
from postrider.v1.email_service_pb2 import GetStatusRequest, SendEmailRequest
from postrider.v1.email_service_pb2_grpc import EmailServiceStub

count, metadata = int(sys.argv[3]), [tuple(pair.split("=", 1)) for pair in sys.argv[4:]]
deadline = 30


def mailbox(pair):
    return words.Mailbox(name=pair[0], address=pair[1])


def request(key):
    attachments = [
        words.Attachment(filename=name, content_type=media, content=content, content_id=content_id)
        for name, media, content, content_id in specimen.ATTACHMENTS
    ]
    email = words.Email(
        to=map(mailbox, specimen.TO),
        cc=map(mailbox, specimen.CC),
        bcc=[mailbox(specimen.BCC)],
        reply_to=map(mailbox, specimen.REPLY_TO),
        subject=specimen.SUBJECT,
        text=specimen.TEXT,
        html=specimen.HTML,
        attachments=attachments,
        headers=[words.Header(name=name, value=value) for name, value in specimen.HEADERS],
        metadata={"заказ": "4711"},
        tags=["счёт"],
        document_type="INVOICE",
        **{"from": mailbox(specimen.SENDER)},
    )
    return SendEmailRequest(idempotency_key=key, email=email, priority=words.PRIORITY_HIGH)


def refusal(stub):
    """What a client reads of a refusal: the code, the reason, the fields."""
    bad = request("refused")
    bad.email.to[0].address = "nobody"
    bad.email.subject = "one\r\nBcc: two@example.com"
    try:
        stub.SendEmail(bad, timeout=deadline)
    except grpc.RpcError as error:
        trailers = {key: value for key, value in error.trailing_metadata()}
        status = Status.FromString(trailers["grpc-status-details-bin"])
        info, wrong = ErrorInfo(), BadRequest()
        for detail in status.details:
            detail.Unpack(info) or detail.Unpack(wrong)
        return error.code(), info.reason, sorted(violation.field for violation in wrong.field_violations)


def sent(stub, message_id):
    until = time.monotonic() + deadline
    while time.monotonic() < until:
        answer = stub.GetStatus(GetStatusRequest(message_id=message_id), timeout=deadline, metadata=metadata)
        if answer.status == words.STATUS_SUCCESS_SENT:
            return answer
        time.sleep(0.02)
    sys.exit(f"{message_id} is {words.Status.Name(answer.status)}: {answer.waiting_for}")


with grpc.insecure_channel(stubs.address) as channel:
    stub = EmailServiceStub(channel)
    calls = [stub.SendEmail.future(request(f"счёт-{n}"), timeout=deadline, metadata=metadata) for n in range(count)]
    answers = [call.result() for call in calls]
    for n, first in enumerate(answers):
        again = stub.SendEmail(request(f"счёт-{n}"), timeout=deadline, metadata=metadata)
        assert not first.deduplicated and again.deduplicated, (first, again)
        assert first.message_id == again.message_id, (first, again)
    for answer in answers:
        told = sent(stub, answer.message_id)
        expected = [address for _, address in [*specimen.TO, *specimen.CC, specimen.BCC]]
        assert [recipient.address for recipient in told.recipients] == expected, told
        assert all(r.state == words.RECIPIENT_STATE_ACCEPTED for r in told.recipients), told
        assert told.document_type == "INVOICE", told
        assert told.accepted_at.ToMilliseconds() <= told.finished_at.ToMilliseconds(), told
    refused = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", ["email.subject", "email.to[0].address"])
    assert refusal(stub) == refused, refusal(stub)
    print(*(answer.message_id for answer in answers), sep="\n")
