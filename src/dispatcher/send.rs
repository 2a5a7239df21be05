//! One claimed message: its content, its round through the chain, and the settlement that follows from it.
//!
//! Owns the order of its steps; the chain decides who is asked, and `delivery` what follows.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

use super::{
    contents::{ContentBudget, ContentShare},
    journal::{LeaseJournal, Progress, Stopped},
    leases::{Hold, Leases},
    places::{Place, Places},
    settler::SettlerHandle,
};
use crate::{
    chain::{Chain, Counted, Offer},
    delivery::{self, Class, Next, RetryPolicy, Round, Standing, Status},
    message::{Message, MessageId, Priority, RecipientIndex, UnknownOutcome},
    outbox::{Claimed, Outbox, OutboxError, Settlement},
};

/// Sends messages that were claimed.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) outbox: Outbox,
    pub(super) chains: Arc<BTreeMap<String, Chain>>,
    pub(super) retry: Arc<RetryPolicy>,
    pub(super) attempt_timeout: Duration,
    pub(super) leases: Leases,
    pub(super) settler: SettlerHandle,
    pub(super) places: Places,
    pub(super) contents: ContentBudget,
    /// How many contents one statement reads at most.
    pub(super) claim_size: usize,
    pub(super) tasks: TaskTracker,
    /// Cancelled when no send may begin any more.
    pub(super) stop: CancellationToken,
    /// Cancelled when sends under way may no longer be waited for.
    pub(super) abandon: CancellationToken,
}

/// A message to be sent, with all that it holds until it is.
pub(super) struct Job {
    claimed: Claimed,
    /// Its lease is renewed from the claim on, however long it waits.
    hold: Hold,
    /// What its provider counts until it is offered.
    expected: Option<Counted>,
    _place: Place,
}

impl Sender {
    /// The message that was claimed for that place.
    pub(super) fn job(&self, claimed: Claimed, priority: Priority, place: Place) -> Job {
        let chain = self.chains.get(&claimed.chain);
        let expected = chain.and_then(|chain| {
            // The claim names the first of the chain; where several share its place, the message has one of its own.
            let own = if claimed.ask_first { None } else { chain.first_for(claimed.lease.id) };
            chain.expect(own.as_ref().unwrap_or(&claimed.provider), priority)
        });
        self.job_expected(claimed, place, expected)
    }

    /// The same for one that its provider counts already.
    pub(super) fn job_expected(&self, claimed: Claimed, place: Place, expected: Option<Counted>) -> Job {
        let hold = self.leases.hold(claimed.lease, claimed.leased_until);
        Job { claimed, hold, expected, _place: place }
    }

    /// Reads the contents, as many at once as there are bytes for, and sends each message in a task of its own.
    pub(super) async fn send_all(self, jobs: Vec<Job>) {
        let mut jobs = VecDeque::from(jobs);
        while let Some(first) = jobs.pop_front() {
            let share = tokio::select! {
                share = self.contents.take(first.claimed.size_bytes) => share,
                () = self.stop.cancelled() => None,
            };
            let Some(share) = share else {
                jobs.push_front(first);
                return self.release(jobs).await;
            };
            let mut batch = vec![(first, share)];
            while batch.len() < self.claim_size
                && let Some(next) = jobs.front()
                && let Some(share) = self.contents.try_take(next.claimed.size_bytes)
            {
                batch.extend(jobs.pop_front().map(|job| (job, share)));
            }
            self.send_batch(batch).await;
        }
    }

    /// Reads the contents in one statement.
    async fn send_batch(&self, batch: Vec<(Job, ContentShare)>) {
        let ids: Vec<MessageId> = batch.iter().map(|(job, _)| job.claimed.lease.id).collect();
        let mut contents: BTreeMap<MessageId, Result<Message, OutboxError>> = match self.outbox.contents(&ids).await {
            Ok(contents) => contents.into_iter().collect(),
            Err(error) => {
                tracing::warn!(%error, messages = ids.len(), "contents could not be read; the messages are released");
                return self.release(batch.into_iter().map(|(job, _)| job)).await;
            }
        };
        for (job, share) in batch {
            match contents.remove(&job.claimed.lease.id) {
                Some(Ok(message)) => {
                    let sender = self.clone();
                    self.tasks.spawn(async move {
                        sender.send(job, Arc::new(message)).await;
                        drop(share);
                    });
                }
                Some(Err(error @ OutboxError::NewerVersion { .. })) => {
                    self.leave_to_a_newer(&job.claimed, &error).await;
                }
                Some(Err(error)) => self.give_up_unreadable(&job.claimed, &error.to_string()).await,
                None => self.give_up_unreadable(&job.claimed, "it is not there").await,
            }
        }
    }

    async fn release(&self, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            self.settler.release(job.claimed.lease, job.claimed.lane).await;
        }
    }

    /// Offers one message to its chain and writes back what became of it.
    pub(super) async fn send(&self, job: Job, message: Arc<Message>) {
        let Job { claimed, hold, expected, _place } = job;
        let Some(chain) = self.chains.get(&claimed.chain) else {
            self.settler.release(claimed.lease, claimed.lane).await;
            return;
        };
        let open = claimed.open.clone().unwrap_or_else(|| message.email.recipients().map(|(index, _)| index).collect());
        let Some(time) = time_to_ask(chain, &claimed, self.outbox.clock().now()) else {
            self.give_to_a_person(&claimed, Status::FailedOutcomeUnknown, open).await;
            return;
        };
        let journal = Arc::new(self.journal(&claimed, &hold));
        let offer = Offer {
            message,
            open: open.clone(),
            ask_first: claimed.ask_first.then(|| claimed.provider.clone()),
            ask_last: claimed.unknown_at.clone(),
            only_first: holds_unknown(&claimed),
            deadline: Instant::now() + self.attempt_timeout.min(time),
            journal: journal.clone(),
        };

        let mut service = chain.clone();
        // From here on it counts where it waits.
        drop(expected);
        let round = tokio::select! {
            round = service.call(offer) => round.unwrap_or_else(|never| match never {}),
            () = self.not_waited_for(&journal.progress) => journal.progress.cut_off(chain, self.outbox.clock().now()),
        };

        let stopped = journal.progress.stopped();
        let is_given_back = matches!(stopped, Some(Stopped::LeaseLost | Stopped::Draining | Stopped::NotWritten));
        if round.attempts.is_empty() && is_given_back {
            // As if it had not been taken. If the lease really is lost this does nothing.
            self.settler.release(claimed.lease, claimed.lane).await;
            return;
        }
        // A claim hands out nothing that was called off, so only a renewal or a hand-over can have told of it.
        let standing = Standing { cancel_requested: hold.lease().cancel_requested(), ..standing(&claimed, open) };
        self.settle(&claimed, &standing, round, journal.progress.written()).await;
    }

    /// Ends when a send need not be waited for any longer: at once when the process stops, for one that has yet to
    /// begin (it waits for its turn at a provider), else at the limit of the drain.
    async fn not_waited_for(&self, progress: &Progress) {
        self.stop.cancelled().await;
        if progress.has_begun() {
            self.abandon.cancelled().await;
        }
    }

    fn journal(&self, claimed: &Claimed, hold: &Hold) -> LeaseJournal {
        LeaseJournal {
            outbox: self.outbox.clone(),
            leases: self.leases.clone(),
            held: hold.lease().clone(),
            round: claimed.rounds + 1,
            expire_at: claimed.expire_at,
            // Under HOLD, and after a takeover, even the first provider is put on record.
            on_record: claimed.is_begun.then(|| claimed.provider.clone()),
            places: self.places.clone(),
            stop: self.stop.clone(),
            progress: Progress::default(),
        }
    }

    async fn settle(&self, claimed: &Claimed, standing: &Standing, round: Round, written: usize) {
        let next = delivery::next(standing, &round, &self.retry, self.outbox.clock().now(), rand::random());
        let settlement = Settlement {
            lease: claimed.lease,
            round: claimed.rounds + 1,
            accepted: round.attempts.iter().any(|attempt| attempt.left_any(Class::Accepted)),
            unknown_since: first_unknown(&round),
            round_spent: round.spends(),
            skipped: round.skipped_since_last_attempt().to_vec(),
            attempts: round.attempts.into_iter().skip(written).collect(),
            next,
        };
        self.settler.settle(settlement, claimed.lane).await;
    }

    /// While a newer version is rolled out, its processes can read what this one cannot.
    async fn leave_to_a_newer(&self, claimed: &Claimed, error: &OutboxError) {
        tracing::warn!(message_id = %claimed.lease.id, %error, "a message is left to a newer version");
        if let Err(error) = self.outbox.postpone(&[claimed.lease], self.retry.pause).await {
            tracing::warn!(message_id = %claimed.lease.id, %error, "it cannot be left; its lease will run out");
        }
    }

    async fn give_up_unreadable(&self, claimed: &Claimed, error: &str) {
        tracing::error!(message_id = %claimed.lease.id, error, "a message cannot be read");
        self.give_to_a_person(claimed, Status::FailedNotRetryable, claimed.open.clone().unwrap_or_default()).await;
    }

    /// Ends without a round what would otherwise be claimed for ever.
    async fn give_to_a_person(&self, claimed: &Claimed, status: Status, open: Vec<RecipientIndex>) {
        let settlement = Settlement {
            lease: claimed.lease,
            round: claimed.rounds + 1,
            attempts: Vec::new(),
            skipped: Vec::new(),
            accepted: false,
            unknown_since: None,
            round_spent: false,
            next: Next::Person { status, open },
        };
        self.settler.settle(settlement, claimed.lane).await;
    }
}

/// Whether a provider may have the message, and the caller asked not to risk a duplicate.
fn holds_unknown(claimed: &Claimed) -> bool {
    claimed.unknown_since.is_some() && claimed.unknown_outcome == UnknownOutcome::Hold
}

/// How long the provider that may have the message will still recognise it by its key, `None` if it does not; without
/// end if none may have it, or the caller takes the risk.
fn time_to_ask(chain: &Chain, claimed: &Claimed, now: OffsetDateTime) -> Option<Duration> {
    let Some(since) = claimed.unknown_since.filter(|_| holds_unknown(claimed)) else { return Some(Duration::MAX) };
    let window = chain.recognises_key_for(&claimed.provider)?;
    Duration::try_from(since + window - now).ok().filter(|left| !left.is_zero())
}

fn standing(claimed: &Claimed, open: Vec<RecipientIndex>) -> Standing {
    Standing {
        rounds: claimed.rounds,
        open,
        accepted_before: claimed.accepted_before,
        unknown_since: claimed.unknown_since,
        unknown_at: claimed.unknown_at.clone(),
        untried: claimed.untried,
        cancel_requested: false,
        expire_at: claimed.expire_at,
        give_up_at: claimed.give_up_at,
        unknown_outcome: claimed.unknown_outcome,
    }
}

fn first_unknown(round: &Round) -> Option<OffsetDateTime> {
    round.attempts.iter().find(|attempt| attempt.left_any(Class::OutcomeUnknown)).map(|attempt| attempt.started_at)
}
