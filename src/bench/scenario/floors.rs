//! `floors`: what the database does at most on this machine, whoever asks.
//!
//! Owns the list. No goal: these are what goals are held against.

use std::sync::Arc;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, rate},
        floor::writes::{self, BATCH, Write},
        testbed::{Tables, Testbed},
    },
    outbox::Floor,
};

/// How many clients write in batches.
const CLIENTS: usize = 2;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let lines = measure(testbed, &tables).await;
    tables.remove().await?;
    lines
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables) -> Result<Vec<Line>, BenchError> {
    let scale = testbed.scale;
    // Each client has a connection of its own.
    let connections = u32::try_from(scale.callers.max(CLIENTS)).unwrap_or(u32::MAX);
    let floor = Arc::new(Floor::new(&tables.outbox, &tables.settings.database, connections).await?);
    let (few, many) = ((scale.messages / 10).max(10), scale.messages * 4);
    let mut lines = Vec::new();
    for (case, write, clients, contents) in [
        (format!("a commit each, {}", clients_in_words(scale.callers)), Write::Record, scale.callers, scale.messages),
        ("a commit each, 1 client".to_owned(), Write::Record, 1, few),
        (format!("{BATCH} records a commit"), Write::Records, CLIENTS, many),
        (format!("{BATCH} rows a commit"), Write::Rows, CLIENTS, many),
    ] {
        writes::measure(&floor, write, clients, contents.div_ceil(10)).await?;
        let mut rates = Vec::new();
        for nth in 1..=scale.repeats {
            testbed.say(&format!("floors: {case}, {nth} of {}", scale.repeats));
            rates.push(rate(contents, writes::measure(&floor, write, clients, contents).await?));
        }
        let rate = median(&rates).ok_or(BenchError::TooFew("repeats"))?;
        let measured = vec![Figure::new("rate", rate, Unit::PerSecond)];
        lines.push(Line { name: Scenario::Floors.as_str(), case, measured, ..Line::default() });
    }
    floor.close().await;
    Ok(lines)
}

fn clients_in_words(clients: usize) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}
