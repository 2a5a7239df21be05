//! The outbox on a real Postgres.

mod accept;
mod cancel;
mod checks;
mod claim;
mod company;
mod days;
mod decisions;
mod intake;
mod lease;
mod load;
mod overview;
mod plan;
mod positions;
mod provider_state;
mod query;
mod retention;
mod retirement;
mod settle;
mod tally;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use postrider::{
    delivery::{
        Attempt, Class, Growth, Health, Next, Outcome, ProviderName, RetryPolicy, Round, Scope, Standing, Verdict, next,
    },
    message::{
        ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, RecipientIndex, TraceContext,
        UnknownOutcome,
    },
    outbox::{
        Accepted, ClaimRequest, Claimed, Holding, IdempotencyKey, LaneClaim, LaneSeen, NewMessage, Outbox, Settlement,
    },
};
use time::OffsetDateTime;

use crate::support::postgres::Database;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A message in the making.
#[derive(Clone)]
pub struct Draft {
    pub client: &'static str,
    pub chain: &'static str,
    pub key: Option<(String, &'static str)>,
    pub priority: Priority,
    pub unknown_outcome: UnknownOutcome,
    pub recipients: usize,
    pub wait: Duration,
    pub expire_in: Option<Duration>,
    pub age: Duration,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            client: "shop",
            chain: "default",
            key: None,
            priority: Priority::Normal,
            unknown_outcome: UnknownOutcome::Resend,
            recipients: 1,
            wait: Duration::ZERO,
            expire_in: None,
            age: Duration::ZERO,
        }
    }
}

impl Draft {
    pub fn keyed(key: impl Into<String>, request: &'static str) -> Self {
        Self { key: Some((key.into(), request)), ..Self::default() }
    }

    pub fn new_message(&self, outbox: &Outbox) -> NewMessage {
        let accepted_at = outbox.clock().now() - self.age;
        let mailbox = |text: String| Mailbox { name: None, address: EmailAddress::parse(&text).unwrap() };
        let email = Email {
            from: mailbox("billing@example.com".into()),
            to: (0..self.recipients).map(|n| mailbox(format!("secret-{n}@example.org"))).collect(),
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: "Invoice".into(),
            text: Some("Please find it attached.".into()),
            html: None,
            attachments: Vec::new(),
            headers: Vec::new(),
            tags: vec!["a".into(), "b".into()],
            metadata: BTreeMap::new(),
            document_type: Some("INVOICE".into()),
        };
        let message = Message {
            id: MessageId::new_at(accepted_at),
            client: ClientId::new(self.client),
            accepted_at,
            correlation_id: "order-7".into(),
            trace: TraceContext { traceparent: "00-a-b-01".into(), tracestate: "x=1".into() },
            priority: self.priority,
            unknown_outcome: self.unknown_outcome,
            email,
        };
        NewMessage {
            message: Arc::new(message),
            chain: self.chain.into(),
            idempotency: self
                .key
                .as_ref()
                .map(|(key, request)| IdempotencyKey { key: key.clone(), fingerprint: request.as_bytes().to_vec() }),
            scheduled_for: (!self.wait.is_zero()).then(|| accepted_at + self.wait),
            send_at: accepted_at + self.wait,
            expire_at: self.expire_in.map(|wait| accepted_at + wait),
            give_up_at: accepted_at + 3 * DAY,
        }
    }

    /// Accepts that many of it, and tells their ids.
    pub async fn accept(&self, outbox: &Outbox, count: usize) -> Vec<MessageId> {
        let messages: Vec<NewMessage> = (0..count).map(|_| self.new_message(outbox)).collect();
        let accepted = outbox.accept(&messages).await.unwrap();
        assert!(accepted.iter().all(|answer| *answer == Accepted::New), "{accepted:?}");
        messages.iter().map(|new| new.message.id).collect()
    }
}

/// Asks every lane of a chain for as many, from its beginning.
async fn request_of(outbox: &Outbox, chain: &str, provider: &str, limit: usize) -> ClaimRequest {
    let seen = outbox.look().await.unwrap().into_iter().filter(|seen| seen.lane.chain == chain);
    let from_beginning = |seen: LaneSeen| LaneClaim {
        lane: seen.lane.id,
        chain: seen.lane.chain,
        provider: ProviderName::new(provider),
        since: None,
        limit,
    };
    ClaimRequest {
        lanes: seen.map(from_beginning).collect(),
        limit,
        lease: 30 * SECOND,
        max_rounds: 3,
        idempotent: Vec::new(),
        takes_over: true,
    }
}

async fn request(outbox: &Outbox, limit: usize) -> ClaimRequest {
    request_of(outbox, "default", "primary", limit).await
}

/// Claims so many, from any lane.
pub async fn claim(outbox: &Outbox, limit: usize) -> Vec<Claimed> {
    outbox.claim(&request(outbox, limit).await).await.unwrap().messages
}

/// Accepts one and claims it.
async fn claimed_one(db: &Database, draft: &Draft) -> Claimed {
    let ids = draft.accept(&db.outbox, 1).await;
    let claimed = claim(&db.outbox, 10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].lease.id, ids[0]);
    claimed.into_iter().next().unwrap()
}

/// As if the first provider were about to be asked.
async fn begin(db: &Database, claimed: &Claimed) {
    let open = claimed.open.clone().unwrap_or_else(|| vec![RecipientIndex(0)]);
    let holding = db.outbox.hand_over(&claimed.lease, claimed.rounds + 1, &[], &open, &claimed.provider).await.unwrap();
    assert_eq!(holding, Holding::Held { cancel_requested: false });
}

/// As if the lease had run out.
async fn let_leases_run_out(db: &Database) {
    db.execute("update pending set due_at = now() - interval '1 second' where status = 'IN_PROCESS'").await;
}

/// As if the pause were over.
async fn let_pauses_pass(db: &Database) {
    db.execute("update pending set due_at = now() where status in ('NOT_YET_SENT', 'REQUIRED_RESEND')").await;
}

/// An attempt with a class for each recipient.
pub fn attempt(provider: &str, classes: &[Class]) -> Attempt {
    let verdict = |class: Class| Verdict::new(class, Scope::Provider, format!("code {class:?}"), "so it said");
    let verdicts = (0u16..).zip(classes).map(|(index, &class)| (RecipientIndex(index), verdict(class))).collect();
    Attempt {
        provider: ProviderName::new(provider),
        // To the microsecond, as Postgres keeps it.
        started_at: OffsetDateTime::now_utc().truncate_to_microsecond(),
        duration: Duration::from_micros(12_345),
        recognises_key_for: None,
        outcome: Outcome { verdicts, provider_message_id: Some("their-id".into()), health: Health::Healthy },
        skipped: Vec::new(),
    }
}

fn policy() -> RetryPolicy {
    RetryPolicy { max_rounds: 3, pause: 60 * SECOND, growth: Growth::Linear, ceiling: HOUR, jitter: 0.0 }
}

/// What a claimed message looks like to the transition function.
fn standing(claimed: &Claimed, recipients: u16) -> Standing {
    Standing {
        rounds: claimed.rounds,
        open: claimed.open.clone().unwrap_or_else(|| (0..recipients).map(RecipientIndex).collect()),
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

/// What a dispatcher writes back after these attempts.
pub fn settlement(claimed: &Claimed, recipients: u16, attempts: Vec<Attempt>) -> Settlement {
    let round = Round { attempts, ..Round::default() };
    let decided = next(&standing(claimed, recipients), &round, &policy(), OffsetDateTime::now_utc(), 0.5);
    settlement_of(claimed, round.attempts, decided)
}

fn settlement_of(claimed: &Claimed, attempts: Vec<Attempt>, next: Next) -> Settlement {
    Settlement {
        lease: claimed.lease,
        round: claimed.rounds + 1,
        accepted: attempts.iter().any(|attempt| attempt.left_any(Class::Accepted)),
        unknown_since: attempts.iter().find(|a| a.left_any(Class::OutcomeUnknown)).map(|a| a.started_at),
        round_spent: attempts.iter().flat_map(|a| &a.outcome.verdicts).any(|(_, v)| v.class.spends_round()),
        attempts,
        skipped: Vec::new(),
        next,
    }
}
