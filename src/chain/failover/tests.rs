use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::{Instant, advance};
use tower::ServiceExt;

use super::*;
use crate::{
    chain::{
        Readiness, Unfit,
        testing::{
            Act, Mock, Notes, Rig, accept, answer, attachment, down, first_ready, message, offer, offer_of, settings,
            summary,
        },
    },
    config,
    delivery::{Health, Outcome},
    health::Circuit,
    message::EmailAddress,
};

const HEALTHY: Health = Health::Healthy;

fn rig<const N: usize>(names: [&str; N]) -> Rig {
    Rig::new(names.map(Mock::new))
}

fn chain<const N: usize>(names: [&str; N]) -> config::Chain {
    names.into_iter().collect()
}

/// Rounded up, since the database's time goes on while the runtime's is paused.
fn seconds_until(time: Option<OffsetDateTime>) -> i64 {
    (time.expect("a time is known") - OffsetDateTime::now_utc()).as_seconds_f64().ceil() as i64
}

/// Opens the circuit of the chain's first provider.
async fn trip(rig: &Rig, name: &str) {
    rig.mock(name).will([down(), down(), down(), down()]);
    for _ in 0..4 {
        rig.send(offer(1)).await;
    }
    assert_eq!(circuit(rig, name), Circuit::Open);
}

fn circuit(rig: &Rig, name: &str) -> Circuit {
    rig.board.provider(&ProviderName::new(name)).unwrap().circuit(OffsetDateTime::now_utc())
}

#[tokio::test(start_paused = true)]
async fn every_class_goes_on_to_the_next_provider_or_does_not() {
    let failing = Health::Failing { retry_after: None };
    let resting = Health::Resting { retry_after: None };
    let table = [
        (Class::Accepted, HEALTHY, "a:ACCEPTED"),
        (Class::RecipientRejected, HEALTHY, "a:RECIPIENT_REJECTED"),
        (Class::MessageRejected, HEALTHY, "a:MESSAGE_REJECTED"),
        (Class::UnfitHere, HEALTHY, "a:UNFIT_HERE b:ACCEPTED"),
        (Class::Deferred, HEALTHY, "a:DEFERRED"),
        (Class::Unavailable, failing, "a:UNAVAILABLE b:ACCEPTED"),
        (Class::Throttled, resting, "a:THROTTLED b:ACCEPTED"),
        (Class::QuotaUsedUp, resting, "a:QUOTA_USED_UP b:ACCEPTED"),
        (Class::Misconfigured, Health::Misconfigured, "a:MISCONFIGURED b:ACCEPTED"),
        (Class::OutcomeUnknown, failing, "a:OUTCOME_UNKNOWN"),
    ];
    for (class, health, expected) in table {
        let rig = rig(["a", "b"]);
        rig.mock("a").will([answer(class, health)]);
        assert_eq!(summary(&rig.send(offer(1)).await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn each_round_begins_with_the_first_provider_and_asks_each_at_most_once() {
    let rig = rig(["a", "b", "c"]);
    for _ in 0..3 {
        rig.mock("a").will([answer(Class::UnfitHere, HEALTHY)]);
        rig.mock("b").will([answer(Class::UnfitHere, HEALTHY)]);
        rig.mock("c").will([answer(Class::UnfitHere, HEALTHY)]);
        assert_eq!(summary(&rig.send(offer(1)).await), "a:UNFIT_HERE b:UNFIT_HERE c:UNFIT_HERE");
    }
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_not_called_at_all_and_recovers_by_itself() {
    let rig = rig(["a", "b"]);
    trip(&rig, "a").await;
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")));
    for _ in 0..20 {
        assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(circuit is open)");
    }
    assert_eq!(rig.mock("a").calls(), 4);

    advance(Duration::from_secs(10)).await;
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")), "without anybody having called");
    for _ in 0..2 {
        assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
    }
    assert_eq!(circuit(&rig, "a"), Circuit::Closed);
}

#[tokio::test(start_paused = true)]
async fn only_the_recipient_that_another_provider_may_have_goes_on() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([Act::Each(vec![Class::RecipientRejected, Class::Deferred, Class::Unavailable], HEALTHY)]);
    let round = rig.send(offer(3)).await;
    assert_eq!(summary(&round), "a:RECIPIENT_REJECTED,DEFERRED,UNAVAILABLE b:ACCEPTED");
    assert_eq!(rig.mock("b").offered(), [[2]]);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_sent_is_never_handed_to_another_provider() {
    let rig = rig(["a", "b"]);
    rig.mock("a")
        .will([Act::Each(vec![Class::OutcomeUnknown, Class::Unavailable], Health::Failing { retry_after: None })]);
    let round = rig.send(offer(2)).await;
    // Not for the other recipient either: the row can name but one provider that may have the message.
    assert_eq!(rig.mock("b").calls(), 0);
    assert_eq!(summary(&round), "a:OUTCOME_UNKNOWN,UNAVAILABLE");
}

#[tokio::test(start_paused = true)]
async fn a_message_refused_everywhere_ends_the_round_for_all() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([Act::Each(vec![Class::Unavailable, Class::MessageRejected], HEALTHY)]);
    rig.send(offer(2)).await;
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_provider_to_ask_first_goes_before_the_order_of_the_chain() {
    let rig = rig(["a", "b", "c"]);
    rig.mock("c").will([answer(Class::UnfitHere, HEALTHY)]);
    let first = Offer { ask_first: Some(ProviderName::new("c")), ..offer(1) };
    assert_eq!(summary(&rig.send(first).await), "c:UNFIT_HERE a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn where_the_provider_to_ask_first_is_not_ready_the_others_are_asked_unless_none_other_may_be() {
    let rig = rig(["a", "b"]);
    trip(&rig, "a").await;
    let first = || Offer { ask_first: Some(ProviderName::new("a")), ..offer(1) };
    assert_eq!(summary(&rig.send(first()).await), "b:ACCEPTED a(circuit is open)");

    let b_before = rig.mock("b").calls();
    let round = rig.send(Offer { only_first: true, ..first() }).await;
    assert_eq!(summary(&round), "a(circuit is open)");
    assert_eq!(seconds_until(round.skipped[0].until), 10);
    assert_eq!(seconds_until(round.ready_at), 10, "the other provider's readiness is no help");
    assert_eq!(rig.mock("b").calls(), b_before);
}

#[tokio::test(start_paused = true)]
async fn none_other_than_the_first_is_asked_even_if_it_fails_or_has_left_the_chain() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([down()]);
    let only = |name| Offer { ask_first: Some(ProviderName::new(name)), only_first: true, ..offer(1) };
    assert_eq!(summary(&rig.send(only("a")).await), "a:UNAVAILABLE");
    assert_eq!(summary(&rig.send(only("gone")).await), "gone(not in this chain)");
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_provider_to_ask_last_goes_behind_the_others_and_is_asked_if_they_fail() {
    let rig = rig(["a", "b", "c"]);
    let last = || Offer { ask_last: Some(ProviderName::new("a")), ..offer(1) };
    assert_eq!(summary(&rig.send(last()).await), "b:ACCEPTED");
    rig.mock("b").will([down()]);
    rig.mock("c").will([down()]);
    assert_eq!(summary(&rig.send(last()).await), "b:UNAVAILABLE c:UNAVAILABLE a:ACCEPTED");
    // Who deferred it goes first nonetheless.
    let both = Offer { ask_first: Some(ProviderName::new("c")), ..last() };
    rig.mock("c").will([down()]);
    rig.mock("b").will([down()]);
    assert_eq!(summary(&rig.send(both).await), "c:UNAVAILABLE b:UNAVAILABLE a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_bears_who_was_passed_over_since_the_one_before_it() {
    let rig = Rig::new([
        Mock::new("a").with(|can| can.max_recipients = Some(1)),
        Mock::new("b"),
        Mock::new("c").with(|can| can.max_recipients = Some(1)),
        Mock::new("d"),
        Mock::new("e").with(|can| can.max_recipients = Some(1)),
    ]);
    rig.mock("b").will([down()]);
    rig.mock("d").will([down()]);
    let round = rig.send(offer(2)).await;
    let names = |skipped: &[Skip]| skipped.iter().map(|skip| skip.provider.to_string()).collect::<Vec<_>>();
    assert_eq!(round.attempts.iter().map(|attempt| names(&attempt.skipped)).collect::<Vec<_>>(), [["a"], ["c"]]);
    assert_eq!(names(round.skipped_since_last_attempt()), ["e"]);
    assert_eq!(names(&round.skipped), ["a", "c", "e"]);
}

fn sharing(rig: &Rig, positions: Vec<config::Position>) -> Chain {
    Chain::new("shared", &config::Chain::new(positions), &rig.links).unwrap()
}

#[tokio::test(start_paused = true)]
async fn of_those_that_share_a_place_the_other_is_next_and_what_stands_behind_is_last() {
    let rig = rig(["a", "b", "c"]);
    let chain = sharing(&rig, vec![config::Position::new([("a", 1), ("b", 1)]), config::Position::new([("c", 1)])]);
    for _ in 0..20 {
        let offer = offer(1);
        let expected = match chain.first_for(offer.message.id).unwrap().as_str() {
            "a" => "a:UNFIT_HERE b:UNFIT_HERE c:ACCEPTED",
            _ => "b:UNFIT_HERE a:UNFIT_HERE c:ACCEPTED",
        };
        for name in ["a", "b"] {
            rig.mock(name).will([answer(Class::UnfitHere, HEALTHY)]);
        }
        let Ok(round): Result<Round, _> = chain.clone().oneshot(offer).await;
        assert_eq!(summary(&round), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_shared_takes_no_more_than_each_can_have_of_its_share() {
    let mut small = settings();
    small.concurrency = 2;
    let rig = Rig::with_settings([(Mock::new("a"), small.clone()), (Mock::new("b"), settings())]);
    let room = |chain: &Chain| match chain.readiness() {
        Readiness::Ready { places, most, .. } => (places, most),
        Readiness::RestsUntil(_) => panic!("somebody is ready"),
    };
    // Four that a takes are three quarters of what comes to the place.
    let shared = sharing(&rig, vec![config::Position::new([("a", 3), ("b", 1)])]);
    assert_eq!(room(&shared), (5, 68));
    let _one = shared.expect(&ProviderName::new("a"), crate::message::Priority::Normal).unwrap();
    assert_eq!(room(&shared), (4, 68));

    small.when_busy = config::WhenBusy::Next;
    let rig = Rig::with_settings([(Mock::new("a"), small), (Mock::new("b"), settings())]);
    assert_eq!(room(&rig.chain), (66, 66), "what the first does not take the second does");
}

#[tokio::test(start_paused = true)]
async fn what_each_provider_lacks_is_told_unless_one_can_carry_the_message() {
    let narrow = || Mock::new("a").with(|can| can.max_recipients = Some(1));
    let plain = Mock::new("b").with(|can| can.inline_images = false);
    let rig = Rig::new([narrow(), plain]);
    let mut email = message(2).email;
    assert_eq!(rig.chain.lacks(&email), []);
    email.attachments.push(attachment(10, Some("logo")));
    let lacks = [(ProviderName::new("a"), Unfit::TooManyRecipients(1)), (ProviderName::new("b"), Unfit::InlineImages)];
    assert_eq!(rig.chain.lacks(&email), lacks);
}

#[tokio::test(start_paused = true)]
async fn a_recipients_or_a_messages_error_never_moves_a_breaker() {
    let rig = rig(["a", "b"]);
    for class in [Class::RecipientRejected, Class::MessageRejected, Class::UnfitHere, Class::Deferred] {
        for _ in 0..20 {
            rig.mock("a").will([answer(class, HEALTHY)]);
            rig.send(offer(1)).await;
        }
        assert_eq!(circuit(&rig, "a"), Circuit::Closed, "{class:?}");
    }
    assert_eq!(rig.mock("a").calls(), 80);
}

#[tokio::test(start_paused = true)]
async fn a_misconfigured_provider_is_left_out_without_moving_its_breaker_and_comes_back_by_a_probe() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([answer(Class::Misconfigured, Health::Misconfigured)]);
    assert_eq!(summary(&rig.send(offer(1)).await), "a:MISCONFIGURED b:ACCEPTED");
    assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(misconfigured)");
    assert_eq!(circuit(&rig, "a"), Circuit::Closed);

    advance(Duration::from_secs(300)).await;
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn a_sender_domain_that_is_not_set_up_keeps_out_its_own_mail_only() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([answer(Class::Misconfigured, Health::MisconfiguredForSenderDomain)]);
    rig.send(offer(1)).await;
    assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(misconfigured for sender domain example.org)");

    let mut other = message(1);
    other.email.from.address = EmailAddress::parse("shop@other.example").unwrap();
    assert_eq!(summary(&rig.send(offer_of(other)).await), "a:ACCEPTED");
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
    assert_eq!(rig.waiting_for(), None);
}

#[tokio::test(start_paused = true)]
async fn a_round_that_could_ask_nobody_says_why_and_until_when() {
    let rig = rig(["a", "b"]);
    rig.mock("b").will(vec![down(); 4]);
    trip(&rig, "a").await;
    advance(Duration::from_secs(4)).await;
    let round = rig.send(offer(1)).await;
    assert_eq!(summary(&round), "a(circuit is open) b(circuit is open)");
    assert_eq!(seconds_until(round.skipped[0].until), 6);
    assert_eq!(seconds_until(round.ready_at), 6);
    assert_eq!(first_ready(&rig.chain), None);
    assert_eq!(rig.chain.readiness(), Readiness::RestsUntil(Instant::now() + Duration::from_secs(6)));
    let waiting = rig.waiting_for().expect("the chain waits");
    assert!(waiting.starts_with("circuit of provider a is open until "), "{waiting}");

    advance(Duration::from_secs(6)).await;
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
    let ready = Readiness::Ready { provider: ProviderName::new("a"), places: 4, trials: 4, most: 4 };
    assert_eq!(rig.chain.readiness(), ready, "two probes each");
}

#[tokio::test(start_paused = true)]
async fn each_provider_is_left_alone_for_as_long_as_its_own_settings_say() {
    let mut patient = settings();
    patient.breaker.open_for = Duration::from_secs(30);
    let rig = Rig::with_settings([(Mock::new("a"), patient), (Mock::new("b"), settings())]);
    for name in ["a", "b"] {
        rig.mock(name).will(vec![down(); 4]);
    }
    for _ in 0..4 {
        rig.send(offer(1)).await;
    }
    assert_eq!(first_ready(&rig.chain), None);
    advance(Duration::from_secs(10)).await;
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("b")));
    advance(Duration::from_secs(20)).await;
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
}

#[tokio::test(start_paused = true)]
async fn the_time_to_come_back_counts_what_the_round_itself_learnt() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([answer(Class::Throttled, Health::Resting { retry_after: None })]);
    rig.mock("b").will([answer(Class::Throttled, Health::Resting { retry_after: Some(Duration::from_secs(3)) })]);
    let round = rig.send(offer(1)).await;
    assert_eq!(summary(&round), "a:THROTTLED b:THROTTLED");
    assert_eq!(seconds_until(round.ready_at), 3);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_declined_and_does_not_rest_gives_no_reason_to_come_back_at_once() {
    let rig = rig(["a"]);
    rig.mock("a").will([answer(Class::Throttled, HEALTHY)]);
    assert_eq!(rig.send(offer(1)).await.ready_at, None);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_carry_the_message_is_passed_over_for_good() {
    let rig = Rig::new([Mock::new("a").with(|can| can.inline_images = false), Mock::new("b")]);
    let inline = || {
        let mut message = message(1);
        message.email.attachments.push(attachment(10, Some("logo")));
        message
    };
    let round = rig.send(offer_of(inline())).await;
    assert_eq!(summary(&round), "b:ACCEPTED a(does not show images inside the HTML)");
    assert_eq!(round.skipped[0].until, None);

    rig.mock("b").will([answer(Class::Throttled, Health::Resting { retry_after: None })]);
    assert_eq!(seconds_until(rig.send(offer_of(inline())).await.ready_at), 7, "only of the one that can carry it");
}

#[tokio::test(start_paused = true)]
async fn a_remainder_is_offered_only_where_envelope_and_headers_are_apart() {
    let rig = Rig::new([Mock::new("a"), Mock::new("b").with(|can| can.envelope_apart = false), Mock::new("c")]);
    rig.mock("a").will([Act::Each(vec![Class::Accepted, Class::Unavailable], HEALTHY)]);
    let round = rig.send(offer(2)).await;
    assert_eq!(summary(&round), "a:ACCEPTED,UNAVAILABLE c:ACCEPTED b(cannot be offered some of the recipients only)");
}

#[tokio::test(start_paused = true)]
async fn what_is_finished_and_what_is_open_is_written_down_before_each_provider_and_its_answer_after_it() {
    let rig = rig(["a", "b", "c"]);
    let notes = Arc::new(Notes::default());
    rig.mock("a").will([Act::Each(vec![Class::Accepted, Class::Deferred, Class::Unavailable], HEALTHY)]);
    rig.mock("b").will([answer(Class::UnfitHere, HEALTHY)]);
    rig.send(Offer { journal: notes.clone(), ..offer(3) }).await;
    let asked = [" / 0,1,2 / a", "a answered", "a / 1,2 / b", "b answered", "a,b / 1,2 / c", "c answered"];
    assert_eq!(notes.steps(), asked);
    assert_eq!(rig.mock("c").offered(), [[2]]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_round_without_asking_and_says_nothing_of_the_provider() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([down()]);
    let journal = Arc::new(Notes::stopping_before("b"));
    let round = rig.send(Offer { journal, ..offer(1) }).await;
    assert_eq!(summary(&round), "a:UNAVAILABLE b(the round was ended)");
    assert!(round.skipped[0].until.is_some(), "it could have carried the message");
    assert_eq!(rig.mock("b").calls(), 0);
    assert_eq!(first_ready(&rig.chain), Some(ProviderName::new("a")));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_after_the_deadline() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([Act::Answer(Class::Unavailable, HEALTHY, Duration::from_secs(60))]);
    let short = Offer { deadline: Instant::now() + Duration::from_secs(60), ..offer(1) };
    assert_eq!(summary(&rig.send(short).await), "a:UNAVAILABLE b(no time left in this round)");
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_panics_leaves_the_outcome_unknown_and_poisons_nothing() {
    let rig = rig(["a", "b"]);
    rig.mock("a").will([Act::Panic]);
    let round = rig.send(offer(2)).await;
    assert_eq!(summary(&round), "a:OUTCOME_UNKNOWN,OUTCOME_UNKNOWN");
    assert_eq!(round.attempts[0].outcome.health, Health::Failing { retry_after: None });
    assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
}

#[tokio::test(start_paused = true)]
async fn a_recipient_of_whom_the_adapter_says_nothing_may_have_been_sent_to() {
    let rig = rig(["a", "b"]);
    let accepted = |recipient| (RecipientIndex(recipient), crate::chain::testing::verdict(Class::Accepted));
    let lacking = Outcome { verdicts: vec![accepted(1), accepted(7)], provider_message_id: None, health: HEALTHY };
    rig.mock("a").will([Act::Exactly(lacking)]);
    let round = rig.send(offer(2)).await;
    assert_eq!(summary(&round), "a:OUTCOME_UNKNOWN,ACCEPTED");
    assert_eq!(rig.mock("b").calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_provider_of_several_chains_has_one_circuit() {
    let rig = rig(["a", "b"]);
    let bulk = Chain::new("bulk", &chain(["a"]), &rig.links).unwrap();
    trip(&rig, "a").await;
    assert_eq!(first_ready(&bulk), None);
    assert_eq!(bulk.name(), "bulk");

    let error = Chain::new("odd", &chain(["missing"]), &rig.links).err().expect("there is no such provider");
    assert_eq!(error.to_string(), "chain odd names the provider missing, which is not set up");
}

#[tokio::test(start_paused = true)]
async fn a_chain_knows_which_of_its_providers_recognise_a_key_and_attempts_say_so() {
    let day = Duration::from_secs(24 * 60 * 60);
    let rig = Rig::new([Mock::new("a"), Mock::new("b").with(|can| can.idempotency = Some(day))]);
    assert_eq!(rig.chain.idempotent(), [ProviderName::new("b")]);
    rig.mock("a").will([down()]);
    let round = rig.send(offer(1)).await;
    let windows: Vec<_> = round.attempts.iter().map(|attempt| attempt.recognises_key_for).collect();
    assert_eq!(windows, [None, Some(day)]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_says_how_long_the_provider_took() {
    let rig = rig(["a"]);
    rig.mock("a").will([Act::Answer(Class::Accepted, HEALTHY, Duration::from_secs(4)), accept()]);
    let round = rig.send(offer(1)).await;
    assert_eq!(round.attempts[0].duration, Duration::from_secs(4));
}
