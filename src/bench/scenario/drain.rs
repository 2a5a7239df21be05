//! `drain`: messages a second out of a backlog to an SMTP sink, against claim, settle and raw sends together.
//!
//! Owns the backlog. The clock starts when a tenth of it has arrived: starting up is not draining.

use tokio::time::Instant;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{chained, rate},
        floor,
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

const AT_LEAST: f64 = 0.8;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let inbox = Inbox::new(Keep::COUNTS);
    let drained = testbed.telling_mails("drain: smtp", &inbox, drain(testbed, &tables, &inbox)).await;
    tables.remove().await?;
    let drained = drained?;

    testbed.say("drain: the floors");
    let statements = floor::statements(testbed).await?;
    let send = floor::send(testbed, Kind::Smtp).await?;
    let together = chained(&[statements.claim, statements.settle, send]);
    let mut line = Line::of_rate(Scenario::Drain.as_str(), "smtp", drained, together, AT_LEAST);
    line.against.extend([
        Figure::new("claim", statements.claim, Unit::PerSecond),
        Figure::new("settle", statements.settle, Unit::PerSecond),
        Figure::new("send", send, Unit::PerSecond),
    ]);
    Ok(vec![line])
}

async fn drain(testbed: &Testbed<'_>, tables: &Tables, inbox: &Inbox) -> Result<f64, BenchError> {
    let backlog = testbed.scale.messages;
    floor::statements::accept(&tables.outbox, 0..backlog).await?;

    let sink = Sink::start(Kind::Smtp, "smtp", inbox).await?;
    let app = tables.start(&sink).await?;
    let counted_from = tables.arrival(inbox, backlog / 10).await?;
    let began = Instant::now();
    tables.all_sent(inbox, backlog).await?;
    let time = began.elapsed();
    app.stop().await;
    tables.check(inbox, backlog).await?;
    Ok(rate(backlog - counted_from, time))
}
