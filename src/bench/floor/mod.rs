//! What the machine does without Postrider: the least that each step costs, measured in the same run.
//!
//! Owns the plainest form of each step, each as a rate by itself; how they are put together is the scenario's.

pub(super) mod grpc;
pub(super) mod sends;
pub(super) mod statements;
pub(super) mod wire;
pub(super) mod writes;

use self::{
    grpc::{BareServer, Work},
    statements::Rates,
};
use super::{
    BenchError,
    figures::{median, rate},
    load::Callers,
    sink::{Kind, Sink},
    testbed::{Tables, Testbed},
};
use crate::sandbox::{Inbox, inbox::Keep};

/// Calls that a bare handler answers, a second.
pub(super) async fn echo(testbed: &Testbed<'_>) -> Result<f64, BenchError> {
    let scale = testbed.scale;
    let server = BareServer::start(Work::Echo).await?;
    let callers = Callers::connect(server.address(), scale.callers).await?;
    callers.send(0..scale.messages.div_ceil(10)).await?;
    let mut rates = Vec::new();
    for nth in 1..=scale.repeats {
        testbed.say(&format!("the floor of gRPC, {nth} of {}", scale.repeats));
        rates.push(rate(scale.messages, callers.send(0..scale.messages).await?));
    }
    middle(&rates)
}

/// The statements from a plain client, on tables of their own.
pub(super) async fn statements(testbed: &Testbed<'_>) -> Result<Rates, BenchError> {
    let tables = testbed.tables().await?;
    let rates = measure_statements(testbed, &tables).await;
    tables.remove().await?;
    rates
}

async fn measure_statements(testbed: &Testbed<'_>, tables: &Tables) -> Result<Rates, BenchError> {
    let scale = testbed.scale;
    statements::measure(&tables.outbox, scale.messages.div_ceil(10)).await?;
    let mut all = Vec::new();
    for nth in 1..=scale.repeats {
        testbed.say(&format!("the floor of statements, {nth} of {}", scale.repeats));
        all.push(statements::measure(&tables.outbox, scale.messages).await?);
    }
    let of = |step: fn(&Rates) -> f64| middle(&all.iter().map(step).collect::<Vec<_>>());
    Ok(Rates { accept: of(|rates| rates.accept)?, claim: of(|rates| rates.claim)?, settle: of(|rates| rates.settle)? })
}

/// Raw sends to a sink of that kind, a second.
pub(super) async fn send(testbed: &Testbed<'_>, kind: Kind) -> Result<f64, BenchError> {
    let scale = testbed.scale;
    let sink = Sink::start(kind, kind.as_str(), &Inbox::new(Keep::COUNTS)).await?;
    let mut rates = Vec::new();
    for nth in 1..=scale.repeats {
        testbed.say(&format!("the floor of sends, {nth} of {}", scale.repeats));
        rates.push(sends::measure(&sink, scale.messages).await?);
    }
    middle(&rates)
}

fn middle(rates: &[f64]) -> Result<f64, BenchError> {
    median(rates).ok_or(BenchError::TooFew("repeats"))
}
