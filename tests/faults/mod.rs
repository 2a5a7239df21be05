//! What becomes of messages when a provider is not well: a whole service, spoken to over gRPC, with real providers.

mod classes;
mod failover;
mod late;
mod recipients;
mod times;
mod unknown;
mod waiting;

use postrider::sandbox::{
    Inbox,
    http::{HttpOptions, HttpSink},
    smtp::{SmtpOptions, SmtpSink},
};

/// A gateway with an inbox of its own.
async fn gateway(name: &str) -> HttpSink {
    HttpSink::start(HttpOptions { name: name.into(), ..HttpOptions::default() }).await.expect("a gateway")
}

/// A relay with an inbox of its own.
async fn relay(name: &str) -> SmtpSink {
    SmtpSink::start(SmtpOptions { name: name.into(), ..SmtpOptions::default() }).await.expect("a relay")
}

/// How often each mail arrived, the first time included.
fn arrivals(inbox: &Inbox) -> Vec<u32> {
    inbox.all().iter().map(|mail| 1 + mail.repeats).collect()
}
