//! `end-to-end`: messages a second from the gRPC call to SUCCESS_SENT, against the floors of all its steps together.
//!
//! Owns the sum: the steps share the same cores, so their times add.

use super::Scenario;
use crate::{
    app::App,
    bench::{
        BenchError, Figure, Line, Unit,
        cost::{Cost, dead_rows},
        figures::{chained, median},
        floor,
        load::{Callers, Load},
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    config::Settings,
    sandbox::{Inbox, inbox::Keep},
};

const AT_LEAST: f64 = 0.7;

/// A case: the provider, and what is set otherwise than by default.
struct Case {
    name: &'static str,
    kind: Kind,
    change: fn(&mut Settings),
}

const CASES: [Case; 3] = [
    Case { name: "smtp", kind: Kind::Smtp, change: |_| {} },
    Case { name: "smtp, without express", kind: Kind::Smtp, change: |settings| settings.dispatch.express = false },
    Case { name: "http", kind: Kind::Http, change: |_| {} },
];

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for case in CASES {
        let tables = testbed.tables().await?;
        let measured = measure(testbed, &tables, &case).await;
        tables.remove().await?;
        let measured = measured?;

        testbed.say(&format!("end-to-end: {}, the floors", case.name));
        let (echo, statements) = (floor::echo(testbed).await?, floor::statements(testbed).await?);
        let send = floor::send(testbed, case.kind).await?;
        let together = chained(&[echo, statements.accept, statements.claim, statements.settle, send]);
        let mut line = Line::of_rate(Scenario::EndToEnd.as_str(), case.name, measured.rate, together, AT_LEAST);
        line.measured.extend(measured.cost);
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
    cost: Vec<Figure>,
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, case: &Case) -> Result<Measured, BenchError> {
    let scale = testbed.scale;
    let inbox = Inbox::new(Keep::COUNTS);
    let sink = Sink::start(case.kind, case.kind.as_str(), &inbox).await?;
    let mut settings = tables.with_providers(&[&sink]);
    (case.change)(&mut settings);
    let app = App::start(&settings).await?;
    let load = Load { callers: Callers::connect(app.address(), scale.callers).await?, tables, inbox: &inbox };

    let what = format!("end-to-end: {}", case.name);
    let warm = scale.messages.div_ceil(10);
    let rates = async {
        load.send(0..warm).await?;
        let cost = Cost::begin(&tables.outbox).await?;
        let mut rates = Vec::new();
        for nth in 0..u64::from(scale.repeats) {
            let first = warm + nth * scale.messages;
            rates.push(load.send(first..first + scale.messages).await?);
        }
        let sent = scale.messages * u64::from(scale.repeats);
        Ok::<_, BenchError>((rates, cost.of_each(&tables.outbox, sent).await?))
    };
    let (rates, cost) = testbed.telling_mails(&what, &inbox, rates).await?;
    app.stop().await;
    let sent = warm + scale.messages * u64::from(scale.repeats);
    tables.check(&inbox, sent).await?;
    let mut cost = cost.to_vec();
    cost.push(dead_rows(&tables.outbox, sent).await?);
    Ok(Measured { rate: median(&rates).ok_or(BenchError::TooFew("repeats"))?, cost })
}
