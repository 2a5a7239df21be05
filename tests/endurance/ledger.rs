//! The account of a test: what the service accepted, what arrived at the provider, and what GetStatus tells of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use futures_util::stream::{self, StreamExt};
use postrider::proto::v1::{EventKind, GetStatusResponse, OutcomeClass, Status};
use tokio::time::{Instant, sleep};

use super::{fleet::Ground, load::Accepted};
use crate::support::caller::history;

/// The longest that the last message may take when all is well again.
const LONGEST: Duration = Duration::from_secs(60);
/// How long an outcome is waited for that comes late.
const LONGEST_LATE: Duration = Duration::from_secs(10);

/// The account of every message.
pub struct Ledger {
    messages: BTreeMap<String, Entry>,
    failed_calls: usize,
}

/// The account of one message.
struct Entry {
    arrived: usize,
    /// How many of these a process handed over that was not killed.
    arrived_by_living: usize,
    told: GetStatusResponse,
}

/// What a ledger comes to.
#[derive(Debug)]
pub struct Sums {
    accepted: usize,
    failed_calls: usize,
    arrived: usize,
    duplicates: usize,
    takeovers: usize,
    most_takeovers: usize,
    other_unknown: usize,
    pub late_outcomes: usize,
}

impl Ledger {
    /// Waits until nothing is left to be done, and asks what became of each message.
    pub async fn close(ground: &Ground, accepted: Accepted) -> Self {
        settled(ground).await;
        let mut arrived: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for arrival in ground.provider.arrivals() {
            let counts = arrived.entry(arrival.message).or_default();
            counts.0 += 1;
            counts.1 += usize::from(!ground.was_killed(&arrival.by));
        }
        let ids: BTreeSet<String> = accepted.ids.iter().cloned().collect();
        assert_eq!(ids.len(), accepted.ids.len(), "two emails, one message");
        let unasked: Vec<&String> = arrived.keys().filter(|id| !ids.contains(*id)).collect();
        assert!(unasked.is_empty(), "sent, and accepted from nobody: {unasked:?}");

        let entry = |id: String| {
            let (arrived, arrived_by_living) = arrived.get(&id).copied().unwrap_or_default();
            async move {
                // An outcome that comes late may be on its way when the message is finished.
                let deadline = Instant::now() + LONGEST_LATE;
                let is_told =
                    |told: &GetStatusResponse| acceptances(told) >= arrived_by_living || Instant::now() > deadline;
                let told = ground.any_caller().wait(&id, is_told).await;
                (id, Entry { arrived, arrived_by_living, told })
            }
        };
        let messages = stream::iter(ids).map(entry).buffer_unordered(16).collect().await;
        Self { messages, failed_calls: accepted.failed_calls }
    }

    /// Checks every entry, and adds up.
    pub fn check(&self) -> Sums {
        let mut sums = Sums {
            accepted: self.messages.len(),
            failed_calls: self.failed_calls,
            arrived: 0,
            duplicates: 0,
            takeovers: 0,
            most_takeovers: 0,
            other_unknown: 0,
            late_outcomes: 0,
        };
        for (id, entry) in &self.messages {
            entry.check().unwrap_or_else(|wrong| panic!("{id} {wrong}: {entry}"));
            let takeovers = entry.count(|kind, _| kind == EventKind::Takeover);
            sums.arrived += entry.arrived;
            sums.duplicates += entry.arrived - 1;
            sums.takeovers += takeovers;
            sums.most_takeovers = sums.most_takeovers.max(takeovers);
            sums.other_unknown +=
                entry.count(|kind, class| kind != EventKind::Takeover && class == OutcomeClass::OutcomeUnknown);
            sums.late_outcomes += entry.count(|kind, _| kind == EventKind::LateOutcome);
        }
        sums
    }

    /// Whether that message has an attempt in its history that nobody can know the outcome of.
    pub fn has_unknown(&self, id: &str) -> bool {
        self.messages.get(id).is_some_and(|entry| entry.unknown() > 0)
    }
}

impl Entry {
    fn check(&self) -> Result<(), &'static str> {
        let wrong = [
            (self.told.status() != Status::SuccessSent, "is not SUCCESS_SENT"),
            (self.arrived == 0, "is lost"),
            (self.arrived > 1 + self.unknown(), "arrived more often than its history accounts for"),
            (acceptances(&self.told) > self.arrived, "was accepted more often than it arrived"),
            (acceptances(&self.told) < self.arrived_by_living, "has an outcome that nobody wrote down"),
            (self.goes_on_after_acceptance(), "was sent again though it was known to be sent"),
        ];
        wrong.into_iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, what)| Err(what))
    }

    /// The attempts that nobody could know the outcome of when they were written down.
    fn unknown(&self) -> usize {
        self.count(|_, class| class == OutcomeClass::OutcomeUnknown)
    }

    /// Whether another attempt follows one that was accepted, in the order in which they were written down.
    fn goes_on_after_acceptance(&self) -> bool {
        let events = self.told.events.iter();
        let mut rest = events.skip_while(|event| event.outcome() != OutcomeClass::Accepted).skip(1);
        rest.any(|event| event.kind() != EventKind::LateOutcome)
    }

    fn count(&self, is_one: impl Fn(EventKind, OutcomeClass) -> bool) -> usize {
        self.told.events.iter().filter(|event| is_one(event.kind(), event.outcome())).count()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arrived, arrived_by_living, told } = self;
        let status = told.status().as_str_name();
        write!(f, "{status}, arrived {arrived} times, {arrived_by_living} of them by a process that lives; ")?;
        write!(f, "{:#?}", history(told))
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} accepted ({} calls failed and were repeated), ", self.accepted, self.failed_calls)?;
        write!(f, "{} arrived, {} duplicates, ", self.arrived, self.duplicates)?;
        write!(f, "{} takeovers (of one message at most {}), ", self.takeovers, self.most_takeovers)?;
        write!(f, "{} other unknown outcomes, {} late outcomes", self.other_unknown, self.late_outcomes)
    }
}

/// How many attempts were accepted, in time or late.
fn acceptances(told: &GetStatusResponse) -> usize {
    told.events.iter().filter(|event| event.outcome() == OutcomeClass::Accepted).count()
}

/// Waits until every message is finished.
async fn settled(ground: &Ground) {
    let deadline = Instant::now() + LONGEST;
    loop {
        let left = ground.select("select id::text from postrider.pending order by id").await;
        let Some(first) = left.first() else { return };
        if Instant::now() > deadline {
            let told = ground.any_caller().status(first).await;
            panic!("{} messages are left, the first is {told:#?}", left.len());
        }
        sleep(Duration::from_millis(50)).await;
    }
}
