use super::*;
use crate::chain::testing::breaker_settings;

const FAILURE: Ending = Ending::Failure { retry_after: None };

fn ending(call: char) -> Ending {
    match call {
        'S' => Ending::Success,
        'F' => FAILURE,
        _ => Ending::Neutral,
    }
}

/// A breaker and a clock of its own.
struct Tried {
    breaker: Breaker,
    now: Instant,
}

impl Tried {
    fn new(settings: config::Breaker) -> Self {
        let now = Instant::now();
        Self { breaker: Breaker::new(settings, now), now }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn call(&mut self, ending: Ending) {
        let admitted = self.breaker.begin(self.now).expect("is admitted");
        self.breaker.end(admitted, ending, self.now);
    }

    fn circuit(&self) -> Circuit {
        self.breaker.circuit(self.now)
    }

    /// Opens a closed circuit.
    fn trip(&mut self) {
        for _ in 0..4 {
            self.call(FAILURE);
        }
        assert_eq!(self.circuit(), Circuit::Open);
    }

    /// For how many seconds it is open.
    fn open_for(&self) -> u64 {
        match self.breaker.admits(self.now) {
            Err(Refusal::OpenUntil(until)) => (until - self.now).as_secs(),
            other => panic!("not open: {other:?}"),
        }
    }
}

#[test]
fn it_opens_at_the_ratio_of_failures_over_the_least_number_of_calls() {
    let table = [
        ("FFF", Circuit::Closed, "too few calls"),
        ("FFFF", Circuit::Open, "all failed"),
        ("SSFF", Circuit::Open, "half failed"),
        ("SSSF", Circuit::Closed, "a quarter failed"),
        ("FFNN", Circuit::Closed, "calls that say nothing are no calls"),
        ("SSSSSSFFFFF", Circuit::Closed, "5 of 11"),
        ("SSSSSSFFFFFF", Circuit::Open, "6 of 12"),
        ("FFSS", Circuit::Closed, "a success does not open it"),
        ("FFSSF", Circuit::Open, "the failure after it does"),
        ("", Circuit::Closed, "no call at all"),
    ];
    for (calls, expected, why) in table {
        let mut tried = Tried::new(breaker_settings());
        for call in calls.chars() {
            tried.call(ending(call));
        }
        assert_eq!(tried.circuit(), expected, "{calls}: {why}");
    }
}

#[test]
fn it_opens_at_failures_one_after_another_however_many_calls_did_well_before() {
    let table = [
        ("FF", Circuit::Closed, "too few"),
        ("FFF", Circuit::Open, "one after another"),
        ("FFSFF", Circuit::Closed, "a success between them"),
        ("FFNF", Circuit::Open, "a call that says nothing is none between them"),
    ];
    for (calls, expected, why) in table {
        let settings = config::Breaker { consecutive_failures: 3, ..breaker_settings() };
        let mut tried = Tried::new(settings);
        (0..100).for_each(|_| tried.call(Ending::Success));
        calls.chars().for_each(|call| tried.call(ending(call)));
        assert_eq!(tried.circuit(), expected, "{calls}: {why}");
    }
}

#[test]
fn failures_that_have_left_the_window_do_not_count() {
    let mut tried = Tried::new(breaker_settings());
    (0..3).for_each(|_| tried.call(FAILURE));
    tried.pass(31);
    tried.call(FAILURE);
    assert_eq!(tried.circuit(), Circuit::Closed);
    tried.pass(15);
    (0..3).for_each(|_| tried.call(FAILURE));
    assert_eq!(tried.circuit(), Circuit::Open);
}

#[test]
fn it_is_half_open_when_its_time_has_passed_though_nobody_called() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    assert_eq!(tried.open_for(), 10);
    tried.pass(9);
    assert_eq!(tried.circuit(), Circuit::Open);
    assert!(tried.breaker.begin(tried.now).is_err());
    tried.pass(1);
    assert_eq!(tried.circuit(), Circuit::HalfOpen);
    assert_eq!(tried.breaker.admits(tried.now), Ok(()));
}

#[test]
fn a_time_that_the_provider_named_outranks_the_back_off() {
    for named in [3, 90] {
        let mut tried = Tried::new(breaker_settings());
        (0..3).for_each(|_| tried.call(FAILURE));
        tried.call(Ending::Failure { retry_after: Some(Duration::from_secs(named)) });
        assert_eq!(tried.open_for(), named);
    }
}

#[test]
fn it_stays_open_twice_as_long_after_each_failed_probe_and_starts_again_once_closed() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    for expected in [10, 20, 40, 60, 60] {
        assert_eq!(tried.open_for(), expected);
        tried.pass(expected);
        tried.call(FAILURE);
    }
    tried.pass(60);
    tried.call(Ending::Success);
    tried.call(Ending::Success);
    assert_eq!(tried.circuit(), Circuit::Closed);
    tried.trip();
    assert_eq!(tried.open_for(), 10);
}

#[test]
fn half_open_it_admits_as_many_calls_as_are_needed_to_close_it() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    tried.pass(10);
    let first = tried.breaker.begin(tried.now).unwrap();
    let second = tried.breaker.begin(tried.now).unwrap();
    assert_eq!(tried.breaker.begin(tried.now), Err(Refusal::ProbesUnderWay));
    assert_eq!(tried.breaker.probe_room(), Some(0));

    tried.breaker.end(first, Ending::Success, tried.now);
    assert_eq!(tried.breaker.begin(tried.now), Err(Refusal::ProbesUnderWay), "one has done well, one is under way");
    assert_eq!(tried.circuit(), Circuit::HalfOpen);
    tried.breaker.end(second, Ending::Success, tried.now);
    assert_eq!(tried.circuit(), Circuit::Closed);
}

#[test]
fn a_probe_that_says_nothing_gives_its_place_back() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    tried.pass(10);
    for _ in 0..10 {
        tried.call(Ending::Neutral);
        assert_eq!(tried.circuit(), Circuit::HalfOpen);
        assert_eq!(tried.breaker.probe_room(), Some(2));
    }
}

#[test]
fn one_failed_probe_opens_it_again_and_the_other_is_too_late_to_tell() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    tried.pass(10);
    let first = tried.breaker.begin(tried.now).unwrap();
    let second = tried.breaker.begin(tried.now).unwrap();
    tried.breaker.end(first, FAILURE, tried.now);
    assert_eq!(tried.open_for(), 20);
    tried.breaker.end(second, FAILURE, tried.now);
    assert_eq!(tried.open_for(), 20, "one outage, one step of the back-off");
}

#[test]
fn what_a_call_from_before_the_last_change_tells_is_ignored() {
    let mut tried = Tried::new(breaker_settings());
    let old: Vec<_> = (0..4).map(|_| tried.breaker.begin(tried.now).unwrap()).collect();
    tried.trip();

    tried.breaker.end(old[0], Ending::Success, tried.now);
    assert_eq!(tried.circuit(), Circuit::Open, "a late success does not close it");
    tried.breaker.end(old[1], Ending::Failure { retry_after: Some(Duration::from_secs(500)) }, tried.now);
    assert_eq!(tried.open_for(), 10, "a late failure does not keep it open");

    tried.pass(10);
    let probe = tried.breaker.begin(tried.now).unwrap();
    tried.breaker.end(old[2], FAILURE, tried.now);
    assert_eq!(tried.circuit(), Circuit::HalfOpen, "a late failure is no failed probe");
    assert_eq!(tried.breaker.probe_room(), Some(1), "nor does it give a place back");

    tried.breaker.end(probe, Ending::Success, tried.now);
    tried.call(Ending::Success);
    assert_eq!(tried.circuit(), Circuit::Closed);
    (0..3).for_each(|_| tried.call(FAILURE));
    tried.breaker.end(old[3], FAILURE, tried.now);
    assert_eq!(tried.circuit(), Circuit::Closed, "a failure from before the outage is not counted after it");
}

#[test]
fn no_setting_makes_it_stay_open_for_ever_or_panic() {
    let zero = config::Breaker {
        failure_ratio: 0.0,
        window: Duration::ZERO,
        min_calls: 0,
        consecutive_failures: 0,
        slow_call: Duration::ZERO,
        open_for: Duration::ZERO,
        open_longest: Duration::ZERO,
        probes: 0,
    };
    let mut tried = Tried::new(zero);
    tried.call(FAILURE);
    assert_eq!(tried.circuit(), Circuit::HalfOpen);
    tried.call(Ending::Success);
    assert_eq!(tried.circuit(), Circuit::Closed);
}
