//! Whether a provider, or one sender domain at it, is out of rotation by the provider's own word: it throttled us, the
//! quota is used up, the account or the domain is not set up.
//!
//! Owns no lock, no clock and no dice. Knows nothing of failures: those are the breaker's, and neither moves the other.

mod ramp;

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use self::ramp::Ramp;
use super::admission::Wait;
use crate::health::{Known, Reason, Rest};

/// How long to wait for the end of a probe that is under way before asking again.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// A rest that is over so soon is none that others would hear of in time.
pub(super) const WORTH_TELLING: Duration = Duration::from_secs(2);

/// What keeps a provider out of rotation, if anything.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    rest: Option<Resting>,
    /// How many calls at once, after a rest or an account set up anew.
    ramp: Option<Ramp>,
    last_ramp: ramp::Id,
    account: Option<Probation>,
    /// An answer to something else than a message said that the account is set up, and a message learned otherwise: it
    /// is not believed again, until a message has got through.
    is_misled: bool,
    domains: HashMap<String, Probation>,
    /// Counts the comings and goings: a call that began before the last of them puts nothing out of rotation, since
    /// what it met may have been set right meanwhile.
    epoch: u64,
    /// Counts the changes of what others should know.
    revision: u64,
}

#[derive(Debug)]
struct Resting {
    reason: Reason,
    /// As the provider said.
    until: Instant,
    /// A little later, so that not all processes come back in the same moment.
    ends: Instant,
}

/// Out until a time; from then on one call at a time tries it, until one comes back well.
#[derive(Debug)]
struct Probation {
    until: Instant,
    probing: bool,
}

/// Under which state a call was admitted, and what it tries out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    epoch: u64,
    probes_account: bool,
    probes_domain: bool,
    /// The ramp that it counts in.
    ramp: Option<ramp::Id>,
}

/// What a call told, as far as it concerns the rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The account and the sender domain are set up.
    SetUp,
    /// It will take no more for a while; and how much longer this process leaves it alone.
    Rest {
        /// Why.
        reason: Reason,
        /// For how long, as the provider said or as is set.
        lasts: Duration,
        /// How much longer this process waits.
        spread: Duration,
    },
    /// The account is not set up.
    AccountMisconfigured,
    /// The account is, the sender domain is not.
    DomainMisconfigured,
    /// Nothing.
    Nothing,
}

impl Rotation {
    /// Whether a call for that sender domain would be admitted now; without a domain, for one that is set up.
    pub(super) fn admits(&self, domain: Option<&str>, now: Instant) -> Result<(), Wait> {
        let probed = |_: &Ramp| Wait { reason: Reason::BeingProbed, until: now + PROBE_PATIENCE };
        let ramp = self.ramp.iter().filter(|ramp| ramp.room() == 0).map(probed);
        let account = self.account.iter().filter_map(|probation| probation.wait(Reason::Misconfigured, now));
        let of_domain = domain.and_then(|domain| {
            let reason = Reason::MisconfiguredForSenderDomain(domain.to_owned());
            self.domains.get(domain)?.wait(reason, now)
        });
        let all = self.resting().into_iter().chain(ramp).chain(account).chain(of_domain);
        all.filter(|wait| wait.until > now).max_by_key(|wait| wait.until).map_or(Ok(()), Err)
    }

    /// Why and until when it is out of rotation for every sender domain, not counting probes under way.
    pub(super) fn out(&self, now: Instant) -> Option<Wait> {
        let account = self.account.iter().map(|p| Wait { reason: Reason::Misconfigured, until: p.until });
        let all = self.resting().into_iter().chain(account);
        all.filter(|wait| wait.until > now).max_by_key(|wait| wait.until)
    }

    /// Whether the account is known not to be set up, be it that it is being tried again.
    pub(super) fn is_misconfigured(&self) -> bool {
        self.account.is_some()
    }

    /// Whether it may be found out without a message that the account is set up again.
    pub(super) fn may_be_probed(&self) -> bool {
        self.account.as_ref().is_some_and(|account| !account.probing) && !self.is_misled
    }

    /// How many more calls may begin, after a rest; `None` if that is not bounded here.
    pub(super) fn ramp_room(&self) -> Option<u32> {
        self.ramp.as_ref().map(Ramp::room)
    }

    /// How many more calls may try an account that was not set up; `None` if it is.
    pub(super) fn probe_room(&self) -> Option<u32> {
        self.account.as_ref().map(|probation| u32::from(!probation.probing))
    }

    /// Begins a call that [`Rotation::admits`]. Its end has to be told by [`Rotation::end`], or a probe would stay under
    /// way.
    pub(super) fn begin(&mut self, domain: &str) -> Admitted {
        let ramp = self.ramp.as_mut().map(Ramp::begin);
        let mut admitted = Admitted { epoch: self.epoch, ramp, ..Admitted::default() };
        if let Some(account) = &mut self.account {
            account.probing = true;
            admitted.probes_account = true;
        }
        if let Some(of_domain) = self.domains.get_mut(domain) {
            of_domain.probing = true;
            admitted.probes_domain = true;
        }
        admitted
    }

    /// Takes notice of what a call told; `out_for` is how long a misconfigured account or domain stays out. Whether that
    /// put the domain out of rotation that was in it.
    pub(super) fn end(
        &mut self,
        admitted: Admitted,
        domain: &str,
        told: Told,
        out_for: Duration,
        now: Instant,
    ) -> bool {
        self.end_probes(admitted, domain, matches!(told, Told::SetUp | Told::DomainMisconfigured));
        let began_before = admitted.epoch != self.epoch;
        let until = now + out_for;
        match told {
            Told::Nothing => {}
            Told::Rest { reason, lasts, spread } => self.rest(reason, now + lasts, spread, now),
            Told::SetUp => self.let_in(admitted, domain),
            Told::AccountMisconfigured if began_before && !admitted.probes_account => {}
            Told::AccountMisconfigured => {
                self.is_misled |= self.ramp.take().is_some_and(|ramp| ramp.follows_a_probe());
                self.put_out(until);
            }
            Told::DomainMisconfigured if began_before && !admitted.probes_domain => {}
            Told::DomainMisconfigured => {
                self.let_in(Admitted { probes_domain: false, ..admitted }, domain);
                self.change();
                // A domain that nobody has tried for that long is forgotten, or the map would only ever grow.
                self.domains.retain(|_, probation| probation.probing || probation.until + out_for > now);
                return self.domains.insert(domain.to_owned(), Probation { until, probing: false }).is_none();
            }
        }
        false
    }

    /// Takes notice of an answer to something else than a message: the account is set up again, or still is not.
    pub(super) fn probed(&mut self, is_set_up: bool, out_for: Duration, now: Instant) {
        if !self.may_be_probed() {
            return;
        }
        match is_set_up {
            true => {
                self.account = None;
                self.begin_ramp(true);
                self.change();
            }
            false => self.put_out(now + out_for),
        }
    }

    /// Grows with each change of what others should know.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// What others should know; nothing of a circuit.
    pub(super) fn known(&self) -> Known<Instant> {
        Known {
            circuit: None,
            rest: self.rest.as_ref().map(|rest| Rest { reason: rest.reason.clone(), until: rest.until }),
            misconfigured_until: self.account.as_ref().map(|account| account.until),
            domains: self.domains.iter().map(|(domain, probation)| (domain.clone(), probation.until)).collect(),
        }
    }

    /// Takes notice of what others found out. Of a rest it was the provider who said for how long, and only an operator
    /// takes it back. But what is not set up
    /// for them may be for us, with other credentials or since a minute ago: it is tried, by one call at a time.
    pub(super) fn learn(&mut self, theirs: Known<Instant>, spread: Duration, now: Instant) {
        let before = self.revision;
        match theirs.rest {
            Some(rest) => self.rest(rest.reason, rest.until, spread, now),
            None => self.rest = self.rest.take().filter(|rest| rest.until <= now + WORTH_TELLING),
        }
        learn_probation(&mut self.account, theirs.misconfigured_until.is_some(), now);
        for (_, probation) in self.domains.iter_mut().filter(|(domain, _)| !theirs.domains.contains_key(*domain)) {
            probation.until = probation.until.min(now);
        }
        for domain in theirs.domains.into_keys() {
            self.domains.entry(domain).or_insert(Probation { until: now, probing: false });
        }
        // They know.
        self.revision = before;
    }

    fn resting(&self) -> Option<Wait> {
        self.rest.as_ref().map(|rest| Wait { reason: rest.reason.clone(), until: rest.ends })
    }

    fn end_probes(&mut self, admitted: Admitted, domain: &str, is_well: bool) {
        if let Some(account) = self.account.as_mut().filter(|_| admitted.probes_account) {
            account.probing = false;
        }
        if let Some(of_domain) = self.domains.get_mut(domain).filter(|_| admitted.probes_domain) {
            of_domain.probing = false;
        }
        if let Some((ramp, id)) = self.ramp.as_mut().zip(admitted.ramp) {
            ramp.end(id, is_well);
        }
        if self.ramp.as_ref().is_some_and(Ramp::is_over) {
            self.ramp = None;
        }
    }

    /// Only a probe lets in again what is out: a call from before cannot know.
    fn let_in(&mut self, admitted: Admitted, domain: &str) {
        if admitted.probes_account && self.account.take().is_some() {
            self.is_misled = false;
            self.change();
        }
        if admitted.probes_domain && self.domains.remove(domain).is_some() {
            self.change();
        }
    }

    fn put_out(&mut self, until: Instant) {
        self.account = Some(Probation { until, probing: false });
        self.change();
    }

    fn rest(&mut self, reason: Reason, until: Instant, spread: Duration, now: Instant) {
        if until > now && self.rest.as_ref().is_none_or(|present| present.until < until) {
            self.rest = Some(Resting { reason, until, ends: until + spread });
            self.begin_ramp(false);
            self.revision += 1;
        }
    }

    fn begin_ramp(&mut self, follows_a_probe: bool) {
        self.last_ramp = self.last_ramp.next();
        self.ramp = Some(Ramp::new(self.last_ramp, follows_a_probe));
    }

    fn change(&mut self) {
        self.epoch += 1;
        self.revision += 1;
    }
}

impl Probation {
    fn wait(&self, reason: Reason, now: Instant) -> Option<Wait> {
        if self.until > now {
            Some(Wait { reason, until: self.until })
        } else {
            self.probing.then(|| Wait { reason, until: now + PROBE_PATIENCE })
        }
    }
}

/// What is out for others is tried here; what is no longer out for them is tried at once.
fn learn_probation(ours: &mut Option<Probation>, is_out: bool, now: Instant) {
    match ours {
        None if is_out => *ours = Some(Probation { until: now, probing: false }),
        Some(probation) if !is_out => probation.until = probation.until.min(now),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
