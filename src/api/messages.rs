//! `ListMessages` and `GetMessage`: which messages there are, and one of them whole.
//!
//! Owns how they are told to an operator, who sees those of every client; changes nothing.

use bytes::Bytes;
use tonic::Status;

use super::{
    filter,
    operator::OperatorApi,
    page_token,
    send::{LARGE_BYTES, apart},
    standing::read_id,
    status, to_proto,
};
use crate::{
    message::{Attachment, Email, Mailbox, Message, UnknownOutcome, mime},
    outbox::Summary,
    proto::v1 as pb,
};

/// How many messages a page has where nobody says.
const PAGE: usize = 50;

/// The most messages of a page.
const PAGE_LIMIT: usize = 1_000;

impl OperatorApi {
    /// A page of a list.
    pub(super) async fn list(&self, request: pb::ListMessagesRequest) -> Result<pb::ListMessagesResponse, Status> {
        let pb::ListMessagesRequest { filter: given, page_size, page_token: token } = request;
        let limit = match usize::try_from(page_size) {
            Ok(0) => PAGE,
            Ok(size) => size.min(PAGE_LIMIT),
            Err(_) => return Err(status::invalid_field("page_size", "is below 0")),
        };
        let from = page_token::read(given.as_ref(), &token)?;
        let filter = filter::read("filter", given.clone())?;
        let page = self.backend.outbox.list(&filter, from, limit).await.map_err(|error| status::outbox(&error))?;
        Ok(pb::ListMessagesResponse {
            messages: page.messages.into_iter().map(summary).collect(),
            next_page_token: page.next.map(|cursor| page_token::write(given.as_ref(), cursor)).unwrap_or_default(),
        })
    }

    /// One message.
    pub(super) async fn message(&self, message_id: &str) -> Result<pb::GetMessageResponse, Status> {
        let id = read_id(message_id)?;
        let outbox = &self.backend.outbox;
        let found = outbox.status(&[id], None).await.map_err(|error| status::outbox(&error))?;
        let found = found.into_iter().next().ok_or_else(|| self.backend.not_there(id))?;
        let contents = outbox.contents(&[id]).await.map_err(|error| status::outbox(&error))?;
        let (_, message) = contents.into_iter().next().ok_or_else(|| self.backend.not_there(id))?;
        let message = message.map_err(|error| status::outbox(&error))?;

        let is_large = message.email.content_bytes() > LARGE_BYTES as u64;
        let (message, mime) = apart(is_large, move || {
            let mime = mime::render(&message);
            (message, mime)
        })
        .await?;
        // Of a message without a MIME form none was ever given away.
        let mime = mime.map(Bytes::from).unwrap_or_default();
        Ok(pb::GetMessageResponse {
            client: found.client.as_str().to_owned(),
            status: Some(self.backend.told(found, outbox.clock().now())),
            request: Some(request_of(message)),
            mime,
        })
    }
}

fn summary(message: Summary) -> pb::MessageSummary {
    let waits_for_machine = !message.status.is_finished() && !message.status.is_failed();
    pb::MessageSummary {
        message_id: message.id.to_string(),
        client: message.client.as_str().to_owned(),
        status: to_proto::status(message.status).into(),
        accepted_at: Some(to_proto::timestamp(message.accepted_at)),
        next_attempt_at: message.due_at.filter(|_| waits_for_machine).map(to_proto::timestamp),
        finished_at: message.finished_at.map(to_proto::timestamp),
        attempts: message.attempts,
        rounds: message.rounds,
        last_provider: message.last_provider.map(to_proto::name).unwrap_or_default(),
        last_outcome: message.last_outcome.map_or(pb::OutcomeClass::Unspecified, to_proto::class).into(),
        last_code: message.last_code.unwrap_or_default(),
        correlation_id: message.correlation_id,
        document_type: message.document_type.unwrap_or_default(),
    }
}

/// The request by which the message would be accepted again.
fn request_of(message: Message) -> pb::SendEmailRequest {
    let unknown_outcome = match message.unknown_outcome {
        UnknownOutcome::Resend => pb::UnknownOutcomePolicy::Resend,
        UnknownOutcome::Hold => pb::UnknownOutcomePolicy::Hold,
    };
    pb::SendEmailRequest {
        email: Some(email(message.email)),
        priority: to_proto::priority(message.priority).into(),
        unknown_outcome_policy: unknown_outcome.into(),
        correlation_id: message.correlation_id,
        ..Default::default()
    }
}

fn email(email: Email) -> pb::Email {
    let mailboxes = |list: Vec<Mailbox>| list.into_iter().map(mailbox).collect();
    pb::Email {
        from: Some(mailbox(email.from)),
        to: mailboxes(email.to),
        cc: mailboxes(email.cc),
        bcc: mailboxes(email.bcc),
        reply_to: mailboxes(email.reply_to),
        subject: email.subject,
        text: email.text.unwrap_or_default(),
        html: email.html.unwrap_or_default(),
        attachments: email.attachments.into_iter().map(attachment).collect(),
        headers: email.headers.into_iter().map(|h| pb::Header { name: h.name, value: h.value }).collect(),
        tags: email.tags,
        metadata: email.metadata.into_iter().collect(),
        document_type: email.document_type.unwrap_or_default(),
    }
}

fn mailbox(mailbox: Mailbox) -> pb::Mailbox {
    pb::Mailbox { address: mailbox.address.as_str().to_owned(), name: mailbox.name.unwrap_or_default() }
}

fn attachment(attachment: Attachment) -> pb::Attachment {
    pb::Attachment {
        filename: attachment.filename,
        content_type: attachment.content_type,
        content: attachment.content,
        content_id: attachment.content_id.unwrap_or_default(),
    }
}
