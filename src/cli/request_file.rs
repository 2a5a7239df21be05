//! A SendEmail request as a JSON file: the fields of the contract by their names.
//!
//! Owns the names and the forms of the fields; judges no value, since the service does.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Failure, send, status::strip};
use crate::proto::v1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Request {
    idempotency_key: String,
    email: Option<Email>,
    send_at: Option<String>,
    expire_at: Option<String>,
    priority: Option<String>,
    unknown_outcome_policy: Option<String>,
    validate_only: bool,
    correlation_id: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Email {
    from: Option<Mailbox>,
    to: Vec<Mailbox>,
    cc: Vec<Mailbox>,
    bcc: Vec<Mailbox>,
    reply_to: Vec<Mailbox>,
    subject: String,
    text: String,
    html: String,
    attachments: Vec<Attachment>,
    headers: Vec<Header>,
    tags: Vec<String>,
    metadata: HashMap<String, String>,
    document_type: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Mailbox {
    address: String,
    name: String,
}

/// An attachment: its content in base64, or the path of a file, seen from the folder of the JSON file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Attachment {
    filename: String,
    content_type: String,
    content: Option<String>,
    path: Option<PathBuf>,
    content_id: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Header {
    name: String,
    value: String,
}

/// Reads a request.
pub(super) fn read(path: &Path) -> Result<v1::SendEmailRequest, Failure> {
    let wrong = |error: String| Failure::Usage(format!("{}: {error}", path.display()));
    let text = super::eml::read_file(path)?;
    let request: Request = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    request.into_proto(folder).map_err(|failure| wrong(failure.to_string()))
}

/// The request in the form that [`read`] takes.
pub(super) fn to_json(request: &v1::SendEmailRequest) -> Value {
    json!({
        "email": request.email.as_ref().map(email_json),
        "priority": strip(request.priority().as_str_name(), "PRIORITY_"),
        "unknown_outcome_policy": strip(request.unknown_outcome_policy().as_str_name(), "UNKNOWN_OUTCOME_POLICY_"),
        "correlation_id": request.correlation_id,
    })
}

fn email_json(email: &v1::Email) -> Value {
    let mailbox = |mailbox: &v1::Mailbox| json!({ "address": mailbox.address, "name": mailbox.name });
    let mailboxes = |list: &[v1::Mailbox]| list.iter().map(mailbox).collect::<Vec<_>>();
    let attachment = |attachment: &v1::Attachment| {
        json!({
            "filename": attachment.filename,
            "content_type": attachment.content_type,
            "content": STANDARD.encode(&attachment.content),
            "content_id": attachment.content_id,
        })
    };
    let header = |header: &v1::Header| json!({ "name": header.name, "value": header.value });
    json!({
        "from": email.from.as_ref().map(mailbox),
        "to": mailboxes(&email.to),
        "cc": mailboxes(&email.cc),
        "bcc": mailboxes(&email.bcc),
        "reply_to": mailboxes(&email.reply_to),
        "subject": email.subject,
        "text": email.text,
        "html": email.html,
        "attachments": email.attachments.iter().map(attachment).collect::<Vec<_>>(),
        "headers": email.headers.iter().map(header).collect::<Vec<_>>(),
        "tags": email.tags,
        "metadata": email.metadata,
        "document_type": email.document_type,
    })
}

impl Request {
    fn into_proto(self, folder: &Path) -> Result<v1::SendEmailRequest, Failure> {
        let mut request = v1::SendEmailRequest {
            idempotency_key: self.idempotency_key,
            email: self.email.map(|email| email.into_proto(folder)).transpose()?,
            send_at: self.send_at.map(|text| send::timestamp("send_at", &text)).transpose()?,
            expire_at: self.expire_at.map(|text| send::timestamp("expire_at", &text)).transpose()?,
            validate_only: self.validate_only,
            correlation_id: self.correlation_id,
            ..Default::default()
        };
        if let Some(word) = self.priority {
            let priority = v1::Priority::from_str_name(&prefixed("PRIORITY_", &word))
                .ok_or_else(|| Failure::Usage(format!("priority: {word:?} is none of HIGH, NORMAL, BULK")))?;
            request.set_priority(priority);
        }
        if let Some(word) = self.unknown_outcome_policy {
            let policy = v1::UnknownOutcomePolicy::from_str_name(&prefixed("UNKNOWN_OUTCOME_POLICY_", &word))
                .ok_or_else(|| Failure::Usage(format!("unknown_outcome_policy: {word:?} is none of RESEND, HOLD")))?;
            request.set_unknown_outcome_policy(policy);
        }
        Ok(request)
    }
}

/// The contract's name of a word: with its prefix, as other clients write it, or without.
fn prefixed(prefix: &str, word: &str) -> String {
    if word.starts_with(prefix) { word.to_owned() } else { format!("{prefix}{word}") }
}

impl Email {
    fn into_proto(self, folder: &Path) -> Result<v1::Email, Failure> {
        let mailboxes = |list: Vec<Mailbox>| list.into_iter().map(Mailbox::into_proto).collect();
        Ok(v1::Email {
            from: self.from.map(Mailbox::into_proto),
            to: mailboxes(self.to),
            cc: mailboxes(self.cc),
            bcc: mailboxes(self.bcc),
            reply_to: mailboxes(self.reply_to),
            subject: self.subject,
            text: self.text,
            html: self.html,
            attachments: self.attachments.into_iter().map(|a| a.into_proto(folder)).collect::<Result<_, _>>()?,
            headers: self.headers.into_iter().map(|h| v1::Header { name: h.name, value: h.value }).collect(),
            tags: self.tags,
            metadata: self.metadata,
            document_type: self.document_type,
        })
    }
}

impl Mailbox {
    fn into_proto(self) -> v1::Mailbox {
        v1::Mailbox { address: self.address, name: self.name }
    }
}

impl Attachment {
    fn into_proto(self, folder: &Path) -> Result<v1::Attachment, Failure> {
        let wrong = |what: &str| Failure::Usage(format!("attachment {:?}: {what}", self.filename));
        let content = match (&self.content, &self.path) {
            (Some(content), None) => STANDARD.decode(content).map_err(|_| wrong("content is not base64"))?,
            (None, Some(path)) => {
                std::fs::read(folder.join(path)).map_err(|error| wrong(&format!("{}: {error}", path.display())))?
            }
            _ => return Err(wrong("either content (base64) or path is needed")),
        };
        let name_of_file = self.path.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
        Ok(v1::Attachment {
            filename: if self.filename.is_empty() { name_of_file.unwrap_or_default() } else { self.filename },
            content_type: self.content_type,
            content: Bytes::from(content),
            content_id: self.content_id,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_shown_can_be_sent_again() {
        let mailbox = |address: &str| v1::Mailbox { address: address.into(), name: "A".into() };
        let request = v1::SendEmailRequest {
            email: Some(v1::Email {
                from: Some(mailbox("from@example.com")),
                to: vec![mailbox("to@example.com")],
                cc: vec![mailbox("cc@example.com")],
                bcc: vec![mailbox("bcc@example.com")],
                reply_to: vec![mailbox("reply@example.com")],
                subject: "Subject".into(),
                text: "Text".into(),
                html: "<p>".into(),
                attachments: vec![v1::Attachment {
                    filename: "a.bin".into(),
                    content_type: "application/octet-stream".into(),
                    content: Bytes::from_static(b"\0\xff"),
                    content_id: "logo".into(),
                }],
                headers: vec![v1::Header { name: "X-A".into(), value: "1".into() }],
                tags: vec!["one".into()],
                metadata: HashMap::from([("order".into(), "7".into())]),
                document_type: "INVOICE".into(),
            }),
            priority: v1::Priority::Bulk.into(),
            unknown_outcome_policy: v1::UnknownOutcomePolicy::Hold.into(),
            correlation_id: "order-7".into(),
            ..Default::default()
        };
        let read: Request = serde_json::from_value(to_json(&request)).unwrap();
        assert_eq!(read.into_proto(Path::new(".")).unwrap(), request);
    }
}
