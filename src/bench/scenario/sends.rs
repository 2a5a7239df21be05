//! `sends`: messages a second that the SMTP adapter hands over, against a client that only writes bytes.
//!
//! Owns the cases. No goal: it tells what rendering, verdicts and the keeping of connections cost, where no database is
//! at work.

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::median,
        floor::{sends, wire},
        sink::{Kind, Sink},
        testbed::Testbed,
    },
    sandbox::{Inbox, inbox::Keep},
};

const CONNECTIONS: [usize; 2] = [1, 8];

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for connections in CONNECTIONS {
        let case = if connections == 1 { "1 connection".to_owned() } else { format!("{connections} connections") };
        let sink = Sink::start(Kind::Smtp, "smtp", &Inbox::new(Keep::COUNTS)).await?;
        let scale = testbed.scale;
        let (mut rates, mut floors) = (Vec::new(), Vec::new());
        for nth in 1..=scale.repeats {
            testbed.say(&format!("sends: {case}, {nth} of {}", scale.repeats));
            rates.push(sends::measure_at_once(&sink, connections, scale.messages).await?);
            floors.push(wire::measure(sink.address(), connections, scale.messages).await?);
        }
        let middle = |rates: &[f64]| median(rates).ok_or(BenchError::TooFew("repeats"));
        let rate = Figure::new("rate", middle(&rates)?, Unit::PerSecond);
        let floor = Figure::new("floor", middle(&floors)?, Unit::PerSecond);
        lines.push(Line::of_pair(Scenario::Sends.as_str(), case, rate, floor));
    }
    Ok(lines)
}
