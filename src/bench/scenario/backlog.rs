//! `backlog`: how long a claim takes while millions of messages wait, against the same with few.
//!
//! Owns the two backlogs. They are made by the database and have no content, which a claim does not read; nothing is sent.

use tokio::time::Instant;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, percentile},
        floor::statements::{BATCH, claim_request},
        testbed::{Tables, Testbed},
    },
    config::DEFAULT_CHAIN,
};

/// The goal, as a multiple of the time with few.
const AT_MOST: f64 = 1.2;

/// How many are few.
const FEW: u64 = 20_000;

/// In how many lanes they wait.
const LANES: u32 = 10;

/// How many one statement makes.
const PORTION: u64 = 100_000;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let (many, few) = (testbed.tables().await?, testbed.tables().await?);
    let line = compare(testbed, &many, &few).await;
    many.remove().await?;
    few.remove().await?;
    Ok(vec![line?])
}

async fn compare(testbed: &Testbed<'_>, many: &Tables, few: &Tables) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    let counts = (scale.backlog, FEW.min(scale.backlog));
    fill(testbed, many, counts.0).await?;
    fill(testbed, few, counts.1).await?;
    testbed.say("backlog: claims");
    let mut times = (Vec::new(), Vec::new());
    // In turns, so that both see the same weather; the few must not run out.
    let most = counts.1 / BATCH as u64;
    for _ in 0..u64::from(scale.claims).min(most.div_ceil(2)).max(1) {
        times.0.push(claim(many).await?);
        times.1.push(claim(few).await?);
    }
    let middle = |times: &[f64]| median(times).ok_or(BenchError::TooFew("claims"));
    let of_many = Figure::new("claim", middle(&times.0)?, Unit::Milliseconds);
    let of_few = Figure::new("claim_of_few", middle(&times.1)?, Unit::Milliseconds);
    let case = format!("{} against {} waiting", counts.0, counts.1);
    let mut line = Line::of_pair(Scenario::Backlog.as_str(), case, of_many, of_few);
    line.ratio_at_most = Some(AT_MOST);
    line.measured.extend(percentile(&times.0, 99.0).map(|p99| Figure::new("p99", p99, Unit::Milliseconds)));
    line.against.extend(percentile(&times.1, 99.0).map(|p99| Figure::new("p99_of_few", p99, Unit::Milliseconds)));
    Ok(line)
}

/// Lets so many messages wait, as they do a while after they were accepted.
async fn fill(testbed: &Testbed<'_>, tables: &Tables, messages: u64) -> Result<(), BenchError> {
    testbed.say(&format!("backlog: {messages} messages are made"));
    let mut made = 0;
    let mut told = Instant::now();
    while made < messages {
        let portion = PORTION.min(messages - made);
        tables.outbox.fill_waiting(DEFAULT_CHAIN, LANES, portion).await?;
        made += portion;
        if testbed.is_time_to_tell(&mut told) {
            testbed.say(&format!("backlog: {made} of {messages} messages are made"));
        }
    }
    Ok(tables.outbox.vacuum_pending().await?)
}

/// Makes one claim, and gives the milliseconds that it takes.
async fn claim(tables: &Tables) -> Result<f64, BenchError> {
    let request = claim_request(&tables.outbox).await?;
    let began = Instant::now();
    let claimed = tables.outbox.claim(&request).await?.messages.len();
    let time = began.elapsed();
    if claimed == 0 {
        return Err(BenchError::TooFew("messages that wait"));
    }
    Ok(time.as_secs_f64() * 1_000.0)
}
