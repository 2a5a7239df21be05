//! `latency`: from the answer to SendEmail to the arrival at the provider, at half of what can be borne.
//!
//! Owns the pairing of answers and arrivals. An arrival is when the sink has the whole mail, so a little later than the
//! first byte.

use std::{collections::HashMap, ops::Range};

use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, milliseconds, percentile, rate},
        load::{Answered, Callers},
        mail,
        testbed::{Kind, Sink, Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

/// The goals, in milliseconds.
const MEDIAN_AT_MOST: f64 = 3.0;
const P99_AT_MOST: f64 = 15.0;

/// Every mail can be looked up, none of its content.
pub(super) const LISTED: Keep = Keep { mails: 1_000_000, bytes: 0, listed: true };

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        testbed.say(&format!("latency: {}", kind.as_str()));
        let tables = testbed.tables().await?;
        let line = measure(testbed, &tables, kind).await;
        tables.remove().await?;
        lines.push(line?);
    }
    Ok(lines)
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, kind: Kind) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    let inbox = Inbox::new(LISTED);
    let sink = Sink::start(kind, kind.as_str(), &inbox).await?;
    let app = tables.start(&sink).await?;
    let callers = Callers::connect(app.address(), scale.callers).await?;

    // What can be borne, after as many messages again to warm up.
    let batch = scale.messages / 2;
    let mut full = 0.0;
    for range in [0..batch, batch..2 * batch] {
        let began = Instant::now();
        callers.send(range.clone()).await?;
        tables.all_sent(&inbox, range.end).await?;
        full = rate(batch, began.elapsed());
    }

    let paced = 2 * batch..2 * batch + scale.messages;
    let answers = callers.send_at(full / 2.0, paced.clone(), &CancellationToken::new()).await?;
    tables.all_sent(&inbox, paced.end).await?;
    app.stop().await;
    tables.check(&inbox, paced.end).await?;

    let delays = delays(&answers, &arrivals(&inbox, paced));
    let (Some(median), Some(p99)) = (median(&delays), percentile(&delays, 99.0)) else {
        return Err(BenchError::TooFew("arrivals"));
    };
    Ok(Line {
        name: Scenario::Latency.as_str(),
        case: kind.as_str().to_owned(),
        measured: vec![
            Figure::new("median", median, Unit::Milliseconds).at_most(MEDIAN_AT_MOST),
            Figure::new("p99", p99, Unit::Milliseconds).at_most(P99_AT_MOST),
            Figure::new("rate", full / 2.0, Unit::PerSecond),
        ],
        ..Line::default()
    })
}

/// When the mails of these numbers arrived.
pub(super) fn arrivals(inbox: &Inbox, numbers: Range<u64>) -> HashMap<u64, OffsetDateTime> {
    let mails = inbox.all();
    let numbered = mails.iter().filter_map(|mail| Some((mail::number(&mail.subject)?, mail.received_at)));
    numbered.filter(|(number, _)| numbers.contains(number)).collect()
}

/// The time from each answer to the arrival, in milliseconds. One that arrived before its answer did not wait.
pub(super) fn delays(answers: &[Answered], arrivals: &HashMap<u64, OffsetDateTime>) -> Vec<f64> {
    let delay = |answered: &Answered| Some((*arrivals.get(&answered.number)? - answered.at).max(time::Duration::ZERO));
    answers.iter().filter_map(delay).map(milliseconds).collect()
}
