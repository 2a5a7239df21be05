//! `held`: messages a second from the call to SUCCESS_SENT while somebody's transaction that has read every table stays
//! open, against the same without it.
//!
//! Owns the transaction. While it is there the database keeps every row that was ever changed since.

use std::time::Duration;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::rate,
        load::{Callers, Load},
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

const AT_LEAST: f64 = 0.8;

/// Into how many parts the time is divided. What is changed in one is dead in the next.
const PARTS: u32 = 4;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let inbox = Inbox::new(Keep::COUNTS);
    let line = testbed.telling_mails("held", &inbox, compare(testbed, &tables, &inbox)).await;
    tables.remove().await?;
    Ok(vec![line?])
}

async fn compare(testbed: &Testbed<'_>, tables: &Tables, inbox: &Inbox) -> Result<Line, BenchError> {
    let held = testbed.scale.held;
    let sink = Sink::start(Kind::Smtp, "smtp", inbox).await?;
    let app = tables.start(&sink).await?;
    let load = Load { callers: Callers::connect(app.address(), testbed.scale.callers).await?, tables, inbox };

    let warmed = load.send_for(held / PARTS, 0).await?.end;
    testbed.say("held: without the transaction");
    let without = Period::measure(&load, held, warmed).await?;
    testbed.say("held: with the transaction");
    let reader = tables.outbox.read_everything().await?;
    let with = Period::measure(&load, held, without.end).await?;
    reader.close().await?;
    app.stop().await;
    tables.check(inbox, with.end).await?;

    let figure = |name, rate| Figure::new(name, rate, Unit::PerSecond);
    let case = format!("{} s", held.as_secs_f64());
    let pair = (figure("rate", with.rate), figure("without", without.rate));
    let mut line = Line::of_pair(Scenario::Held.as_str(), case, pair.0, pair.1);
    line.ratio_at_least = Some(AT_LEAST);
    line.measured.push(figure("rate_at_the_end", with.last));
    line.against.push(figure("without_at_the_end", without.last));
    Ok(line)
}

/// What came of some time of load.
struct Period {
    /// Messages a second in all.
    rate: f64,
    /// In the last part.
    last: f64,
    /// The number of the first mail that was not sent.
    end: u64,
}

impl Period {
    async fn measure(load: &Load<'_>, time: Duration, first: u64) -> Result<Self, BenchError> {
        let (mut end, mut last, mut taken) = (first, 0.0, Duration::ZERO);
        for _ in 0..PARTS {
            let sent = load.send_for(time / PARTS, end).await?;
            (end, last, taken) = (sent.end, sent.rate(), taken + sent.time);
        }
        Ok(Self { rate: rate(end - first, taken), last, end })
    }
}
