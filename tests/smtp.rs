//! The adapter of kind `smtp` against real peers: a scripted server, and those that nobody here wrote.

mod encryption;
mod endings;
mod groups;
mod other_server;
mod real_postfix;
mod real_sink;
mod recipients;
mod reuse;
mod signing;
mod smuggling;
mod truth;
mod verdicts;

use crate::support::smtp_peer;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use postrider::{
    config,
    delivery::{Class, Outcome, ProviderName},
    message::{
        ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, RecipientIndex, TraceContext,
        UnknownOutcome,
    },
    provider::{Provider, Submission, smtp::SmtpProvider},
};
use secrecy::SecretString;
use time::OffsetDateTime;
use tokio::time::Instant;

/// Settings for that server, in clear text and with patience enough for a slow machine.
fn settings(server: SocketAddr) -> config::SmtpProvider {
    config::SmtpProvider {
        host: server.ip().to_string(),
        port: Some(server.port()),
        tls: config::SmtpTls::None,
        username: None,
        password: None,
        password_file: None,
        auth: None,
        hello_name: Some("client.example".to_owned()),
        connect_timeout: Duration::from_secs(10),
        command_timeout: Duration::from_secs(10),
        data_timeout: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        connection_age: Duration::from_secs(600),
        messages_per_connection: 100,
        ca_file: None,
        certificate_file: None,
        key_file: None,
        dkim: BTreeMap::new(),
    }
}

/// The same with little patience, for a server that keeps silent.
fn impatient(server: SocketAddr) -> config::SmtpProvider {
    let little = Duration::from_millis(500);
    config::SmtpProvider { connect_timeout: little, command_timeout: little, data_timeout: little, ..settings(server) }
}

fn provider(settings: &config::SmtpProvider) -> SmtpProvider {
    let password = settings.username.as_ref().map(|_| SecretString::from("secret"));
    SmtpProvider::new(ProviderName::new("relay"), settings, password).expect("settings that work")
}

/// A message from `from@sender.example` to those local parts at `there.example`.
fn message_to(locals: &[&str], text: &str) -> Submission {
    let to: Vec<String> = locals.iter().map(|local| format!("{local}@there.example")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    with_text(message_from_to("from@sender.example", &to), text)
}

/// The same message with that text.
fn with_text(mut submission: Submission, text: &str) -> Submission {
    Arc::make_mut(&mut submission.message).email.text = Some(text.to_owned());
    submission
}

/// A message between those addresses.
fn message_from_to(from: &str, to: &[&str]) -> Submission {
    let mailbox = |address: &str| Mailbox { name: None, address: EmailAddress::parse(address).expect("an address") };
    let now = OffsetDateTime::now_utc();
    let email = Email {
        from: mailbox(from),
        to: to.iter().map(|address| mailbox(address)).collect(),
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "A test".to_owned(),
        text: Some("Hello\r\n".to_owned()),
        html: None,
        attachments: Vec::new(),
        headers: Vec::new(),
        tags: Vec::new(),
        metadata: Default::default(),
        document_type: None,
    };
    let recipients = email.recipients().map(|(index, _)| index).collect();
    let message = Message {
        id: MessageId::new_at(now),
        client: ClientId::new("default"),
        accepted_at: now,
        correlation_id: String::new(),
        trace: TraceContext::default(),
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email,
    };
    Submission {
        message: Arc::new(message),
        recipients,
        deadline: Instant::now() + Duration::from_secs(30),
        traceparent: String::new(),
    }
}

fn message() -> Submission {
    message_to(&["one"], "Hello\r\n")
}

/// The classes in the order of the recipients, each recipient exactly once.
fn classes(outcome: &Outcome) -> Vec<Class> {
    let mut verdicts: Vec<_> = outcome.verdicts.iter().map(|(index, verdict)| (*index, verdict.class)).collect();
    verdicts.sort_by_key(|(index, _)| *index);
    let places: Vec<_> = verdicts.iter().map(|(index, _)| index.0).collect();
    let mut once = places.clone();
    once.dedup();
    assert_eq!(places, once, "a recipient has more than one verdict");
    verdicts.into_iter().map(|(_, class)| class).collect()
}

/// The only recipient's class and code.
fn verdict(outcome: &Outcome) -> (Class, String) {
    assert_eq!(outcome.verdicts.len(), 1);
    assert_eq!(outcome.verdicts[0].0, RecipientIndex(0));
    (outcome.verdicts[0].1.class, outcome.verdicts[0].1.code.clone())
}

async fn send(settings: &config::SmtpProvider, submission: Submission) -> Outcome {
    provider(settings).send(submission).await
}
