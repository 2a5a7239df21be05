//! `latency`: from the answer to SendEmail to the arrival at the provider, at half of what can be borne, with the service
//! in this process and with four processes of it.
//!
//! Owns the pairing of answers and arrivals. An arrival is when the sink has the whole mail, so a little later than the
//! first byte.

use std::{collections::HashMap, net::SocketAddr, ops::Range};

use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, milliseconds, percentile},
        load::{Answered, Callers, Load},
        mail,
        service::Service,
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

/// The goals, in milliseconds.
const MEDIAN_AT_MOST: f64 = 3.0;
const P99_AT_MOST: f64 = 15.0;

/// How many processes there are where there are several.
const PROCESSES: usize = 4;

/// Every mail can be looked up, none of its content.
pub(super) const LISTED: Keep = Keep { mails: 1_000_000, bytes: 0, listed: true };

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        for processes in [1, PROCESSES] {
            let tables = testbed.tables().await?;
            let line = measure(testbed, &tables, kind, processes).await;
            tables.remove().await?;
            lines.push(line?);
        }
    }
    Ok(lines)
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, kind: Kind, processes: usize) -> Result<Line, BenchError> {
    let inbox = Inbox::new(LISTED);
    let sink = Sink::start(kind, kind.as_str(), &inbox).await?;
    let case =
        if processes == 1 { kind.as_str().to_owned() } else { format!("{}, {processes} processes", kind.as_str()) };
    let what = format!("latency: {case}");
    let load = async |addresses: &[SocketAddr]| {
        let callers = Callers::connect_to_each(addresses, testbed.scale.callers).await?;
        let load = Load { callers, tables, inbox: &inbox };
        testbed.telling_mails(&what, &inbox, at_half_load(&load, testbed.scale.messages)).await
    };
    let measured = if processes == 1 {
        let app = tables.start(&sink).await?;
        let measured = load(&[app.address()]).await?;
        app.stop().await;
        measured
    } else {
        let mut services = Vec::new();
        for _ in 0..processes {
            services.push(Service::start(testbed, tables, &sink).await?);
        }
        let addresses: Vec<SocketAddr> = services.iter().map(Service::address).collect();
        let measured = load(&addresses).await?;
        for service in services {
            service.end().await?;
        }
        measured
    };
    let Half { rate, answers, numbers } = measured;
    tables.check(&inbox, numbers.end).await?;

    let delays = delays(&answers, &arrivals(&inbox, numbers));
    let (Some(median), Some(p99)) = (median(&delays), percentile(&delays, 99.0)) else {
        return Err(BenchError::TooFew("arrivals"));
    };
    Ok(Line {
        name: Scenario::Latency.as_str(),
        case,
        measured: vec![
            Figure::new("median", median, Unit::Milliseconds).at_most(MEDIAN_AT_MOST),
            Figure::new("p99", p99, Unit::Milliseconds).at_most(P99_AT_MOST),
            Figure::new("rate", rate, Unit::PerSecond),
        ],
        ..Line::default()
    })
}

/// What was sent at half of what can be borne.
struct Half {
    rate: f64,
    answers: Vec<Answered>,
    numbers: Range<u64>,
}

/// Finds out what can be borne, after as many messages again to warm up, and then sends so many at half that rate.
async fn at_half_load(load: &Load<'_>, messages: u64) -> Result<Half, BenchError> {
    let batch = (messages / 2).max(1);
    load.send(0..batch).await?;
    let rate = load.send(batch..2 * batch).await? / 2.0;
    let numbers = 2 * batch..2 * batch + messages;
    let answers = load.callers.send_at(rate, numbers.clone(), &CancellationToken::new()).await?;
    load.tables.all_sent(load.inbox, numbers.end).await?;
    Ok(Half { rate, answers, numbers })
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
