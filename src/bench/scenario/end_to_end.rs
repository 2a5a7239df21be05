//! `end-to-end`: messages a second from the gRPC call to SUCCESS_SENT, against the floors of all its steps together.
//!
//! Owns the sum: the steps share the same cores, so their times add.

use tokio::time::Instant;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{chained, median, rate},
        floor,
        load::Callers,
        testbed::{Kind, Sink, Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

const AT_LEAST: f64 = 0.7;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        testbed.say(&format!("end-to-end: {}", kind.as_str()));
        let tables = testbed.tables().await?;
        let measured = measure(testbed, &tables, kind).await;
        tables.remove().await?;
        let measured = measured?;

        testbed.say(&format!("end-to-end: {}, the floors", kind.as_str()));
        let (echo, statements) = (floor::echo(testbed).await?, floor::statements(testbed).await?);
        let send = floor::send(testbed, kind).await?;
        let together = chained(&[echo, statements.accept, statements.claim, statements.settle, send]);
        let mut line = Line::of_rate(Scenario::EndToEnd.as_str(), kind.as_str(), measured.rate, together, AT_LEAST);
        line.measured.push(Figure::new("wal_a_message", measured.wal_bytes, Unit::Bytes));
        line.against.extend([
            Figure::new("echo", echo, Unit::PerSecond),
            Figure::new("accept", statements.accept, Unit::PerSecond),
            Figure::new("claim", statements.claim, Unit::PerSecond),
            Figure::new("settle", statements.settle, Unit::PerSecond),
            Figure::new("send", send, Unit::PerSecond),
        ]);
        lines.push(line);
    }
    Ok(lines)
}

struct Measured {
    rate: f64,
    wal_bytes: f64,
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, kind: Kind) -> Result<Measured, BenchError> {
    let scale = testbed.scale;
    let inbox = Inbox::new(Keep::COUNTS);
    let sink = Sink::start(kind, kind.as_str(), &inbox).await?;
    let app = tables.start(&sink).await?;
    let callers = Callers::connect(app.address(), scale.callers).await?;

    let mut sent = scale.messages.div_ceil(10);
    callers.send(0..sent).await?;
    tables.all_sent(&inbox, sent).await?;

    let (mut rates, mut wal) = (Vec::new(), Vec::new());
    for _ in 0..scale.repeats {
        let wal_before = tables.outbox.wal_bytes().await?;
        let began = Instant::now();
        callers.send(sent..sent + scale.messages).await?;
        sent += scale.messages;
        tables.all_sent(&inbox, sent).await?;
        rates.push(rate(scale.messages, began.elapsed()));
        let written = tables.outbox.wal_bytes().await? - wal_before;
        #[allow(clippy::cast_precision_loss)]
        wal.push(written as f64 / scale.messages as f64);
    }
    app.stop().await;
    tables.check(&inbox, sent).await?;
    let (Some(rate), Some(wal_bytes)) = (median(&rates), median(&wal)) else {
        return Err(BenchError::TooFew("repeats"));
    };
    Ok(Measured { rate, wal_bytes })
}
