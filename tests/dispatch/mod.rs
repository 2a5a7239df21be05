//! Processes that end, hesitate, work side by side or lose their database: nothing is lost, and nothing is sent twice
//! but where nobody can know.

mod accounts;
mod called_off;
mod company;
mod crash;
mod database;
mod days;
mod drain;
mod lanes;
mod logs;
mod modes;
mod outbox_rows;
mod pool;
mod roles;
mod schedule;
mod side_by_side;
mod watched;

use postrider::sandbox::{
    Inbox,
    http::{HttpOptions, HttpSink},
    smtp::{SmtpOptions, SmtpSink},
};

use crate::support::caller::PATIENCE;

async fn gateway() -> HttpSink {
    HttpSink::start(HttpOptions::default()).await.expect("a gateway")
}

async fn relay() -> SmtpSink {
    SmtpSink::start(SmtpOptions::default()).await.expect("a relay")
}

/// Waits until that many mails arrived.
async fn arrived(inbox: &Inbox, count: usize) {
    let waited = inbox.wait_until(|inbox| inbox.count() >= count as u64, PATIENCE).await;
    waited.unwrap_or_else(|_| panic!("{count} mails did not arrive, {} did", inbox.count()));
}
