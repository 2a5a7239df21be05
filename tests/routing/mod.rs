//! Which provider gets a message, and what is told of those that did not: a whole service with real providers.

mod busy;
mod carry;
mod decisions;
mod routes;
mod shares;
mod unknown;

use postrider::{
    proto::v1::{GetStatusResponse, SkippedProvider},
    sandbox::{
        http::{Fault, HttpOptions, HttpSink},
        smtp::{SmtpOptions, SmtpSink},
    },
};

/// A gateway with an inbox of its own.
async fn gateway(name: &str) -> HttpSink {
    HttpSink::start(HttpOptions { name: name.into(), ..HttpOptions::default() }).await.expect("a gateway")
}

/// A relay with an inbox of its own.
async fn relay(name: &str) -> SmtpSink {
    SmtpSink::start(SmtpOptions { name: name.into(), ..SmtpOptions::default() }).await.expect("a relay")
}

fn status(code: u16) -> Fault {
    Fault::Status { code, retry_after: None }
}

/// The providers that were passed over, and why: `first: circuit is open`.
fn passed_over(skipped: &[SkippedProvider]) -> Vec<String> {
    skipped.iter().map(|skip| format!("{}: {}", skip.provider, skip.reason)).collect()
}

/// Who took it.
fn taken_by(status: &GetStatusResponse) -> String {
    status.events.last().expect("it was sent").provider.clone()
}
