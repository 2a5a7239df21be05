//! What this process tells others of its providers, and what it hears of them.
//!
//! Owns the change from this process's moments to the database's times and back. What follows from another's word is
//! the gate's to say; how it is brought to others is not its matter.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use tokio::time::Instant;

use super::{Links, rotation::WORTH_TELLING};
use crate::{
    delivery::ProviderName,
    health::{Findings, Share, SharedState},
};

impl Links {
    /// Keeps from now on to these shares of the accounts; an account that is not named is this process's own.
    pub fn keep_to(&self, shares: &BTreeMap<ProviderName, Share>) {
        for (name, link) in &self.links {
            link.keep_to(shares.get(name).copied().unwrap_or_default());
        }
    }

    /// Waits until something was found out that others should know, which may have been told meanwhile.
    pub async fn found(&self) {
        self.found.notified().await;
    }

    /// What was found out since this was last asked.
    pub fn take_findings(&self) -> Vec<(ProviderName, Findings)> {
        let times = Times::now(self);
        let findings = self.links.iter().map(|(name, link)| {
            let mut found = link.admission().gate().take_findings();
            found.rest = found.rest.filter(|rest| rest.until > times.moment + WORTH_TELLING);
            (name.clone(), found.map(|moment| times.time_of(moment)))
        });
        findings.filter(|(_, found)| !found.is_empty()).collect()
    }

    /// They could not be told: they will be taken again.
    pub fn put_back(&self, provider: &ProviderName, findings: Findings) {
        let times = Times::now(self);
        if let Some(link) = self.links.get(provider) {
            link.admission().gate().put_back(findings.map(|time| times.moment_of(time)));
            self.found.notify_one();
        }
    }

    /// Takes notice of what others know of a provider, and of what an operator wants. What is older than what was heard
    /// before is passed over.
    pub fn learn(&self, state: SharedState) {
        let times = Times::now(self);
        if let Some(link) = self.links.get(&state.provider) {
            let known = state.known.map(|time| times.moment_of(time));
            link.admission().gate().learn(known, state.mode, state.version);
        }
    }

    /// How often a provider was asked since the start.
    pub fn calls(&self) -> u64 {
        self.links.values().map(|link| link.calls()).sum()
    }
}

/// The same instant by two clocks.
struct Times {
    moment: Instant,
    time: OffsetDateTime,
}

impl Times {
    fn now(links: &Links) -> Self {
        Self { moment: Instant::now(), time: links.clock.now() }
    }

    fn time_of(&self, moment: Instant) -> OffsetDateTime {
        match moment.checked_duration_since(self.moment) {
            Some(ahead) => self.time + ahead,
            None => self.time - self.moment.saturating_duration_since(moment),
        }
    }

    /// What lies further back than this machine has been up, or further ahead than it can count, is now.
    fn moment_of(&self, time: OffsetDateTime) -> Instant {
        let away = time - self.time;
        let moment = match away.is_negative() {
            true => self.moment.checked_sub(away.unsigned_abs()),
            false => self.moment.checked_add(away.unsigned_abs()),
        };
        moment.unwrap_or(self.moment)
    }
}
