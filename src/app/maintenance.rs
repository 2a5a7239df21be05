//! What has to be done from time to time: the clock is measured, days are made ahead, what is over is removed, the tally
//! is folded.
//!
//! Owns when it is done, and that what fails is done at the next turn; how it is done is the outbox's.

use std::{future::Future, time::Duration};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Retention, Role, Roles},
    outbox::{DaysMade, Outbox, OutboxError, Retirement},
    telemetry::OutboxGauges,
};

/// With fewer days ahead than this somebody had better look.
pub(super) const FEW_DAYS: u32 = 2;

/// How long until the next look where messages have no table to go into.
const SOON: Duration = Duration::from_secs(1);

/// How long between two foldings of the tally: the shorter one while there is much to fold.
const FOLD_SHORTEST: Duration = Duration::from_secs(5);
const FOLD_LONGEST: Duration = Duration::from_secs(60);

/// What is done from time to time by one process.
pub(super) struct Maintenance {
    pub(super) outbox: Outbox,
    pub(super) settings: Retention,
    pub(super) roles: Roles,
    pub(super) gauges: OutboxGauges,
    /// Which days have their tables, for those who go by it.
    pub(super) days: watch::Sender<DaysMade>,
}

impl Maintenance {
    /// Works until told to stop. Every process may run it at once.
    pub(super) async fn run(self, stop: CancellationToken) {
        let work = async {
            match self.roles.has(Role::Maintain) {
                true => _ = tokio::join!(self.look_ahead(), self.retire(), self.fold()),
                false => self.look_ahead().await,
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    }

    /// Makes days ahead if that is this process's part, and finds out which there are.
    pub(super) async fn see_to_days(&self) {
        if self.roles.has(Role::Maintain)
            && let Some(made) = attempt("make days ahead", self.outbox.ensure_days(self.settings.days_ahead)).await
            && made > 0
        {
            tracing::info!(made, "days were made ahead");
        }
        let Some(days) = attempt("look which days there are", self.outbox.days_made()).await else { return };
        let before = self.days.send_replace(days);
        self.gauges.set_days_ahead(days.ahead);
        tell(before, days);
    }

    /// Keeps the clock right and days ahead.
    async fn look_ahead(&self) {
        loop {
            let is_enough = self.days.borrow().is_enough;
            let pause = if is_enough { self.settings.interval } else { self.settings.interval.min(SOON) };
            tokio::time::sleep(pause).await;
            attempt("measure the clock", self.outbox.measure_clock()).await;
            self.see_to_days().await;
            // One process tells it for all.
            if self.roles.has(Role::Maintain)
                && let Some(counts) = attempt("count messages", self.outbox.counts()).await
            {
                self.gauges.set_messages(counts);
            }
        }
    }

    /// Removes what is over.
    async fn retire(&self) {
        let mut retirement = Retirement::new(self.outbox.clone(), self.settings.clone());
        let mut ticks = tokio::time::interval(self.settings.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(removed) = attempt("remove what is over", retirement.turn()).await else { continue };
            self.gauges.set_days_postponed(removed.days_postponed);
            if removed.finished > 0 {
                tracing::info!(messages = removed.finished, "messages past their retention were removed");
            }
        }
    }

    /// Keeps what a count has to read short.
    async fn fold(&self) {
        let mut pause = FOLD_SHORTEST;
        loop {
            tokio::time::sleep(pause).await;
            let folded = attempt("fold the tally", self.outbox.fold_tally()).await.unwrap_or(0);
            pause = if folded > 0 { FOLD_SHORTEST } else { (pause * 2).min(FOLD_LONGEST) };
        }
    }
}

/// Tells in the log when days run short, and when they no longer do.
fn tell(before: DaysMade, now: DaysMade) {
    let is_short = |days: DaysMade| days.ahead < FEW_DAYS;
    let days_ahead = now.ahead;
    match (before, now) {
        (DaysMade { is_enough: true, .. }, DaysMade { is_enough: false, .. }) => {
            tracing::error!(days_ahead, "there are no tables for what is accepted now: messages are refused");
        }
        _ if is_short(now) && !is_short(before) => {
            tracing::warn!(days_ahead, "tables are made for few days ahead; without one messages are refused");
        }
        _ if is_short(before) && !is_short(now) => tracing::info!(days_ahead, "there are days ahead again"),
        _ => {}
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
