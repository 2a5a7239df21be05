//! The adapter of kind `http`, against a peer over real HTTP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod answers;
mod failures;
mod schema;
mod sent;
mod settings;
mod tls;

use std::{collections::BTreeMap, time::Duration};

use postrider::{
    config,
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::{Email, Message, UnknownOutcome},
    provider::{Provider, Submission, http::HttpProvider},
};
use tokio::time::Instant;

use crate::support::{
    http_peer::{Behaviour, HttpPeer, response},
    specimen::{TRACEPARENT, mailbox, message, submission},
};

const FAILING: Health = Health::Failing { retry_after: None };

fn bare(unknown_outcome: UnknownOutcome) -> Message {
    let mut message = Message { unknown_outcome, ..message() };
    message.email.attachments.clear();
    message
}

fn settings(url: &str, change: impl FnOnce(&mut config::HttpProvider)) -> config::HttpProvider {
    let mut settings = config::HttpProvider::new(url);
    settings.timeout = Duration::from_secs(10);
    settings.connect_timeout = Duration::from_secs(10);
    change(&mut settings);
    settings
}

fn provider(url: &str) -> HttpProvider {
    provider_with(url, |_| {})
}

fn provider_with(url: &str, change: impl FnOnce(&mut config::HttpProvider)) -> HttpProvider {
    HttpProvider::new(ProviderName::new("gateway"), &settings(url, change), None).expect("valid settings")
}

async fn outcome_of(behaviour: Behaviour, message: Message) -> Outcome {
    let peer = HttpPeer::start(&[behaviour]).await;
    provider(&peer.url()).send(submission(message, &[0])).await
}

/// What it comes to with a gateway that does not come to an end.
async fn outcome_at_the_timeout(behaviour: Behaviour) -> Outcome {
    let peer = HttpPeer::start(&[behaviour]).await;
    provider_with(&peer.url(), |s| s.timeout = Duration::from_millis(500)).send(submission(message(), &[0])).await
}

#[track_caller]
fn assert_outcome(outcome: &Outcome, class: Class, scope: Scope, code: &str, health: Health) {
    let (_, verdict) = &outcome.verdicts[0];
    assert_eq!((verdict.class, verdict.scope, verdict.code.as_str()), (class, scope, code), "{}", verdict.detail);
    assert_eq!(outcome.health, health);
}
