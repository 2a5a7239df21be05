//! `accept`: SendEmail calls answered a second, against a handler that commits one plain insert a call.
//!
//! Owns the comparison. No provider is set up, so that nothing but accepting is done meanwhile.

use super::Scenario;
use crate::{
    app::App,
    bench::{
        BenchError, Line,
        cost::Cost,
        figures::{median, rate},
        floor::grpc::{BareServer, Work},
        load::Callers,
        testbed::{Tables, Testbed},
    },
    outbox::Floor,
};

/// The goals, as multiples of the floor: many callers can be committed together, one cannot.
const MANY_AT_LEAST: f64 = 3.0;
const ONE_AT_LEAST: f64 = 0.8;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let lines = compare_all(testbed, &tables).await;
    tables.remove().await?;
    lines
}

async fn compare_all(testbed: &Testbed<'_>, tables: &Tables) -> Result<Vec<Line>, BenchError> {
    // As many connections as the outbox has itself.
    let database = &tables.settings.database;
    let floor = Floor::new(&tables.outbox, database, database.max_connections).await?;
    let floor = BareServer::start(Work::Insert(floor)).await?;
    let app = App::start(&tables.settings).await?;
    let scale = testbed.scale;
    let mut lines = Vec::new();
    for (callers, messages, at_least) in
        [(scale.callers, scale.messages, MANY_AT_LEAST), (1, (scale.messages / 10).max(10), ONE_AT_LEAST)]
    {
        let case = if callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") };
        let ours = Callers::connect(app.address(), callers).await?;
        let theirs = Callers::connect(floor.address(), callers).await?;
        let mut rates = (Vec::new(), Vec::new());
        for callers in [&ours, &theirs] {
            callers.send(0..messages.div_ceil(10)).await?;
        }
        let mut cost = [None, None];
        // In turns, so that both see the same weather.
        for nth in 1..=scale.repeats {
            testbed.say(&format!("accept: {case}, {nth} of {}", scale.repeats));
            let counted = Cost::begin(&tables.outbox).await?;
            rates.0.push(rate(messages, ours.send(0..messages).await?));
            cost = counted.of_each(&tables.outbox, messages).await?.map(Some);
            rates.1.push(rate(messages, theirs.send(0..messages).await?));
        }
        let (Some(ours), Some(theirs)) = (median(&rates.0), median(&rates.1)) else {
            return Err(BenchError::TooFew("repeats"));
        };
        let mut line = Line::of_rate(Scenario::Accept.as_str(), case, ours, theirs, at_least);
        line.measured.extend(cost.into_iter().flatten());
        lines.push(line);
    }
    app.stop().await;
    Ok(lines)
}
