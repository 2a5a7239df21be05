//! What has to be done from time to time: the clock is measured, days are made ahead, what is over is removed.
//!
//! Owns when it is done, and that what fails is done at the next turn; how it is done is the outbox's.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::{
    config::Retention,
    outbox::{Outbox, OutboxError},
};

/// Works at the interval of the settings until told to stop. Every process may run it at once.
pub(super) async fn run(outbox: Outbox, settings: Retention, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(settings.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        attempt("measure the clock", outbox.measure_clock()).await;
        if let Some(made) = attempt("make days ahead", outbox.ensure_days(settings.days_ahead)).await
            && made > 0
        {
            tracing::info!(made, "days were made ahead");
        }
        if let Some(removed) = attempt("remove what is over", outbox.remove_finished(&settings)).await
            && removed > 0
        {
            tracing::info!(removed, "messages past their retention were removed");
        }
    }
}

/// Does one piece of it. What fails is done at the next turn: nothing here is lost by waiting.
async fn attempt<T>(what: &str, work: impl Future<Output = Result<T, OutboxError>>) -> Option<T> {
    match work.await {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::warn!(what, %error, "maintenance failed; it is tried again");
            None
        }
    }
}
