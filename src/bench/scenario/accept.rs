//! `accept`: SendEmail calls answered a second, against a handler that commits one plain insert a call.
//!
//! Owns the comparison. No provider is set up, so that nothing but accepting is done meanwhile. The handler has as many
//! connections as the service; what it makes of more is told beside it.

use std::net::SocketAddr;

use super::Scenario;
use crate::{
    app::App,
    bench::{
        BenchError, Figure, Line, Unit,
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

/// What a Postgres as it comes out of the box has to spare.
const MOST_CONNECTIONS: u32 = 48;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let lines = compare_all(testbed, &tables).await;
    tables.remove().await?;
    lines
}

async fn compare_all(testbed: &Testbed<'_>, tables: &Tables) -> Result<Vec<Line>, BenchError> {
    let scale = testbed.scale;
    // As many connections as the outbox has itself, and as many as such a handler could wish for.
    let few = tables.settings.database.max_connections;
    let many = few.max(u32::try_from(scale.callers).unwrap_or(u32::MAX).min(MOST_CONNECTIONS));
    let (few, many) = (floor(tables, few).await?, floor(tables, many).await?);
    let app = App::start(&tables.settings).await?;
    let servers = [app.address(), few.address(), many.address()];
    let lines = async {
        let many = Case { callers: scale.callers, messages: scale.messages, at_least: MANY_AT_LEAST };
        let one = Case { callers: 1, messages: (scale.messages / 10).max(10), at_least: ONE_AT_LEAST };
        Ok(vec![compare(testbed, tables, servers, many).await?, compare(testbed, tables, servers, one).await?])
    };
    let lines = lines.await;
    app.stop().await;
    lines
}

async fn floor(tables: &Tables, connections: u32) -> Result<BareServer, BenchError> {
    let floor = Floor::new(&tables.outbox, &tables.settings.database, connections).await?;
    BareServer::start(Work::Insert(floor)).await
}

struct Case {
    callers: usize,
    messages: u64,
    at_least: f64,
}

/// Calls the three servers: the service, the floor with as many connections, the floor with many.
async fn compare(
    testbed: &Testbed<'_>,
    tables: &Tables,
    servers: [SocketAddr; 3],
    case: Case,
) -> Result<Line, BenchError> {
    let Case { callers, messages, at_least } = case;
    let case = if callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") };
    let mut sides = Vec::new();
    for server in servers {
        let callers = Callers::connect(server, callers).await?;
        callers.send(0..messages.div_ceil(10)).await?;
        sides.push((callers, Vec::new()));
    }
    let mut cost = Vec::new();
    // In turns, so that all see the same weather.
    for nth in 1..=testbed.scale.repeats {
        testbed.say(&format!("accept: {case}, {nth} of {}", testbed.scale.repeats));
        for (side, (callers, rates)) in sides.iter_mut().enumerate() {
            let counted = Cost::begin(&tables.outbox).await?;
            rates.push(rate(messages, callers.send(0..messages).await?));
            if side == 0 {
                cost = counted.of_each(&tables.outbox, messages).await?.to_vec();
            }
        }
    }
    let medians: Option<Vec<f64>> = sides.iter().map(|(_, rates)| median(rates)).collect();
    let Some([ours, few, many]) = medians.as_deref() else { return Err(BenchError::TooFew("repeats")) };
    let mut line = Line::of_rate(Scenario::Accept.as_str(), case, *ours, *few, at_least);
    line.measured.extend(cost);
    line.against.push(Figure::new("floor_with_more_connections", *many, Unit::PerSecond));
    Ok(line)
}
