//! Load whose mails are followed to the end: from the call to the settle.
//!
//! Owns the waiting for what was sent; the calls are the neighbour module's.

use std::{ops::Range, time::Duration};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Answered, Callers};
use crate::{
    bench::{BenchError, figures::rate, testbed::Tables},
    sandbox::Inbox,
};

/// Callers, and the inbox in which their mails arrive.
pub(in crate::bench) struct Load<'a> {
    pub(in crate::bench) callers: Callers,
    pub(in crate::bench) tables: &'a Tables,
    pub(in crate::bench) inbox: &'a Inbox,
}

impl Load<'_> {
    /// Sends the mails of these numbers after all before them, and gives how many a second came from the call to the
    /// settle.
    pub(in crate::bench) async fn send(&self, numbers: Range<u64>) -> Result<f64, BenchError> {
        let began = Instant::now();
        self.callers.send(numbers.clone()).await?;
        self.tables.all_sent(self.inbox, numbers.end).await?;
        Ok(rate(numbers.end - numbers.start, began.elapsed()))
    }

    /// Sends mails from that number on for so long, each caller the next as soon as it is answered, and waits until all
    /// are settled.
    pub(in crate::bench) async fn send_for(&self, time: Duration, first: u64) -> Result<Sent, BenchError> {
        let (began, stop) = (Instant::now(), CancellationToken::new());
        let stopping = async {
            sleep(time).await;
            stop.cancel();
        };
        let (end, ()) = tokio::join!(self.callers.send_until(first..u64::MAX, &stop), stopping);
        let end = end?;
        self.tables.all_sent(self.inbox, end).await?;
        Ok(Sent { first, end, time: began.elapsed() })
    }

    /// Sends mails from that number on at that rate for as long as the other lasts.
    pub(in crate::bench) async fn send_while<T>(
        &self,
        per_second: f64,
        first: u64,
        meanwhile: impl Future<Output = T>,
    ) -> Result<Steady<T>, BenchError> {
        let stop = CancellationToken::new();
        let until = async {
            let meanwhile = meanwhile.await;
            stop.cancel();
            meanwhile
        };
        let (answers, meanwhile) = tokio::join!(self.callers.send_at(per_second, first..u64::MAX, &stop), until);
        let answers = answers?;
        Ok(Steady { end: first + answers.len() as u64, answers, meanwhile })
    }
}

/// What was sent in some time.
pub(in crate::bench) struct Sent {
    first: u64,
    /// The number of the first mail that was not.
    pub(in crate::bench) end: u64,
    /// From the first call to the last settle.
    pub(in crate::bench) time: Duration,
}

impl Sent {
    /// How many a second.
    pub(in crate::bench) fn rate(&self) -> f64 {
        rate(self.end - self.first, self.time)
    }
}

/// What was sent at a steady rate, and what came of what was done meanwhile.
pub(in crate::bench) struct Steady<T> {
    pub(in crate::bench) answers: Vec<Answered>,
    /// The number of the first mail that was not sent.
    pub(in crate::bench) end: u64,
    pub(in crate::bench) meanwhile: T,
}
