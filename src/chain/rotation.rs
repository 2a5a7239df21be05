//! Whether a provider, or one sender domain at it, is out of rotation by the provider's own word: it throttled us, the
//! quota is used up, the account or the domain is not set up.
//!
//! Owns no lock and no clock. Knows nothing of failures: those are the breaker's, and neither moves the other.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::admission::Wait;
use crate::health::Reason;

/// How long to wait for the end of a probe that is under way before asking again.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// What keeps a provider out of rotation, if anything.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    rest: Option<(Reason, Instant)>,
    account: Option<Probation>,
    domains: HashMap<String, Probation>,
    /// Counts the comings and goings: a call that began before the last of them puts nothing out of rotation, since
    /// what it met may have been set right meanwhile.
    epoch: u64,
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
}

/// What a call told, as far as it concerns the rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The account and the sender domain are set up.
    SetUp,
    /// It will take no more for a while.
    Rest(Reason, Duration),
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
        let rest = self.rest.iter().map(|(reason, until)| Wait { reason: reason.clone(), until: *until });
        let account = self.account.iter().filter_map(|probation| probation.wait(Reason::Misconfigured, now));
        let of_domain = domain.and_then(|domain| {
            let reason = Reason::MisconfiguredForSenderDomain(domain.to_owned());
            self.domains.get(domain)?.wait(reason, now)
        });
        let longest =
            rest.chain(account).chain(of_domain).filter(|wait| wait.until > now).max_by_key(|wait| wait.until);
        longest.map_or(Ok(()), Err)
    }

    /// Why and until when it is out of rotation for every sender domain, not counting probes under way.
    pub(super) fn out(&self, now: Instant) -> Option<Wait> {
        let rest = self.rest.iter().map(|(reason, until)| Wait { reason: reason.clone(), until: *until });
        let account = self.account.iter().map(|p| Wait { reason: Reason::Misconfigured, until: p.until });
        rest.chain(account).filter(|wait| wait.until > now).max_by_key(|wait| wait.until)
    }

    /// How many more calls may begin; `None` if that is not bounded here.
    pub(super) fn probe_room(&self) -> Option<u32> {
        self.account.as_ref().map(|probation| u32::from(!probation.probing))
    }

    /// Begins a call that [`Rotation::admits`]. Its end has to be told by [`Rotation::end`], or a probe would stay under
    /// way.
    pub(super) fn begin(&mut self, domain: &str) -> Admitted {
        let mut admitted = Admitted { epoch: self.epoch, ..Admitted::default() };
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

    /// Takes notice of what a call told; `out_for` is how long a misconfigured account or domain stays out.
    pub(super) fn end(&mut self, admitted: Admitted, domain: &str, told: Told, out_for: Duration, now: Instant) {
        self.end_probes(admitted, domain);
        let began_before = admitted.epoch != self.epoch;
        let until = now + out_for;
        match told {
            Told::Nothing => {}
            Told::Rest(reason, rest) => self.rest_until(reason, now + rest, now),
            Told::SetUp => self.let_in(admitted, domain),
            Told::AccountMisconfigured if began_before && !admitted.probes_account => {}
            Told::AccountMisconfigured => {
                self.epoch += 1;
                self.account = Some(Probation { until, probing: false });
            }
            Told::DomainMisconfigured if began_before && !admitted.probes_domain => {}
            Told::DomainMisconfigured => {
                self.let_in(Admitted { probes_domain: false, ..admitted }, domain);
                self.epoch += 1;
                // A domain that nobody has tried for that long is forgotten, or the map would only ever grow.
                self.domains.retain(|_, probation| probation.probing || probation.until + out_for > now);
                self.domains.insert(domain.to_owned(), Probation { until, probing: false });
            }
        }
    }

    fn end_probes(&mut self, admitted: Admitted, domain: &str) {
        if let Some(account) = self.account.as_mut().filter(|_| admitted.probes_account) {
            account.probing = false;
        }
        if let Some(of_domain) = self.domains.get_mut(domain).filter(|_| admitted.probes_domain) {
            of_domain.probing = false;
        }
    }

    /// Only a probe lets in again what is out: a call from before cannot know.
    fn let_in(&mut self, admitted: Admitted, domain: &str) {
        if admitted.probes_account && self.account.take().is_some() {
            self.epoch += 1;
        }
        if admitted.probes_domain && self.domains.remove(domain).is_some() {
            self.epoch += 1;
        }
    }

    fn rest_until(&mut self, reason: Reason, until: Instant, now: Instant) {
        if until > now && self.rest.as_ref().is_none_or(|(_, present)| *present < until) {
            self.rest = Some((reason, until));
        }
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
