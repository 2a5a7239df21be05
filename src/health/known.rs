//! What processes tell each other of a provider, so that a fresh one does not hammer what all others know to be down.
//!
//! Owns the words and what differs between two of them; what a process makes of another's word is the chain's.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::Reason;
use crate::delivery::ProviderName;

/// Whether a provider is in rotation, as an operator wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    #[default]
    On,
    /// It is not asked at all.
    Off,
    /// It gets nothing new: only what it has begun, or what may not be offered to another, is offered to it again.
    Drain,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 3] = [Mode::On, Mode::Off, Mode::Drain];

    /// The word used in SQL, in logs and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::On => "on",
            Mode::Off => "off",
            Mode::Drain => "drain",
        }
    }

    /// The mode of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// A circuit that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<T = OffsetDateTime> {
    /// Until when it is open; from then on it is half-open.
    pub until: T,
    /// How often it has re-opened since it was last closed.
    pub reopened: u32,
}

/// A provider that will take no more for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest<T = OffsetDateTime> {
    /// Why.
    pub reason: Reason,
    /// Until when.
    pub until: T,
}

/// What is known of a provider. Times that have passed stand until somebody has found out what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T = OffsetDateTime> {
    /// Its circuit, unless it is closed.
    pub circuit: Option<Opened<T>>,
    /// Its last rest.
    pub rest: Option<Rest<T>>,
    /// Until when it is left out because our account is not set up; `None` if it is.
    pub misconfigured_until: Option<T>,
    /// The sender domains that are not set up at it, each with the time until which it is left out for them.
    pub domains: BTreeMap<String, T>,
}

/// What a process found out of a provider. Of what stands at its default it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings<T = OffsetDateTime> {
    /// That its circuit opened, or closed.
    pub circuit: Option<Option<Opened<T>>>,
    /// That it rests.
    pub rest: Option<Rest<T>>,
    /// That our account is not set up, or is again.
    pub misconfigured_until: Option<Option<T>>,
    /// Sender domains that are not set up, or are again.
    pub domains: BTreeMap<String, Option<T>>,
}

/// A provider as the processes that send through it know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedState {
    /// Its name in the settings.
    pub provider: ProviderName,
    /// What kind of sender it is: the word of the settings.
    pub kind: String,
    /// What an operator wants of it.
    pub mode: Mode,
    /// What is known of it.
    pub known: Known,
    /// Grows with each change.
    pub version: i64,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { circuit: None, rest: None, misconfigured_until: None, domains: BTreeMap::new() }
    }
}

impl<T> Default for Findings<T> {
    fn default() -> Self {
        Self { circuit: None, rest: None, misconfigured_until: None, domains: BTreeMap::new() }
    }
}

impl<T> Opened<T> {
    fn map<U>(self, at: impl Fn(T) -> U) -> Opened<U> {
        Opened { until: at(self.until), reopened: self.reopened }
    }
}

impl<T> Rest<T> {
    fn map<U>(self, at: impl Fn(T) -> U) -> Rest<U> {
        Rest { reason: self.reason, until: at(self.until) }
    }
}

impl<T> Known<T> {
    /// The same by another clock.
    pub fn map<U>(self, at: impl Fn(T) -> U) -> Known<U> {
        Known {
            circuit: self.circuit.map(|opened| opened.map(&at)),
            rest: self.rest.map(|rest| rest.map(&at)),
            misconfigured_until: self.misconfigured_until.map(&at),
            domains: self.domains.into_iter().map(|(domain, until)| (domain, at(until))).collect(),
        }
    }
}

impl<T: Clone> Known<T> {
    /// Takes in what was found out since.
    pub fn take_in(&mut self, findings: &Findings<T>) {
        let Findings { circuit, rest, misconfigured_until, domains } = findings.clone();
        if let Some(circuit) = circuit {
            self.circuit = circuit;
        }
        if rest.is_some() {
            self.rest = rest;
        }
        if let Some(until) = misconfigured_until {
            self.misconfigured_until = until;
        }
        for (domain, until) in domains {
            match until {
                Some(until) => _ = self.domains.insert(domain, until),
                None => _ = self.domains.remove(&domain),
            }
        }
    }
}

impl Known {
    /// Why it is not asked at that time for whatever domain, and until when: the longest counts.
    pub fn waiting(&self, now: OffsetDateTime) -> Option<(Reason, OffsetDateTime)> {
        let open = self.circuit.iter().map(|opened| (Reason::CircuitOpen, opened.until));
        let rest = self.rest.iter().map(|rest| (rest.reason.clone(), rest.until));
        let misconfigured = self.misconfigured_until.iter().map(|until| (Reason::Misconfigured, *until));
        let all = open.chain(rest).chain(misconfigured);
        all.filter(|(_, until)| *until > now).max_by_key(|(_, until)| *until)
    }
}

impl<T> Findings<T> {
    /// The same by another clock.
    pub fn map<U>(self, at: impl Fn(T) -> U) -> Findings<U> {
        let domains = self.domains.into_iter().map(|(domain, until)| (domain, until.map(&at)));
        Findings {
            circuit: self.circuit.map(|circuit| circuit.map(|opened| opened.map(&at))),
            rest: self.rest.map(|rest| rest.map(&at)),
            misconfigured_until: self.misconfigured_until.map(|until| until.map(&at)),
            domains: domains.collect(),
        }
    }

    /// Takes in what was found out later.
    pub fn extend(&mut self, later: Self) {
        let Self { circuit, rest, misconfigured_until, domains } = later;
        self.circuit = circuit.or(self.circuit.take());
        self.rest = rest.or(self.rest.take());
        self.misconfigured_until = misconfigured_until.or(self.misconfigured_until.take());
        self.domains.extend(domains);
    }
}

impl<T: Clone + PartialEq> Findings<T> {
    /// What changed from the one to the other. That a rest is no longer spoken of is none.
    pub fn between(before: &Known<T>, after: &Known<T>) -> Self {
        let gone = before.domains.keys().filter(|domain| !after.domains.contains_key(*domain));
        let out = after.domains.iter().filter(|(domain, until)| before.domains.get(*domain) != Some(*until));
        Self {
            circuit: (before.circuit != after.circuit).then(|| after.circuit.clone()),
            rest: after.rest.clone().filter(|_| before.rest != after.rest),
            misconfigured_until: (before.misconfigured_until != after.misconfigured_until)
                .then(|| after.misconfigured_until.clone()),
            domains: gone
                .map(|domain| (domain.clone(), None))
                .chain(out.map(|(domain, until)| (domain.clone(), Some(until.clone()))))
                .collect(),
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known<u32> {
        Known {
            circuit: Some(Opened { until: 5, reopened: 1 }),
            rest: Some(Rest { reason: Reason::Throttled, until: 7 }),
            misconfigured_until: Some(9),
            domains: BTreeMap::from([("a.example".into(), 3), ("b.example".into(), 4)]),
        }
    }

    #[test]
    fn only_what_changed_is_told() {
        assert!(Findings::between(&known(), &known()).is_empty());
        let mut after = known();
        after.circuit = None;
        after.domains.remove("a.example");
        after.domains.insert("c.example".into(), 8);
        let found = Findings::between(&known(), &after);
        assert_eq!((found.circuit, found.rest, found.misconfigured_until), (Some(None), None, None));
        let domains = [("a.example".to_owned(), None), ("c.example".to_owned(), Some(8))];
        assert_eq!(found.domains, BTreeMap::from(domains));
        assert_eq!(Findings::between(&known(), &Known::default()).rest, None, "a rest ends by itself");
    }

    #[test]
    fn what_was_found_out_is_taken_in() {
        let mut after = known();
        after.circuit = None;
        after.rest = Some(Rest { reason: Reason::QuotaUsedUp, until: 70 });
        after.misconfigured_until = None;
        after.domains.remove("a.example");
        after.domains.insert("c.example".into(), 8);
        let mut told = known();
        told.take_in(&Findings::between(&known(), &after));
        assert_eq!(told, after);
    }

    #[test]
    fn what_was_found_out_later_counts() {
        let mut found = Findings::between(&Known::default(), &known());
        found.extend(Findings::between(&known(), &Known::default()));
        assert_eq!((found.circuit, found.misconfigured_until), (Some(None), Some(None)));
        assert_eq!(found.rest.map(|rest| rest.until), Some(7));
        assert!(found.domains.values().all(Option::is_none));
    }
}
