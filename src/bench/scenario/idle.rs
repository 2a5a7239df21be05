//! `idle`: statements a second and memory of a service that has nothing to do.
//!
//! Owns the watching of a service in a process of its own, whose log tells its statements.

use std::time::Duration;

use tokio::time::Instant;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        service::Service,
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

/// The goals.
const STATEMENTS_AT_MOST: f64 = 0.5;
const MEGABYTES_AT_MOST: f64 = 50.0;

/// How long it is left alone before anything is counted.
const SETTLING: Duration = Duration::from_secs(3);

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let line = watch(testbed, &tables).await;
    tables.remove().await?;
    Ok(vec![line?])
}

async fn watch(testbed: &Testbed<'_>, tables: &Tables) -> Result<Line, BenchError> {
    // Nothing is ever sent to it.
    let sink = Sink::start(Kind::Http, "http", &Inbox::new(Keep::COUNTS)).await?;
    let (service, mut statements) = Service::start_telling(testbed, tables, &sink).await?;
    statements.per_second(SETTLING.min(testbed.scale.idle)).await;
    let began = Instant::now();
    let how_far = || format!("idle: watched for {} s", began.elapsed().as_secs());
    let statements = testbed.telling(how_far, statements.per_second(testbed.scale.idle)).await;
    let resident = service.resident_megabytes();
    service.end().await?;

    let mut measured = vec![Figure::new("statements", statements, Unit::PerSecond).at_most(STATEMENTS_AT_MOST)];
    // Only Linux tells it.
    measured.extend(resident.map(|mb| Figure::new("memory", mb, Unit::Megabytes).at_most(MEGABYTES_AT_MOST)));
    Ok(Line { name: Scenario::Idle.as_str(), case: "1 process".to_owned(), measured, ..Line::default() })
}
