use std::{collections::BTreeMap, time::Duration};

use futures_util::{FutureExt, future::join_all, poll};
use time::OffsetDateTime;
use tokio::time::advance;

use super::*;
use crate::{
    chain::{
        Offer, Readiness,
        testing::{Act, Mock, Rig, accept, answer, down, first_ready, message, offer, offer_of, settings, summary},
    },
    config::WhenBusy,
    delivery::{Class, Health, ProviderName, Round},
    health::{Circuit, Known, Mode, SharedState},
};

const HEALTHY: Health = Health::Healthy;

fn takes(seconds: u64) -> Act {
    Act::Answer(Class::Accepted, HEALTHY, Duration::from_secs(seconds))
}

/// Two providers, the first under other settings.
fn rig(change: impl FnOnce(&mut config::Provider)) -> Rig {
    let mut first = settings();
    change(&mut first);
    Rig::with_settings([(Mock::new("a"), first), (Mock::new("b"), settings())])
}

async fn send_at_once(rig: &Rig, messages: usize) -> Vec<Round> {
    join_all((0..messages).map(|_| rig.send(offer(1)))).await
}

fn circuit(rig: &Rig) -> Circuit {
    rig.board.provider(&ProviderName::new("a")).unwrap().circuit(OffsetDateTime::now_utc())
}

async fn trip(rig: &Rig) {
    rig.mock("a").will(vec![down(); 4]);
    for _ in 0..4 {
        rig.send(offer(1)).await;
    }
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")));
}

#[tokio::test(start_paused = true)]
async fn a_full_provider_is_waited_for_and_not_failed_over() {
    let rig = rig(|a| a.concurrency = 2);
    rig.mock("a").will(vec![takes(5); 6]);
    let began = Instant::now();
    let rounds = send_at_once(&rig, 6).await;
    assert!(rounds.iter().all(|round| summary(round) == "a:ACCEPTED"));
    assert_eq!(began.elapsed(), Duration::from_secs(15), "two at a time");
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_used_up_is_waited_for_and_not_failed_over() {
    let rig = rig(|a| a.rate_per_second = Some(2));
    let began = Instant::now();
    let rounds = send_at_once(&rig, 7).await;
    assert!(rounds.iter().all(|round| summary(round) == "a:ACCEPTED"));
    let elapsed = began.elapsed();
    assert!(elapsed >= Duration::from_secs(3) && elapsed < Duration::from_millis(3_100), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn where_it_is_set_so_messages_go_to_the_next_while_the_first_is_at_a_limit() {
    let rig = rig(|a| {
        a.concurrency = 2;
        a.when_busy = WhenBusy::Next;
    });
    rig.mock("a").will(vec![takes(5); 2]);
    let began = Instant::now();
    let rounds = send_at_once(&rig, 6).await;
    let by = |words: &str| rounds.iter().filter(|round| summary(round) == words).count();
    assert_eq!((by("a:ACCEPTED"), by("b:ACCEPTED a(concurrency limit)")), (2, 4));
    assert_eq!(began.elapsed(), Duration::from_secs(5));

    let rig = self::rig(|a| {
        a.rate_per_second = Some(1);
        a.when_busy = WhenBusy::Next;
    });
    let rounds = send_at_once(&rig, 3).await;
    let by = |words: &str| rounds.iter().filter(|round| summary(round) == words).count();
    assert_eq!((by("a:ACCEPTED"), by("b:ACCEPTED a(rate limit)")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn where_all_are_busy_the_first_that_has_room_is_asked() {
    let busy = || {
        let mut settings = settings();
        settings.concurrency = 1;
        settings.when_busy = WhenBusy::Next;
        settings
    };
    let rig = Rig::with_settings([(Mock::new("a"), busy()), (Mock::new("b"), busy())]);
    rig.mock("a").will([takes(50)]);
    rig.mock("b").will([takes(5)]);
    let began = Instant::now();
    let rounds = send_at_once(&rig, 3).await;
    assert_eq!(summary(&rounds[2]), "b:ACCEPTED a(concurrency limit) b(concurrency limit)");
    assert_eq!(began.elapsed(), Duration::from_secs(50), "only the first takes so long");

    // The one that had room does not take it: the other is waited for, and the deadline holds.
    rig.mock("a").will([takes(50)]);
    rig.mock("b").will([takes(5), down()]);
    let last = async { rig.send(Offer { deadline: Instant::now() + Duration::from_secs(30), ..offer(1) }).await };
    let (_, _, round) = tokio::join!(rig.send(offer(1)), rig.send(offer(1)), last);
    assert_eq!(summary(&round), "b:UNAVAILABLE a(concurrency limit) b(concurrency limit) a(concurrency limit)");
}

#[tokio::test(start_paused = true)]
async fn who_deferred_a_message_or_may_have_it_is_waited_for_whatever_is_set() {
    let rig = rig(|a| {
        a.concurrency = 1;
        a.when_busy = WhenBusy::Next;
    });
    rig.mock("a").will([takes(5)]);
    let first = || Offer { ask_first: Some(ProviderName::new("a")), ..offer(1) };
    let (_, round) = tokio::join!(rig.send(offer(1)), rig.send(first()));
    assert_eq!(summary(&round), "a:ACCEPTED");
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_waited_for_until_the_deadline_of_the_round() {
    let rig = rig(|a| a.concurrency = 1);
    rig.mock("a").will([takes(100)]);
    let waiting = async { rig.send(Offer { deadline: Instant::now() + Duration::from_secs(30), ..offer(1) }).await };
    let (_, round) = tokio::join!(rig.send(offer(1)), waiting);
    assert_eq!(summary(&round), "a(concurrency limit) b(no time left in this round)");
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slot_goes_on_as_soon_as_the_circuit_opens() {
    let rig = rig(|a| a.concurrency = 5);
    rig.mock("a").will(vec![takes(1000); 5]);
    let mut sends = Box::pin(send_at_once(&rig, 9));
    assert!(poll!(&mut sends).is_pending());
    advance(Duration::from_secs(19)).await;
    assert!(poll!(&mut sends).is_pending());
    assert_eq!(rig.mock("b").calls(), 0);

    advance(Duration::from_secs(1)).await;
    assert!(poll!(&mut sends).is_pending(), "every slot is still taken");
    assert_eq!(circuit(&rig), Circuit::Open);
    assert_eq!((rig.mock("a").calls(), rig.mock("b").calls()), (5, 4));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_places_back_and_says_nothing() {
    let rig = rig(|a| a.concurrency = 1);
    trip(&rig).await;
    advance(Duration::from_secs(10)).await;
    for _ in 0..5 {
        rig.mock("a").will([Act::Hang]);
        assert!(rig.send(offer(1)).now_or_never().is_none());
        assert_eq!(circuit(&rig), Circuit::HalfOpen);
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
    }
    rig.mock("a").will([accept(), accept()]);
    for _ in 0..2 {
        assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
    }
    assert_eq!(circuit(&rig), Circuit::Closed);
}

#[tokio::test(start_paused = true)]
async fn half_open_only_the_probes_are_called_and_the_rest_goes_on() {
    let rig = rig(|_| ());
    trip(&rig).await;
    advance(Duration::from_secs(10)).await;
    rig.mock("a").will(vec![takes(1); 2]);
    let rounds = send_at_once(&rig, 10).await;
    let by_a = rounds.iter().filter(|round| summary(round) == "a:ACCEPTED").count();
    let by_b = rounds.iter().filter(|round| summary(round) == "b:ACCEPTED a(being probed)").count();
    assert_eq!((by_a, by_b), (2, 8));
    assert_eq!(circuit(&rig), Circuit::Closed);
}

#[tokio::test(start_paused = true)]
async fn slow_calls_open_the_circuit_though_they_were_accepted_and_before_they_have_ended() {
    let rig = rig(|_| ());
    rig.mock("a").will(vec![takes(60); 4]);
    let mut slow = Box::pin(send_at_once(&rig, 4));
    assert!(poll!(&mut slow).is_pending());
    advance(Duration::from_secs(20)).await;
    assert!(poll!(&mut slow).is_pending());
    assert_eq!(circuit(&rig), Circuit::Open);

    let rounds = slow.await;
    assert!(rounds.iter().all(|round| summary(round) == "a:ACCEPTED"), "a slow acceptance is an acceptance");
    assert_eq!(circuit(&rig), Circuit::HalfOpen, "and comes too late to close the circuit");
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_is_a_failed_probe() {
    let rig = rig(|_| ());
    trip(&rig).await;
    advance(Duration::from_secs(10)).await;
    rig.mock("a").will([takes(21)]);
    rig.send(offer(1)).await;
    assert_eq!(circuit(&rig), Circuit::Open);
}

#[tokio::test(start_paused = true)]
async fn calls_just_fast_enough_keep_the_circuit_closed() {
    let rig = rig(|_| ());
    rig.mock("a").will(vec![takes(19); 8]);
    send_at_once(&rig, 8).await;
    assert_eq!(circuit(&rig), Circuit::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_provider_rests_for_as_long_as_it_asked_or_as_is_set() {
    let throttled = |retry_after| answer(Class::Throttled, Health::Resting { retry_after });
    let quota = |retry_after| answer(Class::QuotaUsedUp, Health::Resting { retry_after });
    let failing = |retry_after| answer(Class::Unavailable, Health::Failing { retry_after });
    let named = Some(Duration::from_secs(33));
    let table = [
        (throttled(None), 7, "resting after throttling"),
        (throttled(named), 33, "resting after throttling"),
        (throttled(Some(Duration::ZERO)), 7, "resting after throttling"),
        (quota(None), 300, "quota used up"),
        (quota(named), 33, "quota used up"),
        (quota(Some(Duration::MAX)), 24 * 60 * 60, "quota used up"),
        (failing(named), 33, "resting as it asked"),
        (failing(Some(Duration::MAX)), 24 * 60 * 60, "resting as it asked"),
        (answer(Class::Misconfigured, Health::Misconfigured), 300, "misconfigured"),
    ];
    for (act, seconds, reason) in table {
        let rig = rig(|_| ());
        rig.mock("a").will([act.clone()]);
        rig.send(offer(1)).await;
        assert_eq!(circuit(&rig), Circuit::Closed);
        assert_eq!(summary(&rig.send(offer(1)).await), format!("b:ACCEPTED a({reason})"), "{act:?}");
        advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")), "{act:?}");
        advance(Duration::from_millis(1)).await;
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")), "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_open_circuit_and_a_rest_the_longer_is_waited_for_and_named() {
    let named = |seconds| {
        let health = Health::Failing { retry_after: Some(Duration::from_secs(seconds)) };
        Act::Answer(Class::Unavailable, health, Duration::from_secs(1))
    };
    // Four failures open the circuit for 10 s. The first call, still under way, comes too late for the breaker and names
    // a time of its own, a second later.
    for (seconds, reason) in [(5, "circuit is open"), (9, "circuit is open"), (40, "resting as it asked")] {
        let rig = rig(|_| ());
        rig.mock("a").will([named(seconds)]);
        let mut late = Box::pin(rig.send(offer(1)));
        assert!(poll!(&mut late).is_pending());
        trip(&rig).await;
        late.await;
        assert_eq!(summary(&rig.send(offer(1)).await), format!("b:ACCEPTED a({reason})"), "{seconds} s");
        advance(Duration::from_secs(seconds.max(9)) - Duration::from_millis(1)).await;
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")), "{seconds} s");
        advance(Duration::from_millis(1)).await;
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")), "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_says_nothing_of_the_provider_moves_nothing() {
    let rig = rig(|_| ());
    rig.mock("a").will(vec![answer(Class::OutcomeUnknown, Health::Neutral); 20]);
    send_at_once(&rig, 20).await;
    assert_eq!(circuit(&rig), Circuit::Closed);
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
}

#[tokio::test(start_paused = true)]
async fn no_concurrency_at_all_is_one_at_a_time() {
    let rig = rig(|a| a.concurrency = 0);
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

fn shares(before: usize, others: usize) -> BTreeMap<ProviderName, Share> {
    [(ProviderName::new("a"), Share::new(before, others))].into()
}

/// How many messages are claimed for the chain that has none.
fn places(rig: &Rig) -> usize {
    match rig.chain.readiness() {
        Readiness::Ready { places, .. } => places,
        Readiness::RestsUntil(_) => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_those_of_the_account_and_each_process_has_its_part() {
    let rig = rig(|a| {
        a.concurrency = 4;
        a.rate_per_second = Some(10);
    });
    rig.links.keep_to(&shares(0, 1));
    rig.mock("a").will(vec![takes(5); 4]);
    let began = Instant::now();
    send_at_once(&rig, 4).await;
    assert!(began.elapsed() >= Duration::from_secs(10), "two at a time: {:?}", began.elapsed());

    let began = Instant::now();
    send_at_once(&rig, 20).await;
    assert!(began.elapsed() >= Duration::from_millis(3_500), "five a second: {:?}", began.elapsed());

    rig.links.keep_to(&BTreeMap::new());
    let began = Instant::now();
    send_at_once(&rig, 20).await;
    assert!(began.elapsed() < Duration::from_millis(2_200), "all of it: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn with_more_processes_than_places_the_last_claim_nothing_and_turn_nothing_to_another_provider() {
    let rig = rig(|a| a.concurrency = 3);
    for (before, expected) in [(0, 2), (1, 2), (2, 2), (3, 0), (4, 0)] {
        rig.links.keep_to(&shares(before, 4));
        assert_eq!(places(&rig), expected, "{before} of 5");
        assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
    }
    // What has come already is not left lying.
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_claimed_than_the_rate_lets_through_in_a_while() {
    let rig = rig(|a| a.rate_per_second = Some(10));
    assert_eq!(places(&rig), 20);
    rig.links.keep_to(&shares(0, 3));
    assert_eq!(places(&rig), 5);
}

/// Sends a message of that priority.
async fn send_of(rig: &Rig, priority: Priority) -> Round {
    let mut message = message(1);
    message.priority = priority;
    rig.send(offer_of(message)).await
}

#[tokio::test(start_paused = true)]
async fn of_what_was_claimed_together_the_least_tries_out_a_provider() {
    use Priority::{Bulk, High, Normal};
    let table = [
        ([High, Normal, Bulk], "bba", "BULK before NORMAL before HIGH"),
        ([High, High, Normal], "bba", "NORMAL before HIGH"),
        ([High, High, High], "abb", "HIGH where nothing else is there"),
        ([Bulk, Normal, High], "abb", "it came first anyway"),
    ];
    for (priorities, expected, why) in table {
        let rig = rig(|a| a.breaker.probes = 1);
        trip(&rig).await;
        advance(Duration::from_secs(10)).await;
        rig.mock("a").will(vec![takes(1); 3]);
        let claimed = priorities.map(|priority| (priority, rig.chain.expect(&ProviderName::new("a"), priority)));
        let sends = claimed.into_iter().map(|(priority, expected)| {
            let rig = &rig;
            async move {
                drop(expected);
                send_of(rig, priority).await
            }
        });
        let taken: String = join_all(sends).await.iter().map(|round| round.attempts[0].provider.as_str()).collect();
        assert_eq!(taken, expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_not_only_tried_out_takes_every_priority() {
    let rig = rig(|_| ());
    let _bulk: Vec<_> = (0..5).map(|_| rig.chain.expect(&ProviderName::new("a"), Priority::Bulk)).collect();
    assert_eq!(summary(&send_of(&rig, Priority::High).await), "a:ACCEPTED");
    // Nor does one that only comes back from a rest.
    rig.mock("a").will([answer(Class::Throttled, Health::Resting { retry_after: None })]);
    send_of(&rig, Priority::High).await;
    advance(Duration::from_secs(8)).await;
    assert_eq!(summary(&send_of(&rig, Priority::High).await), "a:ACCEPTED");
}

/// What an operator wants, as it is read.
fn set_mode(rig: &Rig, mode: Mode, version: i64) {
    let (provider, known) = (ProviderName::new("a"), Known::default());
    rig.links.learn(SharedState { provider, kind: "http".into(), mode, known, version });
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_was_turned_off_is_not_asked_and_one_that_drains_gets_nothing_new() {
    let rig = rig(|_| ());
    let back = || Offer { ask_first: Some(ProviderName::new("a")), ..offer(1) };
    set_mode(&rig, Mode::Off, 1);
    for offer in [offer(1), back()] {
        assert_eq!(summary(&rig.send(offer).await), "b:ACCEPTED a(turned off by an operator)");
    }
    set_mode(&rig, Mode::Drain, 2);
    assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(being drained for an operator)");
    assert_eq!(summary(&rig.send(back()).await), "a:ACCEPTED");
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")));
    set_mode(&rig, Mode::Off, 1);
    assert_eq!(summary(&rig.send(back()).await), "a:ACCEPTED", "that is older than what was heard before");
    set_mode(&rig, Mode::On, 3);
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slot_goes_on_as_soon_as_the_provider_is_turned_off() {
    let rig = rig(|a| a.concurrency = 1);
    rig.mock("a").will([takes(100)]);
    let mut sends = Box::pin(send_at_once(&rig, 2));
    assert!(poll!(&mut sends).is_pending());
    set_mode(&rig, Mode::Off, 1);
    assert!(poll!(&mut sends).is_pending());
    assert_eq!((rig.mock("a").calls(), rig.mock("b").calls()), (1, 1));
    let rounds = sends.await;
    assert_eq!(summary(&rounds[0]), "a:ACCEPTED", "what was begun is finished");
}

#[tokio::test(start_paused = true)]
async fn what_one_process_found_out_another_goes_by() {
    let (one, other) = (rig(|_| ()), rig(|_| ()));
    trip(&one).await;
    let (provider, findings) = one.links.take_findings().remove(0);
    let mut known = Known::default();
    known.take_in(&findings);
    other.links.learn(SharedState { provider, kind: "http".into(), mode: Mode::On, known, version: 7 });
    assert_eq!(summary(&other.send(offer(1)).await), "b:ACCEPTED a(circuit is open)");
    assert_eq!(other.mock("a").calls(), 0);
    assert!(other.links.take_findings().is_empty(), "it is not told again");

    // What could not be told is told later, and is not forgotten for what others say meanwhile.
    advance(Duration::from_secs(10)).await;
    one.mock("a").will([down()]);
    one.send(offer(1)).await;
    let (provider, findings) = one.links.take_findings().remove(0);
    one.links.put_back(&provider, findings.clone());
    set_mode(&one, Mode::On, 8);
    assert_eq!(circuit(&one), Circuit::Open);
    assert_eq!(one.links.take_findings().remove(0).1.circuit.flatten().map(|opened| opened.reopened), Some(1));
}
