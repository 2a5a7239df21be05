//! What must be on record before a provider is asked.
//!
//! Owns the reasons for which a round stops; asks no provider.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::{
    leases::{HeldLease, Leases},
    places::Places,
};
use crate::{
    chain::{Chain, Journal, Proceed},
    delivery::{Attempt, Class, Health, Outcome, ProviderName, Round, Scope, Skip, Verdict},
    message::RecipientIndex,
    outbox::Outbox,
};

/// Why a round was ended before a provider was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The message has gone on without us.
    LeaseLost,
    /// It expired or was called off: [`crate::delivery::next`] says what that means.
    CalledOff,
    /// The process stops.
    Draining,
    /// What had to be on record could not be written.
    NotWritten,
}

/// Writes down, under the lease, each step of a round before it is taken.
pub(super) struct LeaseJournal {
    pub(super) outbox: Outbox,
    pub(super) leases: Leases,
    pub(super) held: Arc<HeldLease>,
    pub(super) round: u32,
    pub(super) expire_at: Option<OffsetDateTime>,
    /// The provider that the row already names as begun; asking it needs no further statement.
    pub(super) on_record: Option<ProviderName>,
    pub(super) places: Places,
    pub(super) stop: CancellationToken,
    pub(super) progress: Progress,
}

/// How far a round has come, for whoever has to account for it.
#[derive(Default)]
pub(super) struct Progress {
    written: AtomicUsize,
    stopped: Mutex<Option<Stopped>>,
    steps: Mutex<Steps>,
}

#[derive(Default)]
struct Steps {
    finished: Vec<Attempt>,
    under_way: Option<UnderWay>,
}

/// An attempt that has begun and not ended.
struct UnderWay {
    provider: ProviderName,
    started_at: OffsetDateTime,
    offered: Vec<RecipientIndex>,
    skipped: Vec<Skip>,
}

impl Progress {
    /// How many attempts of the round are in the history already.
    pub(super) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Why the round was ended, if it was.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any provider was asked.
    pub(super) fn has_begun(&self) -> bool {
        let steps = self.steps();
        steps.under_way.is_some() || !steps.finished.is_empty()
    }

    /// The round as it stands, for one that is not waited for any longer: what had begun is of unknown outcome.
    pub(super) fn cut_off(&self, chain: &Chain, now: OffsetDateTime) -> Round {
        self.stop(Stopped::Draining);
        let mut steps = self.steps();
        let mut attempts = std::mem::take(&mut steps.finished);
        attempts.extend(steps.under_way.take().map(|attempt| attempt.cut_off(chain, now)));
        Round { attempts, ..Round::default() }
    }

    fn stop(&self, why: Stopped) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    fn cut_off(self, chain: &Chain, now: OffsetDateTime) -> Attempt {
        let words = "Postrider stopped before the answer";
        let verdict = Verdict::new(Class::OutcomeUnknown, Scope::Wire, "stopped", words);
        Attempt {
            recognises_key_for: chain.recognises_key_for(&self.provider),
            provider: self.provider,
            started_at: self.started_at,
            duration: (now - self.started_at).try_into().unwrap_or_default(),
            outcome: Outcome::uniform(&self.offered, &verdict, Health::Neutral),
            skipped: self.skipped,
        }
    }
}

impl Journal for LeaseJournal {
    fn before_attempt<'a>(
        &'a self,
        finished: &'a [Attempt],
        open: &'a [RecipientIndex],
        next: &'a ProviderName,
        skipped: &'a [Skip],
    ) -> BoxFuture<'a, Proceed> {
        Box::pin(async move {
            match self.write(finished, open, next).await {
                Ok(()) => {
                    self.progress.steps().under_way = Some(UnderWay {
                        provider: next.clone(),
                        started_at: self.outbox.clock().now(),
                        offered: offered(finished, open),
                        skipped: skipped.to_vec(),
                    });
                    Proceed::Go
                }
                Err(stopped) => {
                    self.progress.stop(stopped);
                    Proceed::Stop
                }
            }
        })
    }

    fn after_attempt(&self, finished: &[Attempt]) {
        // The provider has a place again, also where the message goes on to the next.
        self.places.ring();
        *self.progress.steps() = Steps { finished: finished.to_vec(), under_way: None };
    }
}

/// The open recipients that the next provider is offered: not those that another has deferred, or may have.
fn offered(finished: &[Attempt], open: &[RecipientIndex]) -> Vec<RecipientIndex> {
    let round = Round { attempts: finished.to_vec(), ..Round::default() };
    open.iter().copied().filter(|&recipient| round.last_class(recipient).is_none_or(Class::asks_next)).collect()
}

impl LeaseJournal {
    async fn write(&self, finished: &[Attempt], open: &[RecipientIndex], next: &ProviderName) -> Result<(), Stopped> {
        self.may_begin().await?;
        let unwritten = &finished[self.progress.written()..];
        if unwritten.is_empty() && self.on_record.as_ref() == Some(next) {
            return Ok(());
        }
        let holding = self
            .outbox
            .hand_over(&self.held.lease, self.round, unwritten, open, next)
            .await
            .map_err(|error| {
                tracing::warn!(message_id = %self.held.lease.id, %error, "the next provider could not be put on record");
                Stopped::NotWritten
            })?;
        self.held.note(holding);
        if self.held.is_lost() {
            return Err(Stopped::LeaseLost);
        }
        self.progress.written.store(finished.len(), Ordering::Relaxed);
        // Once more, since the statement may have told of a cancellation, and took its time.
        self.may_begin().await
    }

    async fn may_begin(&self) -> Result<(), Stopped> {
        if self.held.is_lost() {
            return Err(Stopped::LeaseLost);
        }
        if self.held.cancel_requested() || self.expire_at.is_some_and(|at| at <= self.outbox.clock().now()) {
            return Err(Stopped::CalledOff);
        }
        if self.stop.is_cancelled() {
            return Err(Stopped::Draining);
        }
        match self.leases.is_long_enough(&self.held).await {
            true => Ok(()),
            false if self.held.is_lost() => Err(Stopped::LeaseLost),
            false => Err(Stopped::NotWritten),
        }
    }
}
