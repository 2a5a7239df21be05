//! `postrider show`.
//!
//! Owns how a message reads with its content; what it holds is for the service to say.

use std::io::{self, Write as _};

use clap::Args;
use serde_json::{Value, json};

use super::{Exit, Failure, client::ServiceAddress, output, request_file, status};
use crate::proto::v1::{Email, GetMessageRequest, GetMessageResponse, Mailbox};

/// Show one message of any client: what was to be sent, where it stands and how it came there.
#[derive(Debug, Args)]
pub(super) struct Show {
    #[command(flatten)]
    service: ServiceAddress,
    /// Its id.
    message_id: String,
    /// Write the email as the bytes that were, or would be, sent.
    #[arg(long, conflicts_with = "json")]
    eml: bool,
    /// Print JSON; what is in `request` can be sent again by `send --json`.
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let mut client = self.service.connect_as_operator().await?;
        let request = self.service.request(GetMessageRequest { message_id: self.message_id.clone() });
        let answer = client.get_message(request).await;
        let message = answer.map_err(|status| Failure::from_status(&status))?.into_inner();
        match (self.eml, self.json) {
            (true, _) => write_bytes(&message.mime)?,
            (_, true) => output::answer(&format!("{:#}\n", to_json(&message)))?,
            _ => output::answer(&for_people(&message))?,
        }
        Ok(Exit::Done)
    }
}

fn write_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Other(format!("cannot write the email: {error}")))
}

fn to_json(message: &GetMessageResponse) -> Value {
    json!({
        "client": message.client,
        "status": message.status.as_ref().map(status::to_json),
        "request": message.request.as_ref().map(request_file::to_json),
    })
}

fn for_people(message: &GetMessageResponse) -> String {
    let mut shown = message.status.as_ref().map(status::for_people).unwrap_or_default();
    shown.push_str(&format!("  client        {}\n", message.client));
    if let Some(email) = message.request.as_ref().and_then(|request| request.email.as_ref()) {
        shown.push_str("  email\n");
        shown.extend(facts(email).into_iter().map(|(name, value)| format!("    {name:<11} {value}\n")));
    }
    shown
}

/// What an email holds, a line each.
fn facts(email: &Email) -> Vec<(&'static str, String)> {
    let lists = [("to", &email.to), ("cc", &email.cc), ("bcc", &email.bcc), ("reply to", &email.reply_to)];
    let mut facts = vec![("from", email.from.as_ref().map(mailbox).unwrap_or_default())];
    facts.extend(lists.into_iter().flat_map(|(name, list)| list.iter().map(move |each| (name, mailbox(each)))));
    facts.push(("subject", email.subject.clone()));
    facts.extend(email.headers.iter().map(|header| ("header", format!("{}: {}", header.name, header.value))));
    let bodies = [("text", &email.text), ("html", &email.html)];
    facts.extend(bodies.into_iter().filter(|(_, body)| !body.is_empty()).map(|(name, body)| (name, bytes(body.len()))));
    facts.extend(email.attachments.iter().map(|attachment| {
        let size = bytes(attachment.content.len());
        ("attachment", format!("{}  {}  {size}", attachment.filename, attachment.content_type))
    }));
    facts.extend(email.tags.iter().map(|tag| ("tag", tag.clone())));
    facts
}

fn mailbox(mailbox: &Mailbox) -> String {
    match mailbox.name.as_str() {
        "" => mailbox.address.clone(),
        name => format!("{name} <{}>", mailbox.address),
    }
}

fn bytes(count: usize) -> String {
    format!("{count} bytes")
}
