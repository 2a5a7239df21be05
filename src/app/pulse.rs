//! Whether the database is there, in a process that does not claim: a dispatcher would learn it by claiming.
//!
//! Owns the asking; what follows from it is said by `readiness`.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::outbox::Outbox;

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(2);

/// Asks until told to stop, and tells once when the database goes, and once when it is back.
pub(super) async fn run(outbox: Outbox, database: watch::Sender<bool>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
        let answer = outbox.ping().await;
        let is_there = answer.is_ok();
        if !database.send_if_modified(|was| std::mem::replace(was, is_there) != is_there) {
            continue;
        }
        match answer {
            Ok(()) => tracing::info!("the database is back"),
            Err(error) => tracing::error!(%error, "the database does not answer; it is asked until it does"),
        }
    }
}
