//! `large`: the most memory that a service takes for messages with attachments of 5 MB.
//!
//! Owns the load: a few callers at once, who are quicker than the provider, so that large messages wait.

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        load::{Callers, Load},
        mail,
        service::Service,
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::{Inbox, inbox::Keep},
};

/// The goal, in megabytes.
const AT_MOST: f64 = 300.0;

/// How many callers there are at once. Each call under way holds its message, whatever the service does about it.
const CALLERS: usize = 8;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let inbox = Inbox::new(Keep::COUNTS);
    let what = format!("large: {} messages of 5 MB", testbed.scale.large);
    let line = testbed.telling_mails(&what, &inbox, measure(testbed, &tables, &inbox)).await;
    tables.remove().await?;
    Ok(vec![line?])
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, inbox: &Inbox) -> Result<Line, BenchError> {
    let messages = testbed.scale.large;
    let sink = Sink::start(Kind::Smtp, "smtp", inbox).await?;
    let service = Service::start(testbed, tables, &sink).await?;
    let callers = Callers::connect(service.address(), CALLERS).await?.with(mail::large_request);
    let rate = Load { callers, tables, inbox }.send(0..messages).await?;
    let peak =
        service.peak_megabytes().ok_or(BenchError::TooFew("figures of memory: only Linux tells them, and those"))?;
    service.end().await?;
    tables.check(inbox, messages).await?;
    Ok(Line {
        name: Scenario::Large.as_str(),
        case: format!("{messages} messages of 5 MB, {CALLERS} callers"),
        measured: vec![
            Figure::new("peak_memory", peak, Unit::Megabytes).at_most(AT_MOST),
            Figure::new("rate", rate, Unit::PerSecond),
        ],
        ..Line::default()
    })
}
