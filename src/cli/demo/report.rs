//! What the demo saw, and whether it is as it should be.
//!
//! Owns the verdict and the words; what happens in the demo is decided in its script.

use std::{collections::HashMap, fmt, time::Duration};

use time::OffsetDateTime;
use tokio::time::Instant;

use super::Sent;
use crate::{
    cli::local::{BACKUP, PRIMARY},
    proto::v1,
    sandbox::Inbox,
};

/// What the demo saw.
#[derive(Default)]
pub(super) struct Report {
    pub(super) sent: Vec<Sent>,
    pub(super) statuses: Vec<v1::GetStatusResponse>,
    pub(super) circuit: Vec<(Duration, &'static str)>,
    notes: Vec<(Duration, String)>,
    arrivals: Vec<Arrival>,
}

/// A mail in an inbox.
struct Arrival {
    message_id: String,
    provider: String,
    at: Duration,
    times: u32,
}

impl Report {
    /// Notes what happened when.
    pub(super) fn note(&mut self, at: Duration, what: &str) {
        self.notes.push((at, what.to_owned()));
    }

    /// Takes over what arrived.
    pub(super) fn read_inbox(&mut self, inbox: &Inbox, start: Instant) {
        let started_at = OffsetDateTime::now_utc() - start.elapsed();
        self.arrivals = inbox
            .all()
            .iter()
            .map(|mail| Arrival {
                // The header Message-ID by SMTP, the id itself by HTTP.
                message_id: mail.message_id.split('@').next().unwrap_or_default().to_owned(),
                provider: mail.provider.to_string(),
                at: (mail.received_at - started_at).try_into().unwrap_or_default(),
                times: mail.repeats + 1,
            })
            .collect();
        let first_over = self.arrivals.iter().filter(|arrival| arrival.provider == BACKUP).map(|a| a.at).min();
        if let Some(at) = first_over {
            self.note(at, "first email through backup");
        }
        let meaning = |state: &str| match state {
            "closed" => "emails go there again",
            "open" => "it is not asked",
            _ => "a few emails try it out",
        };
        let words = |state: &str| format!("circuit of primary is {state}: {}", meaning(state));
        self.notes.extend(self.circuit.iter().map(|(at, state)| (*at, words(state))));
        self.notes.sort_by_key(|(at, _)| *at);
    }

    /// Whether every email is SUCCESS_SENT, and in exactly one inbox exactly once, and failover was really seen.
    pub(super) fn is_flawless(&self) -> bool {
        self.unsent() == 0 && self.astray() == 0 && self.through(BACKUP) > 0 && self.through(PRIMARY) > 0
    }

    fn unsent(&self) -> usize {
        self.statuses.iter().filter(|status| status.status() != v1::Status::SuccessSent).count()
            + self.sent.len().abs_diff(self.statuses.len())
    }

    /// Emails that are in no inbox, in two, or twice in one.
    fn astray(&self) -> usize {
        let mut times: HashMap<&str, u32> = HashMap::new();
        for arrival in &self.arrivals {
            *times.entry(&arrival.message_id).or_default() += arrival.times;
        }
        let strangers = times.keys().filter(|id| !self.sent.iter().any(|sent| sent.message_id == **id)).count();
        strangers + self.sent.iter().filter(|sent| times.get(sent.message_id.as_str()) != Some(&1)).count()
    }

    fn through(&self, provider: &str) -> usize {
        self.arrivals.iter().filter(|arrival| arrival.provider == provider).count()
    }

    /// From the answer to `SendEmail` to the arrival, shortest first, for what arrived through that provider.
    fn delays(&self, provider: &str) -> Vec<Duration> {
        let accepted: HashMap<&str, Duration> =
            self.sent.iter().map(|sent| (sent.message_id.as_str(), sent.accepted)).collect();
        let mut delays: Vec<Duration> = self
            .arrivals
            .iter()
            .filter(|arrival| arrival.provider == provider)
            .filter_map(|arrival| Some(arrival.at.saturating_sub(*accepted.get(arrival.message_id.as_str())?)))
            .collect();
        delays.sort();
        delays
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWhat happened, in seconds since the first SendEmail:\n")?;
        for (at, what) in &self.notes {
            writeln!(f, "  {:>7.3}  {what}", at.as_secs_f64())?;
        }
        writeln!(f, "\nWhich way the emails went, and how long from SendEmail's answer to the inbox:\n")?;
        for (provider, kind) in [(PRIMARY, "http"), (BACKUP, "smtp")] {
            let delays = self.delays(provider);
            let at = |part: usize| delays.get(delays.len() * part / 100).map_or(0.0, |d| d.as_secs_f64() * 1000.0);
            let longest = delays.last().map_or(0.0, |d| d.as_secs_f64() * 1000.0);
            writeln!(
                f,
                "  {provider:<8} {kind}  {:>5} emails   median {:>6.1} ms   longest {longest:>6.1} ms",
                delays.len(),
                at(50)
            )?;
        }
        let total = self.sent.len();
        let verdict = |bad: usize| if bad == 0 { "yes".to_owned() } else { format!("NO, {bad} are not") };
        writeln!(f, "\nAll {total} emails are SUCCESS_SENT: {}", verdict(self.unsent()))?;
        writeln!(f, "Each is in exactly one inbox, exactly once: {}", verdict(self.astray()))
    }
}
