//! What is due is claimed once, fairly, and what is found out of order is dealt with.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use postrider::{
    delivery::{Attempt, Class, Next, ProviderName, Round, Standing, Status, next},
    message::{MessageId, Priority, RecipientIndex, UnknownOutcome},
    outbox::{ClaimRequest, Claimed, EventKind, Holding, MessageStatus},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::{DAY, Draft, HOUR, SECOND, attempt, claimed_one, let_leases_run_out, policy, request};
use crate::support::postgres::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claimers_take_each_message_once() {
    let db = Database::new().await;
    let ids: BTreeSet<MessageId> = Draft::default().accept(&db.outbox, 400).await.into_iter().collect();
    let mut claimers = JoinSet::new();
    for n in 0..8 {
        let outbox = if n % 2 == 0 { db.outbox.clone() } else { db.another_process().await };
        let sql = db.sql.clone();
        claimers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = outbox.claim(&request(7)).await.unwrap();
                // A claim skips what another one is just taking, so an empty one is not the end.
                if claimed.is_empty() && !is_any_due(&sql).await {
                    return mine;
                }
                mine.extend(claimed.iter().map(|claimed| claimed.lease));
            }
        });
    }
    let leases: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    assert_eq!(leases.len(), 400);
    assert_eq!(leases.iter().map(|lease| lease.id).collect::<BTreeSet<_>>(), ids);
    assert_eq!(leases.iter().map(|lease| lease.token).collect::<BTreeSet<_>>().len(), 400, "tokens are unlike");
}

async fn is_any_due(sql: &PgPool) -> bool {
    sqlx::query_scalar("select exists (select from pending where due_at <= now())").fetch_one(sql).await.unwrap()
}

#[tokio::test]
async fn a_claim_tells_what_was_accepted_and_for_how_long_it_holds() {
    let db = Database::new().await;
    let draft = Draft { unknown_outcome: UnknownOutcome::Hold, expire_in: Some(DAY), ..Draft::default() };
    let before = db.outbox.clock().now();
    let claimed = claimed_one(&db, &draft).await;
    assert!(claimed.leased_until > before + 29 * SECOND && claimed.leased_until < before + 31 * SECOND);
    assert_eq!(claimed.chain, "default");
    assert_eq!(claimed.provider, ProviderName::new("primary"));
    assert_eq!((claimed.ask_first, claimed.untried, claimed.rounds), (false, true, 0));
    assert_eq!((claimed.open.clone(), claimed.accepted_before, claimed.unknown_since), (None, false, None));
    assert_eq!(claimed.unknown_outcome, UnknownOutcome::Hold);
    assert!(claimed.expire_at.is_some_and(|at| at > before + 23 * HOUR));
    assert!(claimed.give_up_at > before + 2 * DAY);
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty(), "it is claimed once");
}

#[tokio::test]
async fn only_the_chains_asked_for_are_claimed() {
    let db = Database::new().await;
    Draft { chain: "other", ..Draft::default() }.accept(&db.outbox, 1).await;
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty());
    let chains = BTreeMap::from([
        ("default".to_owned(), ProviderName::new("primary")),
        ("other".to_owned(), ProviderName::new("second")),
    ]);
    let claimed = db.outbox.claim(&ClaimRequest { chains, ..request(10) }).await.unwrap();
    assert_eq!(claimed[0].provider, ProviderName::new("second"));
    assert!(db.outbox.claim(&ClaimRequest { chains: BTreeMap::new(), ..request(10) }).await.unwrap().is_empty());
}

/// Accepts that many of each and tells whose they are.
async fn accept_by(
    db: &Database,
    drafts: &[(&'static str, Priority, usize)],
) -> HashMap<MessageId, (&'static str, Priority)> {
    let mut whose = HashMap::new();
    for &(client, priority, count) in drafts {
        let ids = Draft { client, priority, ..Draft::default() }.accept(&db.outbox, count).await;
        whose.extend(ids.into_iter().map(|id| (id, (client, priority))));
    }
    whose
}

fn count_by<K: Ord>(claimed: &[Claimed], key: impl Fn(MessageId) -> K) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for one in claimed {
        *counts.entry(key(one.lease.id)).or_insert(0) += 1;
    }
    counts
}

#[tokio::test]
async fn a_client_that_floods_does_not_delay_another() {
    let db = Database::new().await;
    let whose = accept_by(&db, &[("flood", Priority::Normal, 300), ("small", Priority::Normal, 3)]).await;
    let claimed = db.outbox.claim(&request(10)).await.unwrap();
    assert_eq!(count_by(&claimed, |id| whose[&id].0), BTreeMap::from([("flood", 7), ("small", 3)]));
}

#[tokio::test]
async fn priorities_share_by_weight_and_clients_of_one_equally() {
    let db = Database::new().await;
    let crowd = [
        ("a", Priority::High, 100),
        ("a", Priority::Normal, 100),
        ("a", Priority::Bulk, 100),
        ("b", Priority::Bulk, 100),
        ("c", Priority::Bulk, 100),
        ("d", Priority::Bulk, 100),
    ];
    let whose = accept_by(&db, &crowd).await;
    let claimed = db.outbox.claim(&request(104)).await.unwrap();
    let by_priority = count_by(&claimed, |id| whose[&id].1);
    let close = |priority, expected: usize| by_priority[&priority].abs_diff(expected) <= 4;
    assert!(close(Priority::High, 64) && close(Priority::Normal, 32) && close(Priority::Bulk, 8), "{by_priority:?}");
    let mut by_lane = count_by(&claimed, |id| whose[&id]);
    by_lane.retain(|(_, priority), _| *priority == Priority::Bulk);
    assert!(by_lane.len() == 4 && by_lane.values().all(|&n| n <= 3), "each gets some: {by_lane:?}");
}

#[tokio::test]
async fn nobody_starves_when_messages_are_claimed_one_at_a_time() {
    let db = Database::new().await;
    let whose =
        accept_by(&db, &[("a", Priority::High, 250), ("a", Priority::Normal, 250), ("a", Priority::Bulk, 250)]).await;
    let mut claimed = Vec::new();
    for _ in 0..200 {
        claimed.extend(db.outbox.claim(&request(1)).await.unwrap());
    }
    let counts = count_by(&claimed, |id| whose[&id].1);
    // By chance: of 200 about 140, 50 and 10. None at all is less likely than one in 40,000.
    assert_eq!(counts.len(), 3, "{counts:?}");
    assert!(counts[&Priority::High] > counts[&Priority::Bulk], "{counts:?}");
}

#[tokio::test]
async fn what_one_lane_leaves_the_others_get() {
    let db = Database::new().await;
    accept_by(&db, &[("a", Priority::High, 2), ("b", Priority::Bulk, 100)]).await;
    assert_eq!(db.outbox.claim(&request(50)).await.unwrap().len(), 50);
}

#[tokio::test]
async fn paused_lanes_are_left_alone() {
    let db = Database::new().await;
    let whose = accept_by(&db, &[("a", Priority::Normal, 5), ("b", Priority::Normal, 5)]).await;
    db.execute("update lane set paused = true where client = 'a'").await;
    let claimed = db.outbox.claim(&request(50)).await.unwrap();
    assert_eq!(count_by(&claimed, |id| whose[&id].0), BTreeMap::from([("b", 5)]));
}

/// A situation that a claim may find a message in.
#[derive(Clone, Copy, Debug)]
struct Situation {
    hold: bool,
    taken: bool,
    begun: bool,
    idempotent: bool,
    canceled: bool,
    expired: bool,
    gave_up: bool,
    accepted_before: bool,
    unknown_before: bool,
    rounds: u32,
}

impl Situation {
    /// Every one there can be.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bits in 0..1024u32 {
            let bit = |n: u32| bits & (1 << n) != 0;
            let situation = Self {
                hold: bit(0),
                taken: bit(1),
                begun: bit(2),
                idempotent: bit(3),
                canceled: bit(4),
                expired: bit(5),
                gave_up: bit(6),
                accepted_before: bit(7),
                unknown_before: bit(8),
                rounds: if bit(9) { policy().max_rounds - 1 } else { 1 },
            };
            // Only what is taken can have begun.
            if situation.taken || !situation.begun {
                all.push(situation);
            }
        }
        all
    }

    fn provider(self) -> &'static str {
        if self.idempotent { "knows-keys" } else { "primary" }
    }

    async fn arrange(self, db: &Database, id: MessageId) {
        let sql = format!(
            "update pending set
                status = '{status}', token = {token}, provider = '{provider}', ask_first = {unknown},
                begun_at = {begun_at}, cancel_requested = {canceled}, accepted_before = {accepted},
                unknown_since = case when {unknown} then now() - interval '1 hour' end,
                expire_at = case when {expired} then now() - interval '1 second' end,
                give_up_at = case when {gave_up} then now() - interval '1 second' else now() + interval '1 day' end,
                due_at = now() - interval '1 second', rounds = {rounds}, hold = {hold}, open_recipients = '{{0}}',
                attempts = 1, last_attempt_at = now(), last_provider = 'x', last_class = 'UNAVAILABLE'
            where id = '{id}'",
            status = if self.taken { "IN_PROCESS" } else { "REQUIRED_RESEND" },
            token = if self.taken { "7" } else { "null" },
            provider = self.provider(),
            unknown = self.unknown_before,
            begun_at = if self.begun { "now() - interval '1 minute'" } else { "null" },
            canceled = self.canceled,
            accepted = self.accepted_before,
            expired = self.expired,
            gave_up = self.gave_up,
            rounds = self.rounds,
            hold = self.hold,
        );
        db.execute(&sql).await;
    }

    /// What the transition function says: a takeover of what had begun is a round with an unknown outcome, anything
    /// else one in which nobody was asked.
    fn next(self) -> Next {
        let now = OffsetDateTime::now_utc();
        let standing = Standing {
            rounds: self.rounds,
            open: vec![RecipientIndex(0)],
            accepted_before: self.accepted_before,
            unknown_since: self.unknown_before.then_some(now - HOUR),
            untried: false,
            cancel_requested: self.canceled,
            expire_at: self.expired.then_some(now - SECOND),
            give_up_at: if self.gave_up { now - SECOND } else { now + DAY },
            unknown_outcome: if self.hold { UnknownOutcome::Hold } else { UnknownOutcome::Resend },
        };
        let cut_off = Attempt {
            recognises_key_for: self.idempotent.then_some(DAY),
            ..attempt(self.provider(), &[Class::OutcomeUnknown])
        };
        let attempts = if self.begun { vec![cut_off] } else { Vec::new() };
        next(&standing, &Round { attempts, ..Round::default() }, &policy(), now, 0.5)
    }
}

/// What a claim did must be what the transition function says.
fn check_fate(situation: Situation, claimed: Option<&Claimed>, after: &MessageStatus) {
    match situation.next() {
        Next::Again { .. } => {
            let claimed = claimed.unwrap_or_else(|| panic!("{situation:?}: not claimed, {}", after.status));
            assert_eq!(after.status, Status::InProcess);
            assert_eq!(claimed.rounds, situation.rounds + u32::from(situation.begun), "{situation:?}");
            assert_eq!(claimed.ask_first, situation.begun || situation.unknown_before, "{situation:?}");
            let provider = if claimed.ask_first { situation.provider() } else { "primary" };
            assert_eq!(claimed.provider.as_str(), provider, "{situation:?}");
            assert_eq!(claimed.unknown_since.is_some(), situation.begun || situation.unknown_before, "{situation:?}");
        }
        Next::Finished(status) | Next::Person { status, .. } => {
            assert!(claimed.is_none(), "{situation:?}: claimed, not {status}");
            assert_eq!(after.status, status, "{situation:?}");
            assert_eq!(after.finished_at.is_some(), status.is_finished(), "{situation:?}");
            assert_eq!(after.due_at, None, "{situation:?}");
        }
    }
    let kinds: Vec<EventKind> = after.events.iter().map(|event| event.kind).collect();
    let taken_over = situation.taken.then_some(EventKind::Takeover);
    let ended = match situation {
        Situation { canceled: true, .. } => Some(EventKind::Canceled),
        Situation { expired: true, .. } => Some(EventKind::Expired),
        Situation { gave_up: true, .. } => Some(EventKind::GaveUp),
        _ => None,
    };
    assert_eq!(kinds, taken_over.into_iter().chain(ended).collect::<Vec<_>>(), "{situation:?}");
    let taken_over = after.events.iter().find(|event| event.kind == EventKind::Takeover);
    assert_eq!(
        taken_over.and_then(|event| event.class),
        situation.begun.then_some(Class::OutcomeUnknown),
        "a takeover is an attempt of unknown outcome if sending had begun: {situation:?}"
    );
}

#[tokio::test]
async fn a_claim_and_the_transition_function_agree_in_every_situation() {
    let db = Database::new().await;
    let situations = Situation::all();
    let ids = Draft::default().accept(&db.outbox, situations.len()).await;
    for (situation, id) in situations.iter().zip(&ids) {
        situation.arrange(&db, *id).await;
    }
    let request = ClaimRequest { idempotent: vec![ProviderName::new("knows-keys")], ..request(2000) };
    let claimed = db.outbox.claim(&request).await.unwrap();
    let claimed: HashMap<MessageId, &Claimed> = claimed.iter().map(|one| (one.lease.id, one)).collect();
    let after = db.outbox.status(&ids, None).await.unwrap();
    for (situation, after) in situations.iter().zip(&after) {
        check_fate(*situation, claimed.get(&after.id).copied(), after);
    }
}

#[tokio::test]
async fn a_sweep_ends_the_same_as_a_claim_would_and_claims_nothing() {
    let db = Database::new().await;
    let over: Vec<Situation> =
        Situation::all().into_iter().filter(|s| s.canceled || s.expired || s.gave_up).step_by(7).collect();
    let ids = Draft::default().accept(&db.outbox, over.len() + 2).await;
    for (situation, id) in over.iter().zip(&ids) {
        situation.arrange(&db, *id).await;
    }
    assert_eq!(db.outbox.sweep(&["other".into()]).await.unwrap(), 0);
    assert_eq!(db.outbox.sweep(&["default".into()]).await.unwrap(), over.len() as u64);
    let after = db.outbox.status(&ids, None).await.unwrap();
    for (situation, after) in over.iter().zip(&after) {
        check_fate(*situation, None, after);
    }
    assert!(after[over.len()..].iter().all(|rest| rest.status == Status::NotYetSent), "the rest waits");
    assert_eq!(db.outbox.sweep(&["default".into()]).await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_never_tried_expires_or_is_given_up_before_it_is_sent() {
    let db = Database::new().await;
    let expired = Draft { age: HOUR, expire_in: Some(SECOND), ..Draft::default() }.accept(&db.outbox, 1).await[0];
    let given_up = Draft { age: 4 * HOUR, ..Draft::default() }.accept(&db.outbox, 1).await[0];
    db.execute(&format!("update pending set give_up_at = now() where id = '{given_up}'")).await;
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty());
    let after = db.outbox.status(&[expired, given_up], None).await.unwrap();
    assert_eq!(after[0].status, Status::Expired);
    assert_eq!(after[1].status, Status::FailedRetriesExhausted);
    let pending: Vec<MessageId> =
        db.outbox.status(&[expired, given_up], None).await.unwrap().iter().map(|s| s.id).collect();
    assert_eq!(pending, [expired, given_up], "both are still in the outbox");
    assert_eq!(db.count("pending").await, 1, "a person has only one of them");
}

#[tokio::test]
async fn a_claim_looks_past_what_has_come_to_its_end() {
    let db = Database::new().await;
    Draft { age: HOUR, expire_in: Some(SECOND), ..Draft::default() }.accept(&db.outbox, 20).await;
    let alive = Draft::default().accept(&db.outbox, 1).await;
    let claimed = db.outbox.claim(&request(5)).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.lease.id).collect::<Vec<_>>(), alive);
}

#[tokio::test]
async fn a_message_that_kills_its_dispatcher_ends_in_front_of_a_person() {
    let db = Database::new().await;
    let id = claimed_one(&db, &Draft::default()).await.lease.id;
    for round in 1..policy().max_rounds {
        let_leases_run_out(&db).await;
        let again = db.outbox.claim(&request(10)).await.unwrap();
        assert_eq!((again.len(), again[0].rounds), (1, round));
        assert!(again[0].ask_first, "whoever may have it is asked first");
    }
    let_leases_run_out(&db).await;
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty());
    let after = db.outbox.status(&[id], None).await.unwrap().remove(0);
    assert_eq!((after.status, after.rounds), (Status::FailedRetriesExhausted, 3));
    let rounds: Vec<_> = after.events.iter().map(|e| (e.kind, e.round, e.class)).collect();
    let takeover = |round| (EventKind::Takeover, Some(round), Some(Class::OutcomeUnknown));
    assert_eq!(rounds, [takeover(1), takeover(2), takeover(3)]);
    assert_eq!(after.events[0].verdicts.len(), 1, "it speaks for the recipients that were open");
}

#[tokio::test]
async fn whoever_does_not_take_over_leaves_what_others_hold() {
    let db = Database::new().await;
    let held = claimed_one(&db, &Draft::default()).await;
    let waiting = Draft::default().accept(&db.outbox, 1).await;
    let_leases_run_out(&db).await;

    let request = ClaimRequest { takes_over: false, ..request(10) };
    let claimed = db.outbox.claim(&request).await.unwrap();
    assert_eq!(claimed.iter().map(|one| one.lease.id).collect::<Vec<_>>(), waiting);
    let holding = db.outbox.renew(&[held.lease], HOUR).await.unwrap();
    assert!(matches!(holding[..], [(_, Holding::Held { .. })]), "{holding:?}");
}

#[tokio::test]
async fn under_hold_a_takeover_before_sending_began_costs_nothing() {
    let db = Database::new().await;
    let hold = Draft { unknown_outcome: UnknownOutcome::Hold, ..Draft::default() };
    let first = claimed_one(&db, &hold).await;
    let_leases_run_out(&db).await;
    let second = db.outbox.claim(&request(10)).await.unwrap().remove(0);
    assert_ne!(second.lease.token, first.lease.token);
    assert_eq!((second.rounds, second.untried, second.unknown_since), (0, true, None));

    let provider = ProviderName::new("primary");
    db.outbox.hand_over(&second.lease, 1, &[], &[RecipientIndex(0)], &provider).await.unwrap();
    let_leases_run_out(&db).await;
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty());
    let after = db.outbox.status(&[second.lease.id], None).await.unwrap().remove(0);
    assert_eq!(after.status, Status::FailedOutcomeUnknown);
    assert_eq!(after.provider, Some(provider), "the row says who may have it");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_goes_to_a_person_and_the_others_are_claimed() {
    let db = Database::new().await;
    let ids = Draft::default().accept(&db.outbox, 3).await;
    // An id without a time in it.
    db.execute(&format!("update pending set id = '8e0d3e1c-1111-4111-8111-111111111111' where id = '{}'", ids[1]))
        .await;
    let claimed = db.outbox.claim(&request(10)).await.unwrap();
    let claimed: BTreeSet<MessageId> = claimed.iter().map(|one| one.lease.id).collect();
    assert_eq!(claimed, BTreeSet::from([ids[0], ids[2]]));
    assert_eq!(db.count("pending where status = 'FAILED_NOT_RETRYABLE'").await, 1);
    let_leases_run_out(&db).await;
    assert_eq!(db.outbox.claim(&request(10)).await.unwrap().len(), 2, "and it does not come again");
}

#[tokio::test]
async fn the_database_decides_what_is_due_and_not_this_machine() {
    let db = Database::new().await;
    let exact = db.outbox.clock().now();
    db.outbox.clock().correct(time::Duration::hours(5));
    db.outbox.measure_clock().await.unwrap();
    assert!((db.outbox.clock().now() - exact).abs() < Duration::from_secs(60), "measured anew");
    Draft { wait: HOUR, ..Draft::default() }.accept(&db.outbox, 1).await;
    db.outbox.clock().correct(time::Duration::hours(5));
    assert!(db.outbox.claim(&request(10)).await.unwrap().is_empty());
}
