//! `postrider send`.
//!
//! Owns the options and how an email comes of them; whether it may be sent is for the service to say.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Exit, Failure,
    client::{self, ServiceAddress},
    eml, output, request_file, status,
};
use crate::proto::v1;

/// Send an email through a running service.
///
/// The email is built from the options, or read from a JSON file or an .eml file; options are added to what was read.
#[derive(Debug, Args)]
pub(super) struct Send {
    #[command(flatten)]
    service: ServiceAddress,
    /// Read the request from a JSON file ("-" for standard input).
    #[arg(long, value_name = "FILE", conflicts_with = "eml")]
    json: Option<PathBuf>,
    /// Read the email from a file of RFC 5322 ("-" for standard input). Of its other headers In-Reply-To, References and
    /// the common List- headers are taken over.
    #[arg(long, value_name = "FILE")]
    eml: Option<PathBuf>,
    /// Who it is from: `address` or `Name <address>`.
    #[arg(long, value_name = "MAILBOX")]
    from: Option<String>,
    /// A recipient.
    #[arg(long, value_name = "MAILBOX")]
    to: Vec<String>,
    /// A recipient of a copy.
    #[arg(long, value_name = "MAILBOX")]
    cc: Vec<String>,
    /// A recipient that no header names.
    #[arg(long, value_name = "MAILBOX")]
    bcc: Vec<String>,
    /// Where answers go.
    #[arg(long, value_name = "MAILBOX")]
    reply_to: Vec<String>,
    /// The subject.
    #[arg(long, short)]
    subject: Option<String>,
    /// The body as plain text.
    #[arg(long)]
    text: Option<String>,
    /// The body as HTML.
    #[arg(long)]
    html: Option<String>,
    /// A file to attach.
    #[arg(long, short, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// An image for the HTML, shown where it says `cid:ID`.
    #[arg(long, value_name = "ID=FILE")]
    inline: Vec<String>,
    /// A further header.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// A word to find it by.
    #[arg(long)]
    tag: Vec<String>,
    /// What it carries, for example INVOICE.
    #[arg(long, value_name = "WORD")]
    document_type: Option<String>,
    /// The idempotency key: the same key with the same request is the same message.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// What ties it to your own work.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Which share of the dispatchers it gets.
    #[arg(long, value_enum)]
    priority: Option<PriorityWord>,
    /// Leave it to a person when nobody can know whether it was sent, instead of sending it again.
    #[arg(long)]
    hold: bool,
    /// Not before this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    send_at: Option<String>,
    /// Not after this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    expire_at: Option<String>,
    /// Check it only; nothing is stored.
    #[arg(long)]
    validate_only: bool,
    /// Wait until it is sent or waits for a person, at most this many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", value_parser = client::seconds(0))]
    wait: Option<u64>,
    /// Print JSON: the answer on one line, and with --wait what became of the message on the next.
    #[arg(long = "output-json")]
    output_json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PriorityWord {
    High,
    Normal,
    Bulk,
}

impl Send {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let request = self.request()?;
        let keyed = !request.idempotency_key.is_empty();
        let mut client = self.service.connect().await?;
        let response = client
            .send_email(self.service.request(request))
            .await
            .map_err(|status| unanswered(Failure::from_status(&status), keyed))?
            .into_inner();
        self.report(&response)?;
        match self.wait {
            // What was only checked has no id.
            Some(seconds) if !response.message_id.is_empty() => {
                let longest = Duration::from_secs(seconds);
                let told = status::wait(&self.service, &mut client, &response.message_id, longest).await?;
                let shown = if self.output_json { status::json_line(&told) } else { status::for_people(&told) };
                output::answer(&shown)?;
                Ok(status::exit(told.status()))
            }
            _ => Ok(Exit::Done),
        }
    }

    fn request(&self) -> Result<v1::SendEmailRequest, Failure> {
        let mut request = match (&self.json, &self.eml) {
            (Some(path), _) => request_file::read(path)?,
            (None, Some(path)) => v1::SendEmailRequest { email: Some(eml::read(path)?), ..Default::default() },
            (None, None) => v1::SendEmailRequest::default(),
        };
        self.add_envelope(&mut request)?;
        let email = request.email.get_or_insert_default();
        self.add_addresses(email)?;
        self.add_content(email)?;
        Ok(request)
    }

    fn add_envelope(&self, request: &mut v1::SendEmailRequest) -> Result<(), Failure> {
        set(&mut request.idempotency_key, &self.key);
        set(&mut request.correlation_id, &self.correlation_id);
        request.validate_only |= self.validate_only;
        if self.hold {
            request.set_unknown_outcome_policy(v1::UnknownOutcomePolicy::Hold);
        }
        if let Some(word) = self.priority {
            request.set_priority(match word {
                PriorityWord::High => v1::Priority::High,
                PriorityWord::Normal => v1::Priority::Normal,
                PriorityWord::Bulk => v1::Priority::Bulk,
            });
        }
        if let Some(text) = &self.send_at {
            request.send_at = Some(timestamp("--send-at", text)?);
        }
        if let Some(text) = &self.expire_at {
            request.expire_at = Some(timestamp("--expire-at", text)?);
        }
        Ok(())
    }

    fn add_addresses(&self, email: &mut v1::Email) -> Result<(), Failure> {
        if let Some(from) = &self.from {
            email.from = Some(mailbox(from));
        }
        email.to.extend(self.to.iter().map(|text| mailbox(text)));
        email.cc.extend(self.cc.iter().map(|text| mailbox(text)));
        email.bcc.extend(self.bcc.iter().map(|text| mailbox(text)));
        email.reply_to.extend(self.reply_to.iter().map(|text| mailbox(text)));
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::Usage("--header: expected \"Name: value\"".to_owned()))?;
            email.headers.push(v1::Header { name: name.trim().to_owned(), value: value.trim().to_owned() });
        }
        Ok(())
    }

    fn add_content(&self, email: &mut v1::Email) -> Result<(), Failure> {
        set(&mut email.subject, &self.subject);
        set(&mut email.text, &self.text);
        set(&mut email.html, &self.html);
        set(&mut email.document_type, &self.document_type);
        email.tags.extend(self.tag.iter().cloned());
        for path in &self.attach {
            email.attachments.push(attachment(path, String::new())?);
        }
        for inline in &self.inline {
            let (id, path) =
                inline.split_once('=').ok_or_else(|| Failure::Usage("--inline: expected ID=FILE".to_owned()))?;
            email.attachments.push(attachment(&PathBuf::from(path), id.to_owned())?);
        }
        Ok(())
    }

    fn report(&self, response: &v1::SendEmailResponse) -> Result<(), Failure> {
        let status = status::word(response.status);
        let line = if self.output_json {
            let json = serde_json::json!({
                "message_id": response.message_id,
                "status": status,
                "deduplicated": response.deduplicated,
            });
            json.to_string()
        } else if response.message_id.is_empty() {
            "valid; nothing was stored".to_owned()
        } else {
            let again = if response.deduplicated { " (accepted before under this key)" } else { "" };
            format!("{} {status}{again}", response.message_id)
        };
        output::answer(&(line + "\n"))
    }
}

/// Says what a caller without a key risks who tries again because the exit code says so.
fn unanswered(failure: Failure, keyed: bool) -> Failure {
    match failure {
        Failure::Unavailable(text) if !keyed => Failure::Unavailable(format!(
            "{text}\n  it may have been accepted: sent again without --key it could be two messages"
        )),
        failure => failure,
    }
}

/// Overwrites a field by an option that was given.
fn set(field: &mut String, option: &Option<String>) {
    if let Some(value) = option {
        field.clone_from(value);
    }
}

/// `address` or `Name <address>`. Whether the address is one is for the service to say.
fn mailbox(text: &str) -> v1::Mailbox {
    match text.trim().strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, address)) => {
            v1::Mailbox { name: name.trim().trim_matches('"').to_owned(), address: address.trim().to_owned() }
        }
        None => v1::Mailbox { name: String::new(), address: text.trim().to_owned() },
    }
}

fn attachment(path: &PathBuf, content_id: String) -> Result<v1::Attachment, Failure> {
    let content =
        std::fs::read(path).map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let filename = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(v1::Attachment { filename, content_type: String::new(), content: Bytes::from(content), content_id })
}

/// A time of RFC 3339 as protobuf's.
pub(super) fn timestamp(what: &str, text: &str) -> Result<Timestamp, Failure> {
    let time = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| Failure::Usage(format!("{what}: {text:?} is not a time like 2026-12-24T18:00:00Z")))?;
    let nanos = i32::try_from(time.nanosecond()).unwrap_or(0);
    Ok(Timestamp { seconds: time.unix_timestamp(), nanos })
}
