//! The adapters of HTTP APIs, each against a double that speaks the provider's wire format over real HTTP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod brevo;
mod conformance;
mod gateway;
mod mailgun;
mod nginx;
mod postmark;
mod probes;
mod resend;
mod sendgrid;
mod service;
mod ses;
mod subject;
mod verdicts;

use std::{path::PathBuf, sync::Arc, time::Duration};

use postrider::{
    config::{self, ApiProvider, ApiService, ProviderKind},
    delivery::{Health, Outcome},
    message::Message,
    provider::{Provider, registry},
};
use serde_json::Value;

use self::subject::Subject;
use crate::support::{
    http_peer::{Behaviour, HttpPeer, Received, response},
    specimen::{mailbox, message, submission},
};

/// The key of every account.
const KEY: &str = "k3y";

/// How an account is reached in a test.
#[derive(Clone)]
struct Way {
    url: String,
    timeout: Duration,
    connect_timeout: Duration,
    ca_file: Option<PathBuf>,
}

impl Way {
    fn to(url: &str) -> Self {
        let patience = Duration::from_secs(20);
        Self { url: url.to_owned(), timeout: patience, connect_timeout: patience, ca_file: None }
    }
}

/// An account at one of the services, by the settings that a user would give.
fn api(service: ApiService, way: &Way) -> config::Provider {
    let Way { url, timeout, connect_timeout, ca_file } = way.clone();
    let key = Some(KEY.to_owned().into());
    let api = ApiProvider { key, url: Some(url), timeout, connect_timeout, ca_file, ..ApiProvider::new(service) };
    config::Provider::new(ProviderKind::Api(api))
}

fn build(settings: &config::Provider) -> Arc<dyn Provider> {
    registry::build("account", settings).expect("valid settings")
}

/// An email that every provider can carry: to Anna and Boris, with copies to Vera and, blind, to the archive.
fn carried_by_all() -> Message {
    let mut message = message();
    message.email.to[1] = mailbox(None, "boris@example.com");
    message.email.attachments.truncate(1);
    message.email.headers.truncate(1);
    message
}

/// The same to one recipient, without attachments.
fn to_one() -> Message {
    let mut message = carried_by_all();
    message.email.to.truncate(1);
    message.email.cc.clear();
    message.email.bcc.clear();
    message.email.attachments.clear();
    message
}

fn all_recipients(message: &Message) -> Vec<u16> {
    message.email.recipients().map(|(index, _)| index.0).collect()
}

/// What arrives when that message is sent by that account.
async fn sent(subject: &Subject, message: Message) -> (Received, Outcome) {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((subject.accept)())]).await;
    let account = build(&(subject.settings)(&Way::to(&peer.base())));
    let recipients = all_recipients(&message);
    let outcome = account.send(submission(message, &recipients)).await;
    assert!(!outcome.verdicts.is_empty() && outcome.health == Health::Healthy, "{}", summary(&outcome));
    (peer.request().await, outcome)
}

/// An outcome on one line: class, scope and code of the only recipient, or the classes of several; and the health.
fn summary(outcome: &Outcome) -> String {
    let verdicts = match outcome.verdicts.as_slice() {
        [(_, only)] => format!("{} {} {}", only.class.as_str(), only.scope.as_str(), only.code),
        several => several.iter().map(|(_, verdict)| verdict.class.as_str()).collect::<Vec<_>>().join(" "),
    };
    format!("{verdicts} / {}", health(outcome.health))
}

fn health(health: Health) -> String {
    let after = |time: Option<Duration>| time.map(|time| format!(" {}s", time.as_secs())).unwrap_or_default();
    match health {
        Health::Healthy => "healthy".to_owned(),
        Health::Failing { retry_after } => format!("failing{}", after(retry_after)),
        Health::Resting { retry_after } => format!("resting{}", after(retry_after)),
        Health::Misconfigured => "misconfigured".to_owned(),
        Health::MisconfiguredForSenderDomain => "misconfigured for domain".to_owned(),
        Health::Neutral => "neutral".to_owned(),
    }
}

/// The headers of an answer of JSON.
const JSON: &str = "content-type: application/json\r\n";

/// Takes a field out of JSON.
fn take(json: &mut Value, field: &str) -> Value {
    json.as_object_mut().unwrap().remove(field).unwrap_or_default()
}
