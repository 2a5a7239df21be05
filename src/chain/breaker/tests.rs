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
fn a_call_that_failed_after_long_speaks_for_those_that_have_waited_as_long() {
    // How long the first call takes, how long after it the others began, and whether its failure opens the circuit.
    for (took_ms, later_ms, opens) in [(2_000, 100, true), (2_000, 501, false), (400, 0, false)] {
        let settings = config::Breaker { consecutive_failures: 5, ..breaker_settings() };
        let mut tried = Tried::new(settings);
        (0..100).for_each(|_| tried.call(Ending::Success));
        let first = tried.breaker.begin(tried.now).unwrap();
        tried.now += Duration::from_millis(later_ms);
        let others: Vec<_> = (0..4).map(|_| tried.breaker.begin(tried.now).unwrap()).collect();
        tried.now += Duration::from_millis(took_ms - later_ms);
        tried.breaker.end(first, FAILURE, tried.now);
        let expected = if opens { Circuit::Open } else { Circuit::Closed };
        assert_eq!(tried.circuit(), expected, "{took_ms} ms, {later_ms} ms");
        // Those that have come to their end count no longer.
        others.into_iter().for_each(|call| tried.breaker.end(call, Ending::Success, tried.now));
        if !opens {
            let alone = tried.breaker.begin(tried.now).unwrap();
            tried.now += Duration::from_millis(took_ms);
            tried.breaker.end(alone, FAILURE, tried.now);
            assert_eq!(tried.circuit(), Circuit::Closed);
        }
    }
}

#[test]
fn a_slow_failure_speaks_for_no_other_while_calls_succeed() {
    let mut tried = Tried::new(config::Breaker { consecutive_failures: 5, ..breaker_settings() });
    (0..100).for_each(|_| tried.call(Ending::Success));
    let calls: Vec<_> = (0..20).map(|_| tried.breaker.begin(tried.now).unwrap()).collect();
    tried.now += Duration::from_millis(800);
    tried.breaker.end(calls[0], Ending::Success, tried.now);
    tried.breaker.end(calls[1], FAILURE, tried.now);
    assert_eq!(tried.circuit(), Circuit::Closed, "the provider is slow, and not silent");
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

fn opened(tried: &Tried, seconds: u64) -> Option<Opened<Instant>> {
    Some(Opened { until: tried.now + Duration::from_secs(seconds), reopened: 2 })
}

#[test]
fn another_process_that_found_it_down_is_believed_by_who_knows_no_better() {
    for calls in ["", "FFF", "S"] {
        let mut tried = Tried::new(breaker_settings());
        for call in calls.chars() {
            tried.call(if call == 'S' { Ending::Success } else { FAILURE });
        }
        let theirs = opened(&tried, 40);
        tried.breaker.learn(theirs, tried.now);
        let expected = if calls == "S" { Circuit::Closed } else { Circuit::Open };
        assert_eq!(tried.circuit(), expected, "{calls}");
        if expected == Circuit::Open {
            assert_eq!((tried.open_for(), tried.breaker.known()), (40, theirs));
            tried.pass(40);
            tried.call(FAILURE);
            assert_eq!(tried.open_for(), 60, "it goes on where the other was");
        }
    }
}

#[test]
fn a_circuit_that_was_open_for_others_is_tried_before_it_is_trusted() {
    let mut tried = Tried::new(breaker_settings());
    tried.pass(100);
    let theirs = Opened { until: tried.now - Duration::from_secs(5), reopened: 0 };
    tried.breaker.learn(Some(theirs), tried.now);
    assert_eq!((tried.circuit(), tried.breaker.probe_room()), (Circuit::HalfOpen, Some(2)));
}

#[test]
fn a_circuit_that_closed_for_others_is_tried_at_once_and_not_trusted() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    tried.breaker.learn(None, tried.now);
    assert_eq!((tried.circuit(), tried.breaker.probe_room()), (Circuit::HalfOpen, Some(2)));
    tried.call(FAILURE);
    assert_eq!(tried.circuit(), Circuit::Open);
}

#[test]
fn the_longer_time_counts_and_probes_that_do_well_are_not_called_off() {
    let mut tried = Tried::new(breaker_settings());
    tried.trip();
    let (shorter, longer) = (opened(&tried, 5), opened(&tried, 50));
    tried.breaker.learn(shorter, tried.now);
    assert_eq!(tried.open_for(), 10);
    tried.breaker.learn(longer, tried.now);
    assert_eq!(tried.open_for(), 50);

    tried.pass(50);
    tried.call(Ending::Success);
    tried.breaker.learn(opened(&tried, 50), tried.now);
    tried.call(Ending::Success);
    assert_eq!((tried.circuit(), tried.breaker.known()), (Circuit::Closed, None));
}
