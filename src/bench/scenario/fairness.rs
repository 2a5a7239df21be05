//! `fairness`: how long a client's single message takes while another client has many waiting in the same priority, against
//! the same when nobody else is there.
//!
//! Owns the two clients: what waits was accepted for one of its own, the callers are the client that gives no name. With a
//! provider that answers at once the cores are the bottleneck, with a slow one it is the provider.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Scenario,
    latency::{LISTED, arrivals},
};
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::{median, milliseconds, percentile},
        floor,
        load::Callers,
        mail,
        sink::{Kind, Sink},
        testbed::{Tables, Testbed},
    },
    sandbox::Inbox,
};

/// The goal, as a multiple of the time alone.
const AT_MOST: f64 = 2.0;

/// How many single messages there are a second.
const PER_SECOND: f64 = 20.0;

/// How long the slow provider takes for a mail.
const SLOW: Duration = Duration::from_millis(50);

/// How often it is looked whether the last of them has arrived.
const LOOK: Duration = Duration::from_millis(20);

/// The first of their numbers, far from those of the backlog.
const FIRST: u64 = 1 << 40;

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let mut lines = Vec::new();
    for slow in [None, Some(SLOW)] {
        let tables = testbed.tables().await?;
        let line = compare(testbed, &tables, slow).await;
        tables.remove().await?;
        lines.push(line?);
    }
    Ok(lines)
}

async fn compare(testbed: &Testbed<'_>, tables: &Tables, slow: Option<Duration>) -> Result<Line, BenchError> {
    let scale = testbed.scale;
    let case = match slow {
        Some(slow) => format!("smtp, {} ms a mail", slow.as_millis()),
        None => "smtp".to_owned(),
    };
    let inbox = Inbox::new(LISTED);
    let sink = Sink::start(Kind::Smtp, "smtp", &inbox).await?;
    if let Some(slow) = slow {
        sink.slow_down(slow)?;
    }
    testbed.say(&format!("fairness: {case}, alone"));
    let app = tables.start(&sink).await?;
    let callers = Callers::connect(app.address(), 1).await?;
    let first = FIRST + scale.singles;
    send_singles(tables, &callers, &inbox, FIRST, scale.singles.div_ceil(10)).await?;
    let alone = send_singles(tables, &callers, &inbox, first, scale.singles).await?;
    app.stop().await;

    let what = format!("fairness: {case}, {} messages are accepted", scale.waiting);
    testbed.say(&what);
    let began = Instant::now();
    let how_far = || format!("{what}, for {} s now", began.elapsed().as_secs());
    testbed.telling(how_far, floor::statements::accept(&tables.outbox, 0..scale.waiting)).await?;
    let app = tables.start(&sink).await?;
    let callers = Callers::connect(app.address(), 1).await?;
    let first = first + scale.singles;
    let what = format!("fairness: {case}, among others");
    let among = async {
        // Starting up is nobody's fault.
        tables.arrival(&inbox, inbox.count() + scale.waiting / 20).await?;
        send_singles(tables, &callers, &inbox, first, scale.singles).await
    };
    let among = testbed.telling_mails(&what, &inbox, among).await?;
    app.stop().await;
    line(case, &alone, &among)
}

fn line(case: String, alone: &Singles, among: &Singles) -> Result<Line, BenchError> {
    let figure = |name, value| Figure::new(name, value, Unit::Milliseconds);
    let middle = |singles: &Singles| median(&singles.times).ok_or(BenchError::TooFew("single messages"));
    let pair = (figure("median", middle(among)?), figure("alone", middle(alone)?));
    let mut line = Line::of_pair(Scenario::Fairness.as_str(), case, pair.0, pair.1);
    line.ratio_at_most = Some(AT_MOST);
    line.measured.extend(percentile(&among.times, 99.0).map(|p99| figure("p99", p99)));
    // Where none is left, the others were gone before the last single message.
    #[allow(clippy::cast_precision_loss)]
    line.measured.push(Figure::new("others_left", among.others_left as f64, Unit::Count));
    line.against.extend(percentile(&alone.times, 99.0).map(|p99| figure("p99_alone", p99)));
    Ok(line)
}

/// What came of single messages.
struct Singles {
    /// The time from each call to the arrival, in milliseconds.
    times: Vec<f64>,
    /// How many messages of the other client were waiting after the last call.
    others_left: u64,
}

/// Sends so many messages, one by one, and waits until they have arrived.
async fn send_singles(
    tables: &Tables,
    callers: &Callers,
    inbox: &Inbox,
    first: u64,
    count: u64,
) -> Result<Singles, BenchError> {
    let numbers = first..first + count;
    let answers = callers.send_at(PER_SECOND, numbers.clone(), &CancellationToken::new()).await?;
    let others_left = tables.outbox.count_pending_of(mail::CLIENT).await?;
    let all_arrived = async {
        while arrivals(inbox, numbers.clone()).len() < answers.len() {
            sleep(LOOK).await;
        }
    };
    tables.in_time("the arrival of single messages", all_arrived).await?;
    let arrivals = arrivals(inbox, numbers);
    let times = answers.iter().filter_map(|answer| Some(*arrivals.get(&answer.number)? - answer.called_at));
    Ok(Singles { times: times.map(milliseconds).collect(), others_left })
}
