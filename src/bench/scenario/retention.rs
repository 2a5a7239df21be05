//! `retention`: how long calls are answered while a day that is over is retired and somebody reads, against the same load
//! before.
//!
//! Owns the day, the reader and the load. The reader has read every table and stays for a while: what has to wait for it
//! must let nobody else wait.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Scenario;
use crate::{
    app::App,
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{milliseconds, percentile},
        load::{Answered, Callers, Load},
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    outbox::{DayOver, Retirement, SURVIVES_ONE_IN},
    sandbox::{Inbox, inbox::Keep},
};

/// The goal, as a multiple of the 99th percentile before.
const AT_MOST: f64 = 2.0;

/// How many messages one statement makes.
const PORTION: u64 = 20_000;

/// How long a process waits before it tries again what it stepped back from.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest that the day may take.
const PATIENCE: Duration = Duration::from_secs(900);

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let line = compare(testbed, &tables).await;
    tables.remove().await?;
    Ok(vec![line?])
}

async fn compare(testbed: &Testbed<'_>, tables: &Tables) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    let inbox = Inbox::new(Keep::COUNTS);
    let sink = Sink::start(Kind::Smtp, "smtp", &inbox).await?;
    let mut settings = tables.with_providers(&[&sink]);
    // The day is left to this: the service itself keeps everything.
    (settings.retention.finished, settings.retention.unresolved) = (YEAR, YEAR);
    let app = App::start(&settings).await?;
    let load = Load { callers: Callers::connect(app.address(), scale.callers).await?, tables, inbox: &inbox };
    let day = make_day(testbed, tables).await?;

    testbed.say("retention: steady load");
    let batch = (scale.messages / 2).max(1);
    load.send(0..batch).await?;
    let rate = load.send(batch..2 * batch).await? / 2.0;
    let steady = load.send_while(rate, 2 * batch, sleep(scale.retention_phase)).await?;

    testbed.say("retention: the day is retired");
    let began = Instant::now();
    let how_far = || format!("retention: the day is being retired for {} s", began.elapsed().as_secs());
    let retiring = retire_day(testbed, tables, day);
    let retiring = testbed.telling(how_far, load.send_while(rate, steady.end, retiring)).await?;
    let took = retiring.meanwhile?;
    tables.all_sent(&inbox, retiring.end).await?;
    app.stop().await;
    tables.check_beside(survivors(scale.retired), &inbox, retiring.end).await?;

    let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
    let p99 = |answers: &[Answered]| percentile(&waits(answers), 99.0).ok_or(BenchError::TooFew("calls"));
    let figure = |name, value| Figure::new(name, value, Unit::Milliseconds);
    let pair = (figure("p99", p99(&retiring.answers)?), figure("steady_p99", p99(&steady.answers)?));
    let case = format!("{} messages", scale.retired);
    let mut line = Line::of_pair(Scenario::Retention.as_str(), case, pair.0, pair.1);
    line.ratio_at_most = Some(AT_MOST);
    line.measured.extend(percentile(&waits(&retiring.answers), 100.0).map(|longest| figure("longest", longest)));
    line.measured.push(Figure::new("retired_in", millis(took) / 1_000.0, Unit::Seconds));
    line.measured.push(Figure::new("rate", rate, Unit::PerSecond));
    line.against.extend(percentile(&waits(&steady.answers), 100.0).map(|longest| figure("steady_longest", longest)));
    Ok(line)
}

/// The time from each call to its answer, in milliseconds.
fn waits(answers: &[Answered]) -> Vec<f64> {
    answers.iter().map(|answered| milliseconds(answered.at - answered.called_at)).collect()
}

/// How many of so many messages of the day have to be kept.
fn survivors(messages: u64) -> u64 {
    let of_portion = |portion: u64| portion.div_ceil(SURVIVES_ONE_IN);
    messages / PORTION * of_portion(PORTION) + of_portion(messages % PORTION)
}

async fn make_day(testbed: &Testbed<'_>, tables: &Tables) -> Result<DayOver, BenchError> {
    let messages = testbed.scale.retired;
    testbed.say(&format!("retention: a day of {messages} messages is made"));
    let day = tables.outbox.make_day_over().await?;
    let mut made = 0;
    let mut told = Instant::now();
    while made < messages {
        let portion = PORTION.min(messages - made);
        tables.outbox.fill_day_over(day, portion).await?;
        made += portion;
        if testbed.is_time_to_tell(&mut told) {
            testbed.say(&format!("retention: {made} of {messages} messages are made"));
        }
    }
    Ok(day)
}

/// Retires the day, while for a time somebody's transaction is open, and gives how long it takes.
async fn retire_day(testbed: &Testbed<'_>, tables: &Tables, day: DayOver) -> Result<Duration, BenchError> {
    let mut reader = Some(tables.outbox.read_everything().await?);
    let began = Instant::now();
    loop {
        retire(tables).await?;
        let is_retired = !tables.outbox.has_more_of_day_over(day, survivors(testbed.scale.retired)).await?;
        if began.elapsed() >= testbed.scale.retention_phase
            && let Some(reader) = reader.take()
        {
            reader.close().await?;
        } else if is_retired && reader.is_none() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Stalled { what: "the end of a day".to_owned(), longest: PATIENCE });
        }
        sleep(PAUSE).await;
    }
}

/// What the service does from time to time about days that are over.
async fn retire(tables: &Tables) -> Result<(), BenchError> {
    Retirement::new(tables.outbox.clone(), tables.settings.retention.clone()).turn().await?;
    Ok(())
}
