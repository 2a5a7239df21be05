//! What is due is claimed once, and what is found out of order is dealt with.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use postrider::{
    delivery::{Attempt, Class, Next, ProviderName, Round, Standing, Status, next},
    message::{ClientId, MessageId, RecipientIndex, UnknownOutcome},
    outbox::{ClaimRequest, Claimed, Claims, EventKind, Holding, LaneClaim, LaneFound, MessageStatus, Rest},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::{
    DAY, Draft, HOUR, SECOND, attempt, begin, claim, claimed_one, let_leases_run_out, policy, request, request_of,
};
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
                let claimed = claim(&outbox, 7).await;
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
    assert!(claim(&db.outbox, 10).await.is_empty(), "it is claimed once");
}

#[tokio::test]
async fn only_the_lanes_asked_for_are_claimed_from_each_for_its_own_chain() {
    let db = Database::new().await;
    Draft { chain: "other", ..Draft::default() }.accept(&db.outbox, 1).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
    let request = request_of(&db.outbox, "other", "second", 10).await;
    let claimed = db.outbox.claim(&request).await.unwrap().messages;
    assert_eq!((claimed[0].chain.as_str(), claimed[0].provider.as_str()), ("other", "second"));
    assert_eq!(claimed[0].lane, request.lanes[0].lane);
}

/// A lane for each client, with so many messages, in the order given.
async fn lanes_of(db: &Database, clients: &[(&'static str, usize)]) -> (Vec<LaneClaim>, Vec<Vec<MessageId>>) {
    let (mut ids, mut lanes) = (Vec::new(), Vec::new());
    for &(client, count) in clients {
        ids.push(Draft { client, ..Draft::default() }.accept(&db.outbox, count).await);
    }
    let all = request(&db.outbox, 100).await.lanes;
    let seen = db.outbox.look().await.unwrap();
    for (client, _) in clients {
        let lane = seen.iter().find(|seen| seen.lane.client == ClientId::new(client)).unwrap().lane.id;
        lanes.push(all.iter().find(|asked| asked.lane == lane).unwrap().clone());
    }
    (lanes, ids)
}

async fn accepted_at(db: &Database, id: MessageId) -> OffsetDateTime {
    db.outbox.status(&[id], None).await.unwrap()[0].accepted_at
}

fn ids_of(claims: &Claims) -> Vec<MessageId> {
    claims.messages.iter().map(|one| one.lease.id).collect()
}

#[tokio::test]
async fn lanes_are_looked_at_in_the_order_given_and_no_further_than_needed() {
    let db = Database::new().await;
    let (lanes, ids) = lanes_of(&db, &[("a", 3), ("b", 3), ("c", 3)]).await;
    let [a, b, c] = [&lanes[0], &lanes[1], &lanes[2]];
    let limited = |asked: &LaneClaim, limit| LaneClaim { limit, ..asked.clone() };
    let asked = vec![limited(c, 2), limited(a, 5), limited(b, 5)];
    let claims = db.outbox.claim(&ClaimRequest { lanes: asked, ..request(&db.outbox, 4).await }).await.unwrap();
    assert_eq!(ids_of(&claims), [ids[2][0], ids[2][1], ids[0][0], ids[0][1]]);
    let (of_c, of_a) = (accepted_at(&db, ids[2][1]).await, accepted_at(&db, ids[0][1]).await);
    let found = |asked: &LaneClaim, rest| LaneFound { lane: asked.lane, found: 2, rest };
    assert_eq!(claims.lanes, [found(c, Rest::From(of_c)), found(a, Rest::From(of_a))], "b was not looked at");

    let claims = db.outbox.claim(&ClaimRequest { lanes, ..request(&db.outbox, 100).await }).await.unwrap();
    assert_eq!(ids_of(&claims), [vec![ids[0][2]], ids[1].clone(), vec![ids[2][2]]].concat());
    let left: Vec<(usize, Rest)> = claims.lanes.iter().map(|lane| (lane.found, lane.rest)).collect();
    assert_eq!(left, [(1, Rest::Nothing), (3, Rest::Nothing), (1, Rest::Nothing)]);
}

#[tokio::test]
async fn what_was_due_before_the_position_is_not_looked_at() {
    let db = Database::new().await;
    Draft { age: HOUR, ..Draft::default() }.accept(&db.outbox, 1).await;
    let after = Draft { age: SECOND, ..Draft::default() }.accept(&db.outbox, 1).await;
    let mut request = request(&db.outbox, 10).await;
    request.lanes[0].since = Some(db.outbox.clock().now() - HOUR / 2);
    let claims = db.outbox.claim(&request).await.unwrap();
    assert_eq!(ids_of(&claims), after);
    assert_eq!(claims.lanes[0].rest, Rest::Nothing);
}

#[tokio::test]
async fn a_lane_with_something_out_of_order_is_looked_at_again_from_there() {
    let db = Database::new().await;
    let held = claimed_one(&db, &Draft::default()).await;
    Draft::default().accept(&db.outbox, 3).await;
    let_leases_run_out(&db).await;
    let claims = db.outbox.claim(&request(&db.outbox, 10).await).await.unwrap();
    assert_eq!(claims.messages.len(), 4);
    let taken_over = claims.messages.iter().find(|one| one.lease.id == held.lease.id).unwrap();
    assert_eq!((taken_over.rounds, taken_over.ask_first, taken_over.lane), (1, true, held.lane));
    assert!(matches!(claims.lanes[0], LaneFound { found: 4, rest: Rest::From(_), .. }), "{:?}", claims.lanes);
}

#[tokio::test]
async fn a_thousand_lanes_are_claimed_from_at_once() {
    let db = Database::new().await;
    db.execute(
        "insert into lane (chain, priority, client)
        select 'default', 'NORMAL', 'client ' || n from generate_series(1, 1000) as n;
        insert into pending (id, lane, status, due_at, give_up_at, hold)
        select
            (substr('0190d7ac-0000-7000-8000-000000000000', 1, 24) || lpad(lane.id::text, 12, '0'))::uuid,
            lane.id, 'NOT_YET_SENT', now(), now() + interval '1 day', false
        from lane",
    )
    .await;
    let claims = db.outbox.claim(&request(&db.outbox, 900).await).await.unwrap();
    assert_eq!((claims.messages.len(), claims.lanes.len()), (900, 900));
    let claims = db.outbox.claim(&request(&db.outbox, 900).await).await.unwrap();
    assert_eq!((claims.messages.len(), claims.lanes.len()), (100, 1000));
}

#[tokio::test]
async fn paused_lanes_are_left_alone_but_what_must_end_ends() {
    let db = Database::new().await;
    let (lanes, ids) = lanes_of(&db, &[("a", 5), ("b", 5)]).await;
    db.execute("update lane set paused = true where client = 'a'").await;
    assert_eq!(claim(&db.outbox, 50).await.iter().map(|one| one.lease.id).collect::<Vec<_>>(), ids[1]);
    db.execute(&format!("update pending set expire_at = now() where id = '{}'", ids[0][0])).await;
    assert_eq!(db.outbox.sweep(&[lanes[0].lane]).await.unwrap(), 1);
    assert!(claim(&db.outbox, 50).await.is_empty());
    let seen = db.outbox.look().await.unwrap();
    let is_paused = |lane| seen.iter().find(|seen| seen.lane.id == lane).unwrap().lane.paused;
    assert!(is_paused(lanes[0].lane) && !is_paused(lanes[1].lane));
}

#[tokio::test]
async fn a_look_tells_of_every_lane_when_something_is_due_in_it() {
    let db = Database::new().await;
    let due = Draft { client: "due", age: HOUR, ..Draft::default() };
    let later = Draft { client: "later", wait: HOUR, ..Draft::default() };
    let (due, later) = (due.accept(&db.outbox, 2).await, later.accept(&db.outbox, 2).await);
    let none = Draft { client: "none", ..Draft::default() }.accept(&db.outbox, 1).await;
    db.execute(&format!("delete from pending where id = '{}'", none[0])).await;
    let seen = db.outbox.look().await.unwrap();
    let expected = [Some(accepted_at(&db, due[0]).await), Some(accepted_at(&db, later[0]).await + HOUR), None];
    assert_eq!(seen.iter().map(|seen| seen.earliest).collect::<Vec<_>>(), expected);

    let now = db.outbox.clock().now();
    let asked: Vec<_> = seen.iter().map(|seen| (seen.lane.id, now)).collect();
    let next = db.outbox.next_due(&asked).await.unwrap();
    assert_eq!(next, [(seen[1].lane.id, expected[1].unwrap())]);
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
            unknown_at: None,
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
    let idempotent = vec![ProviderName::new("knows-keys")];
    let request = ClaimRequest { idempotent, ..request(&db.outbox, 2000).await };
    let claimed = db.outbox.claim(&request).await.unwrap().messages;
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
    let lane = db.outbox.look().await.unwrap()[0].lane.id;
    assert_eq!(db.outbox.sweep(&[]).await.unwrap(), 0);
    assert_eq!(db.outbox.sweep(&[lane]).await.unwrap(), over.len() as u64);
    let after = db.outbox.status(&ids, None).await.unwrap();
    for (situation, after) in over.iter().zip(&after) {
        check_fate(*situation, None, after);
    }
    assert!(after[over.len()..].iter().all(|rest| rest.status == Status::NotYetSent), "the rest waits");
    assert_eq!(db.outbox.sweep(&[lane]).await.unwrap(), 0);
}

#[tokio::test]
async fn what_was_never_tried_expires_or_is_given_up_before_it_is_sent() {
    let db = Database::new().await;
    let expired = Draft { age: HOUR, expire_in: Some(SECOND), ..Draft::default() }.accept(&db.outbox, 1).await[0];
    let given_up = Draft { age: 4 * HOUR, ..Draft::default() }.accept(&db.outbox, 1).await[0];
    db.execute(&format!("update pending set give_up_at = now() where id = '{given_up}'")).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
    let after = db.outbox.status(&[expired, given_up], None).await.unwrap();
    assert_eq!(after[0].status, Status::Expired);
    assert_eq!(after[1].status, Status::FailedRetriesExhausted);
    let pending: Vec<MessageId> =
        db.outbox.status(&[expired, given_up], None).await.unwrap().iter().map(|s| s.id).collect();
    assert_eq!(pending, [expired, given_up], "both are still in the outbox");
    assert_eq!(db.count("pending").await, 1, "a person has only one of them");
}

#[tokio::test]
async fn claims_get_past_what_has_come_to_its_end() {
    let db = Database::new().await;
    Draft { age: HOUR, expire_in: Some(SECOND), ..Draft::default() }.accept(&db.outbox, 20).await;
    let alive = Draft::default().accept(&db.outbox, 1).await;
    let mut claimed = Vec::new();
    loop {
        let claims = db.outbox.claim(&request(&db.outbox, 5).await).await.unwrap();
        claimed.extend(ids_of(&claims));
        if !claims.has_rest() {
            break;
        }
    }
    assert_eq!(claimed, alive);
    assert_eq!(db.count("event where kind = 'EXPIRED'").await, 20);
}

#[tokio::test]
async fn a_message_that_kills_its_dispatcher_ends_in_front_of_a_person() {
    let db = Database::new().await;
    let id = claimed_one(&db, &Draft::default()).await.lease.id;
    for round in 1..policy().max_rounds {
        let_leases_run_out(&db).await;
        let again = claim(&db.outbox, 10).await;
        assert_eq!((again.len(), again[0].rounds), (1, round));
        assert!(again[0].ask_first, "whoever may have it is asked first");
        begin(&db, &again[0]).await;
    }
    let_leases_run_out(&db).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
    let after = db.outbox.status(&[id], None).await.unwrap().remove(0);
    assert_eq!((after.status, after.rounds), (Status::FailedRetriesExhausted, 3));
    let rounds: Vec<_> = after.events.iter().map(|e| (e.kind, e.round, e.class)).collect();
    let takeover = |round| (EventKind::Takeover, Some(round), Some(Class::OutcomeUnknown));
    assert_eq!(rounds, [takeover(1), takeover(2), takeover(3)]);
    assert_eq!(after.events[0].verdicts.len(), 1, "it speaks for the recipients that were open");
}

#[tokio::test]
async fn what_is_only_held_while_processes_die_is_charged_once_at_most() {
    let db = Database::new().await;
    let id = claimed_one(&db, &Draft::default()).await.lease.id;
    for _ in 0..2 * policy().max_rounds {
        let_leases_run_out(&db).await;
        let again = claim(&db.outbox, 10).await;
        assert_eq!((again.len(), again[0].rounds, again[0].is_begun), (1, 1, false));
    }
    let after = db.outbox.status(&[id], None).await.unwrap().remove(0);
    let unknown = after.events.iter().filter(|event| event.class == Some(Class::OutcomeUnknown)).count();
    assert_eq!((after.status, after.rounds, unknown), (Status::InProcess, 1, 1));
}

#[tokio::test]
async fn whoever_does_not_take_over_leaves_what_others_hold() {
    let db = Database::new().await;
    let held = claimed_one(&db, &Draft::default()).await;
    let waiting = Draft::default().accept(&db.outbox, 1).await;
    let_leases_run_out(&db).await;

    let request = ClaimRequest { takes_over: false, ..request(&db.outbox, 10).await };
    let claimed = db.outbox.claim(&request).await.unwrap().messages;
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
    let second = claim(&db.outbox, 10).await.remove(0);
    assert_ne!(second.lease.token, first.lease.token);
    assert_eq!((second.rounds, second.untried, second.unknown_since), (0, true, None));

    let provider = ProviderName::new("primary");
    db.outbox.hand_over(&second.lease, 1, &[], &[RecipientIndex(0)], &provider).await.unwrap();
    let_leases_run_out(&db).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
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
    let claimed = claim(&db.outbox, 10).await;
    let claimed: BTreeSet<MessageId> = claimed.iter().map(|one| one.lease.id).collect();
    assert_eq!(claimed, BTreeSet::from([ids[0], ids[2]]));
    assert_eq!(db.count("pending where status = 'FAILED_NOT_RETRYABLE'").await, 1);
    let_leases_run_out(&db).await;
    assert_eq!(claim(&db.outbox, 10).await.len(), 2, "and it does not come again");
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
    assert!(claim(&db.outbox, 10).await.is_empty());
}
