//! `planner`: messages a second from the call to SUCCESS_SENT after the empty tables were analysed, against tables of which
//! the planner knows nothing.
//!
//! Owns the two sets of tables. A plan that is right for an empty table reads all of a full one.

use super::Scenario;
use crate::{
    app::App,
    bench::{
        BenchError, Figure, Line, Unit,
        figures::median,
        load::{Callers, Load},
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

const AT_LEAST: f64 = 0.9;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let (analysed, fresh) = (testbed.tables().await?, testbed.tables().await?);
    let line = compare(testbed, &analysed, &fresh).await;
    analysed.remove().await?;
    fresh.remove().await?;
    Ok(vec![line?])
}

async fn compare(testbed: &Testbed<'_>, analysed: &Tables, fresh: &Tables) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    analysed.outbox.analyze().await?;
    let inboxes = [Inbox::new(Keep::COUNTS), Inbox::new(Keep::COUNTS)];
    let after = Side::start(testbed, analysed, &inboxes[0]).await?;
    let before = Side::start(testbed, fresh, &inboxes[1]).await?;
    let warm = scale.messages.div_ceil(10);
    let turns = async {
        after.load.send(0..warm).await?;
        before.load.send(0..warm).await?;
        let mut rates = (Vec::new(), Vec::new());
        // In turns, so that both see the same weather.
        for nth in 0..u64::from(scale.repeats) {
            let first = warm + nth * scale.messages;
            rates.0.push(after.load.send(first..first + scale.messages).await?);
            rates.1.push(before.load.send(first..first + scale.messages).await?);
        }
        Ok::<_, BenchError>(rates)
    };
    let rates = testbed.telling_mails("planner: after ANALYZE", &inboxes[0], turns).await?;
    let sent = warm + u64::from(scale.repeats) * scale.messages;
    after.end(sent).await?;
    before.end(sent).await?;

    let figure = |name, rates: &[f64]| {
        median(rates).map(|rate| Figure::new(name, rate, Unit::PerSecond)).ok_or(BenchError::TooFew("repeats"))
    };
    let pair = (figure("rate", &rates.0)?, figure("before", &rates.1)?);
    let mut line = Line::of_pair(Scenario::Planner.as_str(), "smtp", pair.0, pair.1);
    line.ratio_at_least = Some(AT_LEAST);
    Ok(line)
}

/// One of the two.
struct Side<'a> {
    app: App,
    _sink: Sink,
    load: Load<'a>,
}

impl<'a> Side<'a> {
    async fn start(testbed: &Testbed<'_>, tables: &'a Tables, inbox: &'a Inbox) -> Result<Self, BenchError> {
        let sink = Sink::start(Kind::Smtp, "smtp", inbox).await?;
        let app = tables.start(&sink).await?;
        let callers = Callers::connect(app.address(), testbed.scale.callers).await?;
        Ok(Self { app, _sink: sink, load: Load { callers, tables, inbox } })
    }

    async fn end(self, sent: u64) -> Result<(), BenchError> {
        self.app.stop().await;
        self.load.tables.check(self.load.inbox, sent).await
    }
}
