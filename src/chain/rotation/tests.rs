use super::*;

const OUT_FOR: Duration = Duration::from_secs(300);

fn rest(reason: Reason, seconds: u64) -> Told {
    Told::Rest { reason, lasts: Duration::from_secs(seconds), spread: Duration::ZERO }
}

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
    tried.end(first, "a.example", rest(Reason::QuotaUsedUp, 100));
    tried.end(second, "a.example", rest(Reason::Throttled, 10));
    assert_eq!(tried.wait("a.example"), Some((Reason::QuotaUsedUp, 100)));
    tried.pass(100);
    assert_eq!(tried.wait("a.example"), None);
}

#[test]
fn after_a_rest_one_call_is_let_through_and_more_with_each_that_does_well() {
    let mut tried = Tried::new();
    let [first, late] = [tried.begin("a.example"), tried.begin("a.example")];
    tried.end(first, "a.example", rest(Reason::Throttled, 10));
    tried.pass(10);
    for room in [1, 2, 4, 8, 16] {
        assert_eq!(tried.rotation.ramp_room(), Some(room));
        let calls: Vec<Admitted> = (0..room).map(|_| tried.begin("a.example")).collect();
        assert_eq!(tried.wait("a.example"), Some((Reason::BeingProbed, 1)));
        for (nth, call) in calls.into_iter().enumerate() {
            // One from before says nothing of how it is now, and others only that it is no worse.
            tried.end(if nth == 0 { call } else { late }, "a.example", Told::SetUp);
            if nth > 0 {
                tried.end(call, "a.example", Told::Nothing);
            }
        }
    }
    assert_eq!(tried.rotation.ramp_room(), None);
    assert_eq!(tried.wait("a.example"), None);
}

#[test]
fn a_call_that_earns_the_next_rest_begins_it_with_one_again() {
    let mut tried = Tried::new();
    tried.call("a.example", rest(Reason::Throttled, 10));
    tried.pass(10);
    tried.call("a.example", Told::SetUp);
    let [one, other] = [tried.begin("a.example"), tried.begin("a.example")];
    tried.end(one, "a.example", rest(Reason::Throttled, 10));
    tried.end(other, "a.example", Told::SetUp);
    assert_eq!(tried.wait("a.example"), Some((Reason::Throttled, 10)));
    tried.pass(10);
    assert_eq!(tried.rotation.ramp_room(), Some(1));
}

#[test]
fn a_rest_lasts_a_little_longer_here_and_others_are_told_what_the_provider_said() {
    let mut tried = Tried::new();
    let spread = Duration::from_secs(2);
    tried.call("a.example", Told::Rest { reason: Reason::Throttled, lasts: Duration::from_secs(20), spread });
    assert_eq!(tried.wait("a.example"), Some((Reason::Throttled, 22)));
    assert_eq!(tried.rotation.known().rest.map(|rest| rest.until - tried.now), Some(Duration::from_secs(20)));
}

#[test]
fn what_others_found_out_is_gone_by_and_not_told_again() {
    let mut tried = Tried::new();
    let theirs = Known {
        circuit: None,
        rest: Some(Rest { reason: Reason::QuotaUsedUp, until: tried.now + Duration::from_secs(60) }),
        misconfigured_until: Some(tried.now + Duration::from_secs(300)),
        domains: [("b.example".to_owned(), tried.now + Duration::from_secs(300))].into(),
    };
    let before = tried.rotation.revision();
    tried.rotation.learn(theirs, Duration::ZERO, tried.now);
    assert_eq!(tried.rotation.revision(), before);
    assert_eq!(tried.wait("a.example"), Some((Reason::QuotaUsedUp, 60)), "the provider's own word");

    // But with our credentials it may be set up.
    tried.pass(60);
    let probe = tried.begin("a.example");
    assert_eq!(tried.wait("c.example"), Some((Reason::Misconfigured, 1)));
    tried.end(probe, "a.example", Told::SetUp);
    let of_domain = tried.begin("b.example");
    assert!(matches!(tried.wait("b.example"), Some((Reason::MisconfiguredForSenderDomain(_), 1))));
    tried.end(of_domain, "b.example", Told::SetUp);
    assert_eq!(tried.wait("b.example"), None);
}

#[test]
fn what_others_found_set_up_again_is_tried_at_once() {
    let mut tried = Tried::new();
    tried.call("a.example", Told::DomainMisconfigured);
    tried.call("b.example", Told::AccountMisconfigured);
    tried.rotation.learn(Known::default(), Duration::ZERO, tried.now);
    assert_eq!(tried.wait("b.example"), None);
    assert_eq!(tried.rotation.probe_room(), Some(1));
    tried.call("a.example", Told::SetUp);
    assert_eq!((tried.wait("a.example"), tried.rotation.probe_room()), (None, None));
}

#[test]
fn a_rest_that_an_operator_took_back_is_over_and_one_too_short_to_be_told_of_is_not() {
    let mut tried = Tried::new();
    tried.call("a.example", rest(Reason::QuotaUsedUp, 300));
    tried.rotation.learn(Known::default(), Duration::ZERO, tried.now);
    assert_eq!((tried.wait("a.example"), tried.rotation.ramp_room()), (None, Some(1)));
    tried.call("a.example", rest(Reason::Throttled, 2));
    tried.rotation.learn(Known::default(), Duration::ZERO, tried.now);
    assert_eq!(tried.wait("a.example"), Some((Reason::Throttled, 2)));
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
