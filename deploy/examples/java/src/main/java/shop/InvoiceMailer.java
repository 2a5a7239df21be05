package shop;

import static java.util.concurrent.TimeUnit.SECONDS;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.List;
import org.springframework.stereotype.Service;
import org.springframework.transaction.event.TransactionalEventListener;
import postrider.v1.Attachment;
import postrider.v1.Email;
import postrider.v1.EmailServiceGrpc.EmailServiceBlockingStub;
import postrider.v1.Mailbox;
import postrider.v1.SendEmailRequest;

/** Sends the email of an invoice once the invoice is committed. */
@Service
public class InvoiceMailer {
    private final EmailServiceBlockingStub emails;

    public InvoiceMailer(EmailServiceBlockingStub emails) {
        this.emails = emails;
    }

    @TransactionalEventListener // after the commit
    public void invoiceIssued(Invoice invoice) {
        send(invoice);
    }

    /** Gives the message id. Throws where Postrider does not answer: a job calls again with the same invoice. */
    public String send(Invoice invoice) {
        SendEmailRequest request = SendEmailRequest.newBuilder()
                .setIdempotencyKey("invoice-" + invoice.number())
                .setEmail(Email.newBuilder()
                        .setFrom(Mailbox.newBuilder().setAddress("billing@shop.example").setName("Shop"))
                        .addTo(Mailbox.newBuilder().setAddress(invoice.recipient()))
                        .setSubject("Your invoice " + invoice.number())
                        .setText("It is attached.")
                        .setDocumentType("INVOICE")
                        .addAttachments(Attachment.newBuilder()
                                .setFilename(invoice.number() + ".pdf")
                                .setContent(ByteString.copyFrom(invoice.pdf()))))
                .build();
        for (int tries = 1; ; tries++) {
            try {
                return emails.withDeadlineAfter(5, SECONDS).sendEmail(request).getMessageId();
            } catch (StatusRuntimeException e) {
                switch (e.getStatus().getCode()) {
                    case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED -> pauseOrThrow(tries, e);
                    case INVALID_ARGUMENT -> throw new InvalidEmail(violations(e));
                    default -> throw e; // the same however often it is called
                }
            }
        }
    }

    /** What is wrong with the request, by field. */
    static List<String> violations(StatusRuntimeException e) {
        List<String> violations = new ArrayList<>();
        for (Any detail : StatusProto.fromThrowable(e).getDetailsList()) {
            if (detail.is(BadRequest.class)) {
                for (BadRequest.FieldViolation v : unpack(detail).getFieldViolationsList()) {
                    violations.add(v.getField() + ": " + v.getDescription());
                }
            }
        }
        return violations;
    }

    private static BadRequest unpack(Any detail) {
        try {
            return detail.unpack(BadRequest.class);
        } catch (InvalidProtocolBufferException e) {
            throw new IllegalStateException("Postrider's answer cannot be read", e);
        }
    }

    private static void pauseOrThrow(int tries, StatusRuntimeException e) {
        if (tries == 5) {
            throw e;
        }
        try {
            Thread.sleep(100L << tries);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw e;
        }
    }
}
