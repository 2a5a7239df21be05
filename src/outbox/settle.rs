//! Settle: what rounds came to is written back, under the lease that they ran under.
//!
//! Owns the fence: a late outcome changes nothing newer. What happens next was decided by [`crate::delivery::next`].

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Lease, Outbox, OutboxError, Settled, Settlement,
    attempts::{self, AttemptColumns},
    database::Begun,
    days::id_range,
    skips,
};
use crate::delivery::{Class, Next, Status, Verdict};

impl Outbox {
    /// Writes back a batch of outcomes, finished and not, and says, in their order, what became of each.
    ///
    /// One statement for what went well at the first try, one transaction for the rest, and another where a lease no
    /// longer held. Made again after its answer was lost it writes nothing twice.
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, OutboxError> {
        let mut held = self.settle_sent(settlements).await?;
        let rest: Vec<&Settlement> = settlements.iter().filter(|s| !held.contains(&lease_key(s.lease))).collect();
        held.extend(self.settle_held(&rest).await?);
        let is_held = |settlement: &&Settlement| held.contains(&lease_key(settlement.lease));
        let late: Vec<&Settlement> = settlements.iter().filter(|s| !is_held(s)).collect();
        let late = self.settle_late(&late).await?;
        let settled = |settlement: &Settlement| match is_held(&settlement) {
            true => Settled::Done,
            false => late.get(&settlement.lease).copied().unwrap_or(Settled::Gone),
        };
        Ok(settlements.iter().map(settled).collect())
    }

    /// Settles those that went well at the first try, and says which they are: nearly all there are on a good day, and
    /// little work.
    async fn settle_sent(&self, settlements: &[Settlement]) -> Result<HashSet<(Uuid, i64)>, OutboxError> {
        let mut sent: Vec<&Settlement> = settlements.iter().filter(|s| is_sent_at_once(s)).collect();
        sent.sort_unstable_by_key(|settlement| lease_key(settlement.lease));
        sent.dedup_by_key(|settlement| settlement.lease);
        if sent.is_empty() {
            return Ok(HashSet::new());
        }
        let mut columns = AttemptColumns::default();
        for settlement in sent {
            columns.push_all(settlement.lease, settlement.round, &settlement.attempts);
        }
        let sent = self
            .hot
            .repeat(|| async {
                sqlx::query_file!(
                    "src/outbox/settle_sent.sql",
                    &columns.id,
                    &columns.token,
                    &columns.round,
                    &columns.provider as _,
                    &columns.started_at,
                    &columns.duration_us,
                    &columns.class as _,
                    &columns.scope as _,
                    &columns.code,
                    &columns.detail,
                    &columns.provider_message_id as _,
                    &columns.offered as _,
                    &columns.verdicts as _,
                    &columns.skipped as _
                )
                .fetch_all(&self.hot)
                .await
            })
            .await?;
        Ok(sent.into_iter().map(|row| (row.id, row.token)).collect())
    }

    /// Begins a transaction that has these messages to itself. What a statement finds written was written before it
    /// began, and not before it had waited for others: so one made again, while the first still goes on in a server that
    /// has not noticed the loss of its connection, would write everything twice.
    pub(super) async fn begin_on(&self, ids: &[Uuid]) -> sqlx::Result<Begun> {
        let mut begun = self.database.begin("").await?;
        let mut keys: Vec<i64> = ids.iter().map(|id| key_of(*id)).collect();
        keys.sort_unstable();
        sqlx::query!("select pg_advisory_xact_lock(key) from unnest($1::bigint[]) as key", &keys)
            .execute(&mut begun)
            .await?;
        Ok(begun)
    }

    /// Settles those whose lease holds, and says which they are.
    async fn settle_held(&self, settlements: &[&Settlement]) -> Result<HashSet<(Uuid, i64)>, OutboxError> {
        let mut outcomes = OutcomeColumns::default();
        let mut columns = AttemptColumns::default();
        let mut seen = HashSet::new();
        for settlement in settlements.iter().filter(|settlement| seen.insert(settlement.lease)) {
            outcomes.push(settlement);
            columns.push_all(settlement.lease, settlement.round, &settlement.attempts);
        }
        if outcomes.id.is_empty() {
            return Ok(HashSet::new());
        }
        let (least, greatest) = id_range(&outcomes.id);
        let held = self
            .database
            .repeat(|| async {
                let mut begun = self.begin_on(&outcomes.id).await?;
                let held = sqlx::query_file!(
                    "src/outbox/settle.sql",
                    &outcomes.id,
                    &outcomes.token,
                    &outcomes.status as _,
                    &outcomes.due_at as _,
                    &outcomes.open,
                    &outcomes.ask_first as _,
                    &outcomes.round_spent,
                    &outcomes.accepted,
                    &outcomes.unknown_since as _,
                    &outcomes.closed,
                    &outcomes.skipped as _,
                    &columns.id,
                    &columns.token,
                    &columns.nth,
                    &columns.round,
                    &columns.provider as _,
                    &columns.started_at,
                    &columns.duration_us,
                    &columns.class as _,
                    &columns.scope as _,
                    &columns.code,
                    &columns.detail,
                    &columns.provider_message_id as _,
                    &columns.offered as _,
                    &columns.verdicts as _,
                    &columns.skipped as _,
                    least,
                    greatest
                )
                .fetch_all(&mut begun)
                .await?;
                begun.commit().await?;
                Ok(held)
            })
            .await?;
        Ok(held.into_iter().map(|row| (row.id, row.token)).collect())
    }

    /// Adds late outcomes to the history, those of one message one after the other.
    async fn settle_late(&self, late: &[&Settlement]) -> Result<HashMap<Lease, Settled>, OutboxError> {
        let mut settled = HashMap::new();
        let mut rest = late.to_vec();
        while !rest.is_empty() {
            let mut met = HashSet::new();
            let (now, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|s| met.insert(s.lease.id));
            self.add_late(&now, &mut settled).await?;
            rest = later;
        }
        Ok(settled)
    }

    async fn add_late(&self, late: &[&Settlement], settled: &mut HashMap<Lease, Settled>) -> Result<(), OutboxError> {
        let ids: Vec<Uuid> = late.iter().map(|settlement| settlement.lease.id.as_uuid()).collect();
        let accepted: Vec<String> =
            late.iter().map(|settlement| attempts::list(attempts::accepted(&settlement.attempts))).collect();
        let mut columns = AttemptColumns::default();
        for settlement in late {
            columns.push_all(settlement.lease, settlement.round, &settlement.attempts);
        }
        let (least, greatest) = id_range(&ids);
        let rows = self
            .database
            .repeat(|| async {
                let mut begun = self.begin_on(&ids).await?;
                let rows = sqlx::query_file!(
                    "src/outbox/late.sql",
                    &ids,
                    &accepted,
                    &columns.id,
                    &columns.nth,
                    &columns.round,
                    &columns.provider as _,
                    &columns.started_at,
                    &columns.duration_us,
                    &columns.class as _,
                    &columns.scope as _,
                    &columns.code,
                    &columns.detail,
                    &columns.provider_message_id as _,
                    &columns.offered as _,
                    &columns.verdicts as _,
                    &columns.skipped as _,
                    least,
                    greatest
                )
                .fetch_all(&mut begun)
                .await?;
                begun.commit().await?;
                Ok(rows)
            })
            .await?;
        let news: HashMap<Uuid, bool> = rows.into_iter().map(|row| (row.id, row.is_news)).collect();
        settled.extend(late.iter().map(|settlement| {
            let became = match news.get(&settlement.lease.id.as_uuid()) {
                None => Settled::Gone,
                // Its attempts stand in the history: it was written, and only the answer was lost.
                Some(false) if !settlement.attempts.is_empty() => Settled::Done,
                Some(_) => Settled::Late,
            };
            (settlement.lease, became)
        }));
        Ok(())
    }
}

/// The key of a message among the advisory locks. Two messages may share one, and then wait for each other.
fn key_of(id: Uuid) -> i64 {
    let (_, random) = id.as_u64_pair();
    random.cast_signed()
}

fn lease_key(lease: Lease) -> (Uuid, i64) {
    (lease.id.as_uuid(), lease.token)
}

/// Whether the first provider that was asked accepted the message for every recipient that was offered.
fn is_sent_at_once(settlement: &Settlement) -> bool {
    let [attempt] = &settlement.attempts[..] else { return false };
    let is_accepted = |(_, verdict): &(_, Verdict)| verdict.class == Class::Accepted;
    settlement.next == Next::Finished(Status::SuccessSent) && attempt.outcome.verdicts.iter().all(is_accepted)
}

/// Outcomes as columns.
#[derive(Default)]
struct OutcomeColumns<'a> {
    id: Vec<Uuid>,
    token: Vec<i64>,
    status: Vec<&'static str>,
    due_at: Vec<Option<OffsetDateTime>>,
    open: Vec<String>,
    ask_first: Vec<Option<&'a str>>,
    round_spent: Vec<bool>,
    accepted: Vec<bool>,
    unknown_since: Vec<Option<OffsetDateTime>>,
    closed: Vec<bool>,
    skipped: Vec<Option<String>>,
}

impl<'a> OutcomeColumns<'a> {
    fn push(&mut self, settlement: &'a Settlement) {
        self.id.push(settlement.lease.id.as_uuid());
        self.token.push(settlement.lease.token);
        self.accepted.push(settlement.accepted);
        self.unknown_since.push(settlement.unknown_since);
        self.closed.push(closes(settlement));
        self.skipped.push(skips::to_json(&settlement.skipped));
        let (status, due_at, open, ask_first, round_spent) = match &settlement.next {
            Next::Finished(status) => (*status, None, String::new(), None, settlement.round_spent),
            Next::Person { status, open } => {
                (*status, None, attempts::list(open.iter().copied()), None, settlement.round_spent)
            }
            Next::Again { status, due_at, open, round_spent, ask_first } => {
                (*status, Some(*due_at), attempts::list(open.iter().copied()), ask_first.as_ref(), *round_spent)
            }
        };
        self.status.push(Status::as_str(status));
        self.due_at.push(due_at);
        self.open.push(open);
        self.ask_first.push(ask_first.map(|provider| provider.as_str()));
        self.round_spent.push(round_spent);
    }
}

/// Whether the last attempt left no recipient open that it was offered.
fn closes(settlement: &Settlement) -> bool {
    let last = settlement.attempts.last();
    last.is_some_and(|attempt| attempt.outcome.verdicts.iter().all(|(_, verdict)| verdict.class.is_final()))
}
