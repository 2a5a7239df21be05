//! The least that handing messages over costs: an adapter that is called directly, as often at once as Postrider would.
//!
//! Owns the calls; the sink is the same as Postrider's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use time::OffsetDateTime;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    bench::{BenchError, figures::rate, mail, sink::Sink},
    delivery::Class,
    message::RecipientIndex,
    provider::{Provider, Submission, registry},
};

/// Messages a second, as many at once as by default, over connections that are open already.
pub(in crate::bench) async fn measure(sink: &Sink, messages: u64) -> Result<f64, BenchError> {
    measure_at_once(sink, sink.provider().concurrency, messages).await
}

/// Messages a second, so many at once, over connections that are open already.
pub(in crate::bench) async fn measure_at_once(sink: &Sink, at_once: usize, messages: u64) -> Result<f64, BenchError> {
    let provider =
        registry::build(sink.name(), &sink.provider()).map_err(|error| BenchError::Send(error.to_string()))?;
    send(&provider, at_once, (messages / 10).max(at_once as u64)).await?;
    let began = Instant::now();
    send(&provider, at_once, messages).await?;
    Ok(rate(messages, began.elapsed()))
}

async fn send(provider: &Arc<dyn Provider>, at_once: usize, messages: u64) -> Result<(), BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut senders: JoinSet<Result<(), BenchError>> = JoinSet::new();
    for _ in 0..at_once {
        let (provider, next) = (provider.clone(), next.clone());
        senders.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= messages {
                    return Ok(());
                }
                hand_over(&*provider, number).await?;
            }
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended.map_err(|error| BenchError::Send(error.to_string()))??;
    }
    Ok(())
}

async fn hand_over(provider: &dyn Provider, number: u64) -> Result<(), BenchError> {
    let outcome = provider
        .send(Submission {
            message: Arc::new(mail::message(number, OffsetDateTime::now_utc())),
            recipients: vec![RecipientIndex(0)],
            deadline: Instant::now() + Duration::from_secs(60),
            traceparent: String::new(),
        })
        .await;
    match outcome.headline() {
        Some(verdict) if verdict.class == Class::Accepted => Ok(()),
        Some(verdict) => Err(BenchError::Send(format!("{} {}", verdict.class.as_str(), verdict.code))),
        None => Err(BenchError::Send("no verdict".to_owned())),
    }
}
