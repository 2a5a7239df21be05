//! Many different statements at once over few connections: each gets its own answer.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use postrider::{
    config::Pooling,
    delivery::{Class, ProviderName, Status},
    message::{MessageId, RecipientIndex},
    outbox::{Accepted, Claimed, EventKind, Holding, Intake, Lease, NewMessage, Outbox, Settled, Wake},
};
use tokio::task::JoinSet;

use super::{BOTH, Neighbour, Pooled, claim_of};
use crate::{
    outbox::{Draft, attempt, settlement},
    support::pgbouncer::SHARED,
};

const TASKS: usize = 300;
const HELD: Holding = Holding::Held { cancel_requested: false };

/// What the tasks know of each other.
#[derive(Default)]
struct Known {
    /// The word that each message is recognised by.
    words: Mutex<HashMap<MessageId, String>>,
    tokens: Mutex<HashSet<i64>>,
    sent: Mutex<HashSet<MessageId>>,
    released: Mutex<usize>,
}

/// One of many tasks, each at one process's outbox.
#[derive(Clone)]
struct Task {
    nth: usize,
    outbox: Outbox,
    intake: Intake,
    known: Arc<Known>,
}

impl Task {
    /// A message of this task's own, with as many recipients as one says.
    fn message(&self, what: &str, recipients: usize) -> NewMessage {
        let key = format!("{what} of {}", self.nth);
        let mut new = Draft { recipients, ..Draft::keyed(&key, "request") }.new_message(&self.outbox);
        let message = Arc::make_mut(&mut new.message);
        message.correlation_id.clone_from(&key);
        message.email.subject.clone_from(&key);
        // Before anything can claim it.
        self.known.words.lock().unwrap().insert(message.id, key);
        new
    }

    fn word(&self, id: MessageId) -> String {
        self.known.words.lock().unwrap()[&id].clone()
    }

    async fn run(self) {
        match self.nth % 6 {
            0 => self.accept().await,
            1 => self.take_in().await,
            2 | 3 => self.send().await,
            4 => self.fail().await,
            _ => self.go_away().await,
        }
    }

    /// Accepts a few, asks about them, and accepts them again.
    async fn accept(self) {
        let messages: Vec<_> = (1..=1 + self.nth % 5).map(|n| self.message(&format!("accept {n}"), n)).collect();
        let accepted = self.outbox.accept(&messages).await.unwrap();
        assert_eq!(accepted, vec![Accepted::New; messages.len()]);
        self.ask(&messages).await;
        let again: Vec<_> = messages.iter().map(|new| again(new, &self.outbox)).collect();
        let answers = self.outbox.accept(&again).await.unwrap();
        for (new, answer) in messages.iter().zip(answers) {
            let Accepted::Duplicate { id, status: Some(_) } = answer else { panic!("{answer:?}") };
            assert_eq!(id, new.message.id);
            let key = new.idempotency.as_ref().unwrap();
            let recalled = self.outbox.recall(&new.message.client, &[key]).await.unwrap();
            assert!(
                matches!(recalled[..], [Some(Accepted::Duplicate { id, .. })] if id == new.message.id),
                "{recalled:?}"
            );
        }
    }

    /// The same by the intake.
    async fn take_in(self) {
        let messages: Vec<_> = (1..=4).map(|n| self.message(&format!("intake {n}"), n)).collect();
        for (new, receipt) in
            messages.iter().zip(join_all(messages.iter().map(|new| self.intake.accept(new.clone()))).await)
        {
            let receipt = receipt.unwrap();
            assert_eq!((receipt.id, receipt.accepted), (new.message.id, Accepted::New));
        }
        self.ask(&messages).await;
        let receipt = self.intake.accept(again(&messages[0], &self.outbox)).await.unwrap();
        assert!(matches!(receipt.accepted, Accepted::Duplicate { id, .. } if id == messages[0].message.id));
    }

    /// Whether status and content of these messages are theirs.
    async fn ask(&self, messages: &[NewMessage]) {
        let ids: Vec<MessageId> = messages.iter().map(|new| new.message.id).collect();
        let statuses = self.outbox.status(&ids, None).await.unwrap();
        assert_eq!(statuses.len(), ids.len());
        for (new, status) in messages.iter().zip(statuses) {
            assert_eq!((status.id, &status.correlation_id), (new.message.id, &new.message.correlation_id));
            assert_eq!(status.recipients.len(), new.message.email.to.len());
        }
        self.read(&ids).await;
    }

    async fn read(&self, ids: &[MessageId]) {
        let contents = self.outbox.contents(ids).await.unwrap();
        assert_eq!(contents.len(), ids.len());
        for (id, content) in contents {
            assert!(ids.contains(&id));
            let content = content.unwrap();
            assert_eq!((content.id, content.email.subject), (id, self.word(id)));
        }
    }

    /// Claims a few, and does with them whatever a dispatcher does.
    async fn send(self) {
        let mut first = self.message("send", 2);
        "own".clone_into(&mut first.chain);
        self.outbox.accept(std::slice::from_ref(&first)).await.unwrap();
        let claimed = claim_of(&self.outbox, if self.nth.is_multiple_of(2) { "default" } else { "own" }, 3).await;
        for one in &claimed {
            assert!(self.known.tokens.lock().unwrap().insert(one.lease.token), "a token was given out twice");
        }
        self.read(&claimed.iter().map(|one| one.lease.id).collect::<Vec<_>>()).await;
        let strangers: Vec<Lease> =
            claimed.iter().map(|one| Lease { token: one.lease.token ^ 1, ..one.lease }).collect();
        let leases: Vec<Lease> = claimed.iter().map(|one| one.lease).collect();
        let renewed = self.outbox.renew(&[&strangers[..], &leases].concat(), Duration::from_secs(400)).await.unwrap();
        let lost = strangers.iter().map(|&lease| (lease, Holding::Lost));
        let held = leases.iter().map(|&lease| (lease, HELD));
        assert_eq!(renewed, lost.chain(held).collect::<Vec<_>>());
        if self.nth.is_multiple_of(5) {
            let released = self.outbox.release(&leases).await.unwrap();
            assert_eq!(released, leases.len() as u64);
            *self.known.released.lock().unwrap() += leases.len();
            return;
        }
        join_all(claimed.iter().map(|one| self.finish(one))).await;
    }

    /// Hands one over to the next provider, then settles it, with a late outcome besides.
    async fn finish(&self, claimed: &Claimed) {
        let recipients = self.outbox.status(&[claimed.lease.id], None).await.unwrap()[0].recipients.len() as u16;
        let open: Vec<_> = (0..recipients).map(RecipientIndex).collect();
        let failed = attempt("primary", &vec![Class::Unavailable; recipients.into()]);
        let next = ProviderName::new(&format!("provider {}", self.nth));
        let holding = self.outbox.hand_over(&claimed.lease, 1, &[failed], &open, &next).await.unwrap();
        assert_eq!(holding, HELD);
        let told = self.outbox.status(&[claimed.lease.id], None).await.unwrap().remove(0);
        assert_eq!(told.provider, Some(next));
        let accepted = attempt("secondary", &vec![Class::Accepted; recipients.into()]);
        let done = settlement(claimed, recipients, vec![accepted]);
        let mut late =
            settlement(claimed, recipients, vec![attempt("late", &vec![Class::Deferred; recipients.into()])]);
        late.lease.token ^= 1;
        let settled = self.outbox.settle(&[late, done]).await.unwrap();
        assert_eq!(settled, [Settled::Late, Settled::Done]);
        let told = self.outbox.status(&[claimed.lease.id], None).await.unwrap().remove(0);
        assert_eq!((told.status, told.correlation_id), (Status::SuccessSent, self.word(claimed.lease.id)));
        let mut kinds: Vec<EventKind> = told.events.iter().map(|event| event.kind).collect();
        kinds.sort_by_key(|kind| kind.as_str());
        assert_eq!(kinds, [EventKind::Attempt, EventKind::Attempt, EventKind::LateOutcome]);
        assert!(self.known.sent.lock().unwrap().insert(claimed.lease.id), "it was sent twice");
    }

    /// Statements that fail, and that find nothing.
    async fn fail(self) {
        let old = Draft { age: Duration::from_secs(9 * 86400), ..Draft::default() }.new_message(&self.outbox);
        let error = self.outbox.accept(std::slice::from_ref(&old)).await.unwrap_err();
        assert!(error.to_string().contains("no partition"), "{error}");
        assert!(self.outbox.status(&[old.message.id], None).await.unwrap().is_empty());
        assert_eq!(self.outbox.sweep(&[]).await.unwrap(), 0);
        assert!(claim_of(&self.outbox, &format!("chain {}", self.nth), 7).await.is_empty());
        let gone = Lease { id: old.message.id, token: 7 };
        assert_eq!(self.outbox.renew(&[gone], Duration::from_secs(1)).await.unwrap(), [(gone, Holding::Lost)]);
        assert_eq!(self.outbox.release(&[gone]).await.unwrap(), 0);
        assert_eq!(self.outbox.missing_migrations().await.unwrap(), 0);
        assert_eq!(self.outbox.ensure_days(2).await.unwrap(), 0);
        self.outbox.measure_clock().await.unwrap();
    }

    /// Asks, and goes away before the answer comes, at ever other moments; then asks and stays.
    async fn go_away(self) {
        let messages = [self.message("go away", 3)];
        self.outbox.accept(&messages).await.unwrap();
        let ids = [messages[0].message.id];
        for polls in 1..12 {
            let mut asking = Box::pin(self.outbox.status(&ids, None));
            for _ in 0..polls {
                if asking.as_mut().now_or_never().is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
            drop(asking);
            self.ask(&messages).await;
        }
    }
}

/// A message that is the same to its caller.
fn again(new: &NewMessage, outbox: &Outbox) -> NewMessage {
    let mut new = new.clone();
    Arc::make_mut(&mut new.message).id = MessageId::new_at(outbox.clock().now());
    new
}

async fn crowd(pooling: Pooling) {
    let Some(pooled) = Pooled::new(pooling).await else { return };
    let known = Arc::new(Known::default());
    let mut processes = Vec::new();
    for _ in 0..3 {
        let outbox = pooled.another_process().await;
        processes.push((outbox.clone(), Intake::new(outbox, 64 * 1024 * 1024, None, Wake::default())));
    }
    let mut tasks = JoinSet::new();
    for nth in 0..TASKS {
        let (outbox, intake) = processes[nth % processes.len()].clone();
        tasks.spawn(Task { nth, outbox, intake, known: known.clone() }.run());
    }
    tasks.join_all().await;

    let (all, sent) = (known.words.lock().unwrap().len() as i64, known.sent.lock().unwrap().len() as i64);
    assert!(sent > 50 && *known.released.lock().unwrap() > 5, "{sent} were sent");
    assert_eq!(pooled.count("outbox").await, all);
    assert_eq!(pooled.outbox.count_sent().await.unwrap() as i64, sent);
    assert_eq!(pooled.outbox.count_pending().await.unwrap() as i64, all - sent);
    let status = "select coalesce(sum(n), 0)::bigint from tally where status = ";
    assert_eq!(pooled.scalar::<i64>(&format!("{status}'SUCCESS_SENT'")).await, sent);
    assert_eq!(pooled.scalar::<i64>(&format!("{status}'NOT_YET_SENT'")).await, all - sent);
    if pooling == Pooling::Transaction {
        let names = Neighbour::new(&pooled).await.ask("select count(*)::text from pg_prepared_statements").await;
        assert_eq!(names, vec!["0"; SHARED]);
    }
    for (outbox, _) in processes {
        outbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_of_a_crowd_gets_its_own_answer() {
    for pooling in BOTH {
        crowd(pooling).await;
    }
}
