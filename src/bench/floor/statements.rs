//! The least that the outbox costs: accept, claim and settle from a plain client, in full batches, with nothing between.
//!
//! Owns two connections' worth of calls, enough to keep both Postgres and the client busy; sends nothing.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use crate::{
    bench::{BenchError, figures::rate, mail},
    delivery::{Attempt, Class, Health, Next, Outcome, ProviderName, Scope, Status, Verdict},
    message::{MessageId, RecipientIndex},
    outbox::{ClaimRequest, Claimed, LaneClaim, LaneSeen, NewMessage, Outbox, Settlement},
};

/// How many messages one statement is about, as many as Postrider's own by default.
pub(in crate::bench) const BATCH: usize = 100;

/// How many clients there are at once.
const CLIENTS: usize = 2;

/// Messages a second.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Rates {
    /// Accepted.
    pub(in crate::bench) accept: f64,
    /// Claimed, their contents read.
    pub(in crate::bench) claim: f64,
    /// Settled as sent.
    pub(in crate::bench) settle: f64,
}

/// Takes so many messages through an outbox that is empty, step by step.
pub(in crate::bench) async fn measure(outbox: &Outbox, messages: u64) -> Result<Rates, BenchError> {
    let taking = accept(outbox, 0..messages).await?;
    let accept = rate(messages, taking);
    let claimed: Arc<Mutex<Vec<Claimed>>> = Arc::default();
    let began = Instant::now();
    at_once(|| claim(outbox.clone(), claimed.clone(), messages)).await?;
    let claim = rate(messages, began.elapsed());
    let found = claimed.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    if found != messages {
        return Err(BenchError::Call(format!("{found} of {messages} messages were there to be claimed")));
    }
    let began = Instant::now();
    at_once(|| settle(outbox.clone(), claimed.clone())).await?;
    Ok(Rates { accept, claim, settle: rate(messages, began.elapsed()) })
}

/// Accepts messages of these numbers, and gives the time that it took.
pub(in crate::bench) async fn accept(outbox: &Outbox, numbers: std::ops::Range<u64>) -> Result<Duration, BenchError> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let began = Instant::now();
    at_once(|| {
        let (outbox, next, end) = (outbox.clone(), next.clone(), numbers.end);
        async move {
            loop {
                let first = next.fetch_add(BATCH as u64, Ordering::Relaxed);
                let now = outbox.clock().now();
                let batch: Vec<NewMessage> =
                    (first..end.min(first + BATCH as u64)).map(|number| mail::new_message(number, now)).collect();
                if batch.is_empty() {
                    return Ok(());
                }
                outbox.accept(&batch).await?;
            }
        }
    })
    .await?;
    Ok(began.elapsed())
}

/// One batch of whatever is due.
pub(in crate::bench) async fn claim_request(outbox: &Outbox) -> Result<ClaimRequest, BenchError> {
    let from_beginning = |seen: LaneSeen| LaneClaim {
        lane: seen.lane.id,
        chain: seen.lane.chain,
        provider: ProviderName::new("floor"),
        since: None,
        limit: BATCH,
    };
    Ok(ClaimRequest {
        lanes: outbox.look().await?.into_iter().map(from_beginning).collect(),
        limit: BATCH,
        lease: Duration::from_secs(600),
        max_rounds: 10,
        idempotent: Vec::new(),
        takes_over: true,
    })
}

async fn claim(outbox: Outbox, claimed: Arc<Mutex<Vec<Claimed>>>, messages: u64) -> Result<(), BenchError> {
    let request = claim_request(&outbox).await?;
    loop {
        let batch = outbox.claim(&request).await?.messages;
        let ids: Vec<MessageId> = batch.iter().map(|claimed| claimed.lease.id).collect();
        for (_, content) in outbox.contents(&ids).await? {
            content?;
        }
        let mut all = claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let was_last = batch.is_empty();
        all.extend(batch);
        if was_last || all.len() as u64 >= messages {
            return Ok(());
        }
    }
}

async fn settle(outbox: Outbox, claimed: Arc<Mutex<Vec<Claimed>>>) -> Result<(), BenchError> {
    loop {
        let batch: Vec<Claimed> = {
            let mut all = claimed.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = all.len().saturating_sub(BATCH);
            all.split_off(rest)
        };
        if batch.is_empty() {
            return Ok(());
        }
        let settlements: Vec<Settlement> = batch.iter().map(|claimed| settlement(claimed, &outbox)).collect();
        outbox.settle(&settlements).await?;
    }
}

/// What a send that went well comes to.
fn settlement(claimed: &Claimed, outbox: &Outbox) -> Settlement {
    let verdict = Verdict::new(Class::Accepted, Scope::Recipient, "250 2.0.0", "kept");
    let attempt = Attempt {
        provider: claimed.provider.clone(),
        started_at: outbox.clock().now(),
        duration: Duration::from_millis(1),
        recognises_key_for: None,
        outcome: Outcome::uniform(&[RecipientIndex(0)], &verdict, Health::Healthy),
        skipped: Vec::new(),
    };
    Settlement {
        lease: claimed.lease,
        round: claimed.rounds + 1,
        attempts: vec![attempt],
        skipped: Vec::new(),
        accepted: true,
        unknown_since: None,
        round_spent: true,
        next: Next::Finished(Status::SuccessSent),
    }
}

/// Runs the same for each client at once.
async fn at_once<F>(run: impl Fn() -> F) -> Result<(), BenchError>
where
    F: Future<Output = Result<(), BenchError>> + Send + 'static,
{
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(run());
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| BenchError::Call(error.to_string()))??;
    }
    Ok(())
}
