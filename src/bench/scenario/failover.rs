//! `failover`: a provider falls silent under load. How long until no message waits for it, and what mail costs more
//! while its circuit is open.
//!
//! Owns the outage. By SMTP the relay falls silent before it could have taken anything, so that the next provider is
//! asked at once; by HTTP after it was handed everything, so that nobody can know and a pause comes first.

use std::{collections::HashMap, time::Duration};

use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use super::{
    Scenario,
    latency::{LISTED, arrivals, delays},
};
use crate::{
    app::App,
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, milliseconds},
        load::{Answered, Callers, Load},
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    config::{ProviderKind, Settings},
    delivery::ProviderName,
    health::Circuit,
    sandbox::Inbox,
};

const PRIMARY: &str = "primary";
const BACKUP: &str = "backup";

/// What the goal of one timeout leaves for the sending itself.
const ALLOWANCE: Duration = Duration::from_millis(250);

/// How much more mail may take while the circuit is open, in milliseconds.
const EXTRA_AT_MOST: f64 = 1.0;

/// The longest that is waited for the circuit to open.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often it is looked whether the circuit is open.
const LOOK: Duration = Duration::from_millis(5);

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        let tables = testbed.tables().await?;
        let inbox = Inbox::new(LISTED);
        let what = format!("failover: {} falls silent", kind.as_str());
        let line = testbed.telling_mails(&what, &inbox, measure(testbed, &tables, &inbox, kind)).await;
        tables.remove().await?;
        lines.push(line?);
    }
    Ok(lines)
}

async fn measure(testbed: &Testbed<'_>, tables: &Tables, inbox: &Inbox, kind: Kind) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    let primary = Sink::start(kind, PRIMARY, inbox).await?;
    let backup = Sink::start(Kind::Smtp, BACKUP, inbox).await?;

    let app = App::start(&impatient(testbed, tables.with_providers(&[&primary, &backup]))).await?;
    let load_on_both = load(testbed, &app, tables, inbox).await?;
    let silence = fall_silent(testbed, tables, &app, &primary, inbox);
    let outage = load_on_both.send_while(scale.failover_rate, 0, silence).await?;
    let (times, sent) = (outage.meanwhile?, outage.end);
    tables.all_sent(inbox, sent).await?;
    app.stop().await;

    // The same load without the failed provider: what mail takes at the second provider anyway.
    let app = App::start(&tables.with_providers(&[&backup])).await?;
    let load_on_one = load(testbed, &app, tables, inbox).await?;
    let alone = load_on_one.send_while(scale.failover_rate, sent, sleep(scale.failover_phase)).await?;
    let sent = alone.end;
    tables.all_sent(inbox, sent).await?;
    app.stop().await;
    tables.check(inbox, sent).await?;

    let arrivals = arrivals(inbox, 0..sent);
    let (until_free, unaffected) = until_free(&outage.answers, &arrivals, &times);
    let (Some(with), Some(without)) =
        (median(&delays(&unaffected, &arrivals)), median(&delays(&alone.answers, &arrivals)))
    else {
        return Err(BenchError::TooFew("messages after the failover"));
    };
    let pause = if kind == Kind::Http { scale.pause } else { Duration::ZERO };
    let limit = scale.silence + pause + ALLOWANCE;
    Ok(Line {
        name: Scenario::Failover.as_str(),
        case: format!("{} silent", kind.as_str()),
        measured: vec![
            Figure::new("until_none_waits", milliseconds(until_free) / 1_000.0, Unit::Seconds)
                .at_most(limit.as_secs_f64()),
            Figure::new("extra", with - without, Unit::Milliseconds).at_most(EXTRA_AT_MOST),
            Figure::new("circuit_open_after", (times.opened - times.silent).as_seconds_f64(), Unit::Seconds),
            Figure::new("rate", scale.failover_rate, Unit::PerSecond),
        ],
        against: vec![
            Figure::new("timeout", scale.silence.as_secs_f64(), Unit::Seconds),
            Figure::new("pause", pause.as_secs_f64(), Unit::Seconds),
        ],
        ..Line::default()
    })
}

/// The settings with the patience of the scale, and a circuit that stays open: what its probes cost is not measured.
fn impatient(testbed: &Testbed<'_>, mut settings: Settings) -> Settings {
    let scale = testbed.scale;
    settings.retry.pause = scale.pause;
    settings.retry.jitter = 0.0;
    for provider in settings.providers.values_mut() {
        provider.breaker.window = scale.breaker_window;
        provider.breaker.open_for = PATIENCE * 10;
        provider.breaker.open_longest = PATIENCE * 10;
        match &mut provider.kind {
            ProviderKind::Smtp(smtp) => smtp.command_timeout = scale.silence,
            ProviderKind::Http(http) => http.timeout = scale.silence,
            ProviderKind::Api(api) => api.timeout = scale.silence,
        }
    }
    settings
}

/// Callers whose mails arrive in the inbox.
async fn load<'a>(
    testbed: &Testbed<'_>,
    app: &App,
    tables: &'a Tables,
    inbox: &'a Inbox,
) -> Result<Load<'a>, BenchError> {
    Ok(Load { callers: Callers::connect(app.address(), testbed.scale.callers).await?, tables, inbox })
}

/// When what happened.
struct Times {
    silent: OffsetDateTime,
    opened: OffsetDateTime,
}

/// Lets the load go well for a while, then the provider falls silent; the load goes on until the circuit is open, what
/// waited is sent, and for a while after.
async fn fall_silent(
    testbed: &Testbed<'_>,
    tables: &Tables,
    app: &App,
    primary: &Sink,
    inbox: &Inbox,
) -> Result<Times, BenchError> {
    let scale = testbed.scale;
    sleep(scale.failover_phase).await;
    primary.fall_silent()?;
    let silent = OffsetDateTime::now_utc();
    let began = Instant::now();
    let name = ProviderName::new(PRIMARY);
    let is_open =
        || app.board().provider(&name).is_some_and(|p| p.circuit(app.outbox().clock().now()) == Circuit::Open);
    while !is_open() {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Stalled { what: "the opening of the circuit".to_owned(), longest: PATIENCE });
        }
        sleep(LOOK).await;
    }
    let opened = OffsetDateTime::now_utc();
    sleep(scale.silence + scale.pause).await;
    // By now whatever waited for the silent provider is due again, and is sent before what was accepted later.
    let accepted = inbox.count() + tables.outbox.count_pending().await?;
    tables.arrival(inbox, accepted).await?;
    sleep(scale.failover_phase).await;
    Ok(Times { silent, opened })
}

/// How long after the silence the last message arrived that was accepted before the circuit opened, and the answers
/// of those accepted after that arrival.
fn until_free(
    answers: &[Answered],
    arrivals: &HashMap<u64, OffsetDateTime>,
    times: &Times,
) -> (time::Duration, Vec<Answered>) {
    let waited = answers.iter().filter(|answered| answered.at <= times.opened);
    let last = waited.filter_map(|answered| arrivals.get(&answered.number)).max().copied().unwrap_or(times.opened);
    (last - times.silent, answers.iter().filter(|answered| answered.at > last).copied().collect())
}
