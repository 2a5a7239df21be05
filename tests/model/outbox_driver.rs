//! The model's actions as calls of the real outbox.
//!
//! Owns every call that changes something; what should have come of it is [`super::interleavings`]'s.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use postrider::{
    delivery::{Attempt, Class, Next, Status},
    message::{ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, TraceContext, UnknownOutcome},
    outbox::{
        self, ClaimRequest, Holding, LaneClaim, LaneId, Lease, NewMessage, Outbox, OutboxError, Settled, Settlement,
    },
};
use time::OffsetDateTime;

use super::{
    dispatcher::{Deed, Sender, Stage},
    record::{Claimed, Look},
    values::{Decision, LEASE, Provider, Recipients, STEP, Setup, Tick},
    world::{Action, Heard, SENDERS, World},
    write_back::{Held, WriteBack},
};
use crate::support::postgres::Database;

/// Whose messages they are.
const CLIENT: &str = "shop";

/// The processes of a run: each has connections of its own. Messages come one after the other.
pub struct Processes {
    pub(super) db: Database,
    outboxes: Vec<Outbox>,
    messages: AtomicU32,
}

/// One message in Postgres, and what the dispatchers of the model hold of it.
pub struct OutboxDriver<'a> {
    pub(super) processes: &'a Processes,
    pub(super) setup: Setup,
    pub(super) id: MessageId,
    chain: String,
    pub(super) holdings: [Option<Hold>; SENDERS],
    /// Attempts begin at times of their own, by which the outbox tells them apart.
    begun: u32,
}

/// A lease, and when the attempts under it began.
pub struct Hold {
    pub(super) lease: Lease,
    started_at: Vec<OffsetDateTime>,
}

/// What the outbox answered, before the driver has taken note of it.
pub struct Reply {
    pub heard: Heard,
    lease: Option<Lease>,
}

impl Processes {
    pub async fn start() -> Self {
        let db = Database::new().await;
        let mut outboxes = Vec::new();
        for _ in 0..SENDERS {
            outboxes.push(db.another_process().await);
        }
        Self { db, outboxes, messages: AtomicU32::new(0) }
    }

    /// Accepts a message, alone in its chain.
    pub async fn accept(&self, setup: &Setup) -> OutboxDriver<'_> {
        let chain = format!("chain-{}", self.messages.fetch_add(1, Ordering::Relaxed));
        let new = new_message(setup, &chain, self.db.outbox.clock().now() - Duration::from_secs(1));
        let id = new.message.id;
        let accepted = self.db.outbox.accept(&[new]).await.expect("it is accepted");
        assert_eq!(accepted, [outbox::Accepted::New]);
        OutboxDriver { processes: self, setup: *setup, id, chain, holdings: Default::default(), begun: 0 }
    }
}

fn new_message(setup: &Setup, chain: &str, accepted_at: OffsetDateTime) -> NewMessage {
    let mailbox = |text: String| Mailbox { name: None, address: EmailAddress::parse(&text).expect("an address") };
    let email = Email {
        from: mailbox("billing@example.com".into()),
        to: (0..setup.recipients).map(|n| mailbox(format!("secret-{n}@example.org"))).collect(),
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "Invoice".into(),
        text: Some("Please find it attached.".into()),
        html: None,
        attachments: Vec::new(),
        headers: Vec::new(),
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        document_type: None,
    };
    let message = Message {
        id: MessageId::new_at(accepted_at),
        client: ClientId::new(CLIENT),
        accepted_at,
        correlation_id: "order-7".into(),
        trace: TraceContext::default(),
        priority: Priority::Normal,
        unknown_outcome: if setup.hold { UnknownOutcome::Hold } else { UnknownOutcome::Resend },
        email,
    };
    NewMessage {
        message: Arc::new(message),
        chain: chain.into(),
        idempotency: None,
        scheduled_for: None,
        send_at: accepted_at,
        expire_at: setup.expire_at.map(|at| accepted_at + STEP * u32::from(at)),
        give_up_at: accepted_at + STEP * u32::from(setup.give_up_at),
    }
}

impl OutboxDriver<'_> {
    /// Does what the action means. `before`: the world in which it is done.
    pub async fn call(&self, before: &World, action: Action) -> Result<Reply, OutboxError> {
        let heard = match action {
            Action::Pass => self.let_time_pass().await,
            Action::Cancel => {
                let canceled = self.outbox(0).cancel(&[self.id], Some(&ClientId::new(CLIENT))).await?;
                Heard::Canceled(canceled[0])
            }
            Action::Claim { by, first } => return self.claim(by, first).await,
            Action::Sweep => {
                let ended = self.outbox(0).sweep(&self.lanes().await?).await?;
                Heard::Looked(if ended > 0 { Look::Ended } else { Look::Nothing })
            }
            Action::Do { by, deed } => match &before.senders[by] {
                Some(sender) => self.do_deed(before.now, by, sender.clone(), deed).await?,
                None => Heard::Nothing,
            },
        };
        Ok(Reply { heard, lease: None })
    }

    /// Takes note of what was done.
    pub fn note(&mut self, action: Action, reply: &Reply) {
        match action {
            Action::Claim { by, .. } => {
                if let Some(lease) = reply.lease {
                    self.holdings[by] = Some(Hold { lease, started_at: Vec::new() });
                }
            }
            Action::Do { by, deed: Deed::Ask(_) } => {
                self.begun += 1;
                let now = OffsetDateTime::now_utc().truncate_to_microsecond();
                let started_at = now + Duration::from_micros(u64::from(self.begun));
                self.holdings[by].as_mut().expect("it was claimed").started_at.push(started_at);
            }
            Action::Do { by, deed: Deed::Crash | Deed::Release | Deed::Settle { is_answered: true } } => {
                self.holdings[by] = None;
            }
            _ => {}
        }
    }

    /// The lanes of this world.
    async fn lanes(&self) -> Result<Vec<LaneId>, OutboxError> {
        let seen = self.outbox(0).look().await?.into_iter().filter(|seen| seen.lane.chain == self.chain);
        Ok(seen.map(|seen| seen.lane.id).collect())
    }

    async fn claim(&self, by: usize, first: Provider) -> Result<Reply, OutboxError> {
        let lane = |lane| LaneClaim { lane, chain: self.chain.clone(), provider: first.name(), since: None, limit: 1 };
        let request = ClaimRequest {
            lanes: self.lanes().await?.into_iter().map(lane).collect(),
            limit: 1,
            lease: STEP * u32::from(LEASE),
            max_rounds: u32::from(self.setup.max_rounds),
            idempotent: self.setup.keyed.iter().map(|provider| provider.name()).collect(),
            takes_over: true,
        };
        let claimed = self.outbox(by).claim(&request).await?.messages.pop();
        let lease = claimed.as_ref().map(|claimed| claimed.lease);
        let look = claimed.map_or(Look::Nothing, |claimed| Look::Claimed(self.claimed(&claimed)));
        Ok(Reply { heard: Heard::Looked(look), lease })
    }

    fn claimed(&self, claimed: &outbox::Claimed) -> Claimed {
        assert_eq!(claimed.lease.id, self.id);
        Claimed {
            provider: Provider::named(claimed.provider.as_str()).expect("one of ours"),
            ask_first: claimed.ask_first,
            is_begun: claimed.is_begun,
            untried: claimed.untried,
            rounds: u8::try_from(claimed.rounds).expect("few rounds"),
            open: claimed.open.as_deref().map_or(Recipients::first(self.setup.recipients), Recipients::of),
            accepted_before: claimed.accepted_before,
            unknown_since: claimed.unknown_since.map(|_| 0),
            unknown_at: claimed.unknown_at.as_ref().and_then(|name| Provider::named(name.as_str())),
        }
    }

    async fn do_deed(&self, now: Tick, by: usize, mut sender: Sender, deed: Deed) -> Result<Heard, OutboxError> {
        let outbox = self.outbox(by);
        let Some(Hold { lease, .. }) = self.holdings[by] else { return Ok(Heard::Nothing) };
        Ok(match deed {
            Deed::HandOver { .. } => self.hand_over(by, &mut sender).await?,
            Deed::Settle { .. } => {
                let Stage::Settling(decision) = sender.stage else { return Ok(Heard::Nothing) };
                let settlement = self.settlement(now, by, &mut sender, decision);
                match outbox.settle(&[settlement]).await?[..] {
                    [Settled::Done] => Heard::Settled(WriteBack::Done),
                    [Settled::Late] => Heard::Settled(WriteBack::Late),
                    ref other => panic!("{other:?}"),
                }
            }
            Deed::Release => Heard::Released(outbox.release(&[lease]).await? == 1),
            Deed::Renew => match outbox.renew(&[lease], STEP * u32::from(LEASE)).await?[..] {
                [(_, Holding::Held { cancel_requested })] => Heard::Renewed(Some(cancel_requested)),
                [(_, Holding::Lost)] => Heard::Renewed(None),
                ref other => panic!("{other:?}"),
            },
            // What a dispatcher does by itself.
            Deed::Skip | Deed::Ask(_) | Deed::CallOff | Deed::Stop | Deed::Decide | Deed::Crash => Heard::Nothing,
        })
    }

    async fn hand_over(&self, by: usize, sender: &mut Sender) -> Result<Heard, OutboxError> {
        let Some(to) = sender.next_provider(&self.setup) else { return Ok(Heard::Nothing) };
        let attempts = self.unwritten(by, sender);
        let (round, open) = {
            let step = sender.hand_over(to);
            (u32::from(step.round), step.open.indices())
        };
        let lease = self.hold(by).lease;
        let held = self.outbox(by).hand_over(&lease, round, &attempts, &open, &to.name()).await;
        Ok(Heard::Held(match held? {
            Holding::Held { cancel_requested } => Held::Held { cancel_requested },
            Holding::Lost => Held::Lost,
        }))
    }

    fn settlement(&self, now: Tick, by: usize, sender: &mut Sender, decision: Decision) -> Settlement {
        let attempts = self.unwritten(by, sender);
        let started_at = &self.hold(by).started_at;
        let unknown = sender.tries.iter().position(|one| one.left_any(Class::OutcomeUnknown));
        let is_untried = sender.claimed.untried && sender.tries.is_empty();
        let outcome = sender.outcome(decision);
        Settlement {
            lease: self.hold(by).lease,
            round: u32::from(outcome.round),
            attempts,
            skipped: Vec::new(),
            round_spent: outcome.spends_round(),
            accepted: outcome.accepted,
            unknown_since: unknown.map(|nth| started_at[nth]),
            next: self.next(now, decision, is_untried),
        }
    }

    fn next(&self, now: Tick, decision: Decision, is_untried: bool) -> Next {
        match decision {
            Decision::Finished(status) => Next::Finished(status),
            Decision::Person { status, open } => Next::Person { status, open: open.indices() },
            Decision::Again { due_at, open, round_spent, ask_first } => Next::Again {
                status: if is_untried { Status::NotYetSent } else { Status::RequiredResend },
                due_at: self.time_of(now, due_at),
                open: open.indices(),
                round_spent,
                ask_first: ask_first.map(Provider::name),
            },
        }
    }

    /// A time of the model. Now is a little earlier, so that what is due is due for certain.
    fn time_of(&self, now: Tick, tick: Tick) -> OffsetDateTime {
        let steps = i32::from(tick) - i32::from(now);
        self.outbox(0).clock().now() - Duration::from_secs(1) + time::Duration::hours(steps.into())
    }

    fn unwritten(&self, by: usize, sender: &Sender) -> Vec<Attempt> {
        let begun = sender.tries.iter().zip(&self.hold(by).started_at);
        begun.skip(sender.written).map(|(one, started_at)| one.attempt(&self.setup, *started_at)).collect()
    }

    fn hold(&self, by: usize) -> &Hold {
        self.holdings[by].as_ref().expect("it was claimed")
    }

    pub(super) fn outbox(&self, by: usize) -> &Outbox {
        &self.processes.outboxes[by]
    }

    /// Lets a step of time pass for this message: its times are moved instead.
    async fn let_time_pass(&self) -> Heard {
        self.execute(
            "update pending
            set
                due_at = due_at - interval '1 hour',
                expire_at = expire_at - interval '1 hour',
                give_up_at = give_up_at - interval '1 hour'",
        )
        .await
    }

    async fn execute(&self, update: &str) -> Heard {
        self.processes.db.execute(&format!("{update} where id = '{}'", self.id)).await;
        Heard::Nothing
    }
}
