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

#[cfg(test)]
mod tests {
    use super::*;

    const OUT_FOR: Duration = Duration::from_secs(300);

    /// A rotation and a clock of its own.
    struct Tried {
        rotation: Rotation,
        now: Instant,
    }

    impl Tried {
        fn new() -> Self {
            Self { rotation: Rotation::default(), now: Instant::now() }
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn begin(&mut self, domain: &str) -> Admitted {
            self.rotation.admits(Some(domain), self.now).expect("is admitted");
            self.rotation.begin(domain)
        }

        fn end(&mut self, admitted: Admitted, domain: &str, told: Told) {
            self.rotation.end(admitted, domain, told, OUT_FOR, self.now);
        }

        fn call(&mut self, domain: &str, told: Told) {
            let admitted = self.begin(domain);
            self.end(admitted, domain, told);
        }

        /// In how many seconds a call of that domain would be admitted, and why not now.
        fn wait(&self, domain: &str) -> Option<(Reason, u64)> {
            let wait = self.rotation.admits(Some(domain), self.now).err()?;
            Some((wait.reason, (wait.until - self.now).as_secs()))
        }
    }

    #[test]
    fn after_its_time_out_a_provider_is_tried_by_one_call_at_a_time() {
        let mut tried = Tried::new();
        tried.call("a.example", Told::AccountMisconfigured);
        assert_eq!(tried.wait("b.example"), Some((Reason::Misconfigured, 300)));

        tried.pass(300);
        assert_eq!(tried.rotation.probe_room(), Some(1));
        let probe = tried.begin("a.example");
        assert_eq!(tried.wait("b.example"), Some((Reason::Misconfigured, 1)));
        assert_eq!(tried.rotation.probe_room(), Some(0));

        tried.end(probe, "a.example", Told::AccountMisconfigured);
        assert_eq!(tried.wait("b.example"), Some((Reason::Misconfigured, 300)));
        tried.pass(300);
        tried.call("a.example", Told::SetUp);
        assert_eq!(tried.wait("b.example"), None);
        assert_eq!(tried.rotation.probe_room(), None);
    }

    #[test]
    fn a_probe_that_tells_nothing_makes_room_for_the_next() {
        let mut tried = Tried::new();
        tried.call("a.example", Told::AccountMisconfigured);
        tried.pass(300);
        for _ in 0..3 {
            tried.call("a.example", Told::Nothing);
            assert_eq!(tried.wait("a.example"), None);
            assert_eq!(tried.rotation.probe_room(), Some(1));
        }
    }

    #[test]
    fn a_call_from_before_neither_lets_in_nor_puts_out() {
        let mut tried = Tried::new();
        let [first, second] = [tried.begin("a.example"), tried.begin("a.example")];
        tried.call("a.example", Told::AccountMisconfigured);
        tried.end(first, "a.example", Told::SetUp);
        assert_eq!(tried.wait("a.example"), Some((Reason::Misconfigured, 300)));

        tried.pass(300);
        tried.call("a.example", Told::SetUp);
        tried.end(second, "a.example", Told::AccountMisconfigured);
        assert_eq!(tried.wait("a.example"), None);
    }

    #[test]
    fn domains_are_out_and_tried_apart_from_each_other() {
        let mut tried = Tried::new();
        tried.call("a.example", Told::DomainMisconfigured);
        tried.call("b.example", Told::DomainMisconfigured);
        assert_eq!(tried.wait("c.example"), None);
        assert_eq!(tried.rotation.admits(None, tried.now), Ok(()));
        assert_eq!(tried.rotation.out(tried.now), None);

        tried.pass(300);
        let [a, b] = [tried.begin("a.example"), tried.begin("b.example")];
        let out = |domain: &str, seconds| Some((Reason::MisconfiguredForSenderDomain(domain.into()), seconds));
        assert_eq!(tried.wait("a.example"), out("a.example", 1));
        tried.end(a, "a.example", Told::SetUp);
        tried.end(b, "b.example", Told::DomainMisconfigured);
        assert_eq!(tried.wait("a.example"), None);
        assert_eq!(tried.wait("b.example"), out("b.example", 300));
    }

    #[test]
    fn a_domain_that_is_not_set_up_shows_that_the_account_is() {
        let mut tried = Tried::new();
        tried.call("a.example", Told::AccountMisconfigured);
        tried.pass(300);
        tried.call("a.example", Told::DomainMisconfigured);
        assert_eq!(tried.wait("b.example"), None);
        assert!(tried.wait("a.example").is_some());
    }

    #[test]
    fn a_rest_is_never_cut_short_and_the_longest_wait_is_named() {
        let mut tried = Tried::new();
        let [first, second] = [tried.begin("a.example"), tried.begin("a.example")];
        tried.end(first, "a.example", Told::Rest(Reason::QuotaUsedUp, Duration::from_secs(100)));
        tried.end(second, "a.example", Told::Rest(Reason::Throttled, Duration::from_secs(10)));
        assert_eq!(tried.wait("a.example"), Some((Reason::QuotaUsedUp, 100)));
        tried.pass(100);
        assert_eq!(tried.wait("a.example"), None);
    }

    #[test]
    fn domains_that_nobody_tries_are_forgotten() {
        let mut tried = Tried::new();
        for n in 0..1000 {
            tried.call(&format!("{n}.example"), Told::DomainMisconfigured);
            tried.pass(60);
        }
        assert!(tried.rotation.domains.len() <= 11, "{}", tried.rotation.domains.len());
    }
}
