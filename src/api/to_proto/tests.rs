//! What each part of a message becomes in an answer.

use std::{collections::BTreeSet, time::Duration};

use time::macros::datetime;

use super::*;
use crate::message::{ClientId, EmailAddress, MessageId};

const ACCEPTED: OffsetDateTime = datetime!(2026-12-01 12:00:00.25 UTC);

fn message(status: Status, events: Vec<Event>) -> MessageStatus {
    let recipients = ["ada@example.com", "bob@example.com"];
    MessageStatus {
        id: MessageId::new_at(ACCEPTED),
        client: ClientId::new("orders"),
        status,
        accepted_at: ACCEPTED,
        due_at: Some(ACCEPTED + Duration::from_secs(60)),
        finished_at: None,
        rounds: 2,
        chain: "default".into(),
        priority: None,
        is_paused: false,
        skipped: vec![skip("backup", None)],
        bound_to: None,
        provider: None,
        correlation_id: "c-1".into(),
        document_type: Some("INVOICE".into()),
        recipients: recipients.map(|address| EmailAddress::parse(address).expect("an address")).to_vec(),
        events,
    }
}

fn event(kind: EventKind, provider: &str, verdicts: &[(u16, Class)]) -> Event {
    let verdict = |class| Verdict::new(class, Scope::Recipient, format!("{class:?}"), "said so");
    Event {
        kind,
        at: ACCEPTED,
        duration: Some(Duration::from_millis(1_500)),
        round: Some(1),
        provider: Some(ProviderName::new(provider)),
        class: verdicts.first().map(|(_, class)| *class),
        scope: Some(Scope::Recipient),
        code: Some("250".into()),
        detail: Some("said so".into()),
        provider_message_id: Some("p-1".into()),
        verdicts: verdicts.iter().map(|&(index, class)| (RecipientIndex(index), verdict(class))).collect(),
        skipped: vec![skip("first", Some(ACCEPTED))],
    }
}

fn skip(provider: &str, until: Option<OffsetDateTime>) -> Skip {
    Skip { provider: ProviderName::new(provider), reason: "why".into(), until }
}

#[test]
fn everything_known_of_a_message_is_told() {
    let events = vec![event(EventKind::Attempt, "primary", &[(0, Class::Accepted), (1, Class::Deferred)])];
    let told = message_status(message(Status::RequiredResend, events), Some("round 3 at …".into()));
    let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
    let accepted = ACCEPTED.unix_timestamp();
    assert_eq!(told.status(), pb::Status::RequiredResend);
    assert_eq!(told.accepted_at, at(accepted, 250_000_000));
    assert_eq!(told.next_attempt_at, at(accepted + 60, 250_000_000));
    assert_eq!((told.finished_at, told.rounds), (None, 2));
    assert_eq!((told.waiting_for.as_str(), told.correlation_id.as_str()), ("round 3 at …", "c-1"));
    assert_eq!((told.document_type.as_str(), told.chain.as_str()), ("INVOICE", "default"));
    let never = pb::SkippedProvider { provider: "backup".into(), reason: "why".into(), until: None };
    assert_eq!(told.skipped, [never]);
    let expected = pb::Event {
        kind: pb::EventKind::Attempt.into(),
        started_at: at(accepted, 250_000_000),
        duration: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
        round: 1,
        provider: "primary".into(),
        outcome: pb::OutcomeClass::Accepted.into(),
        scope: pb::OutcomeScope::Recipient.into(),
        code: "250".into(),
        detail: "said so".into(),
        provider_message_id: "p-1".into(),
        skipped: vec![pb::SkippedProvider {
            provider: "first".into(),
            reason: "why".into(),
            until: at(accepted, 250_000_000),
        }],
    };
    assert_eq!(told.events, [expected]);
    let bob = pb::RecipientStatus {
        address: "bob@example.com".into(),
        state: pb::RecipientState::Open.into(),
        outcome: pb::OutcomeClass::Deferred.into(),
        provider: "primary".into(),
        code: "Deferred".into(),
        detail: "said so".into(),
    };
    assert_eq!(told.recipients[1], bob);
    assert_eq!(told.recipients[0].state(), pb::RecipientState::Accepted);
}

#[test]
fn only_what_waits_for_a_machine_has_a_next_attempt() {
    for status in Status::ALL {
        let told = message_status(message(status, Vec::new()), None);
        let waits = matches!(status, Status::NotYetSent | Status::InProcess | Status::RequiredResend);
        assert_eq!(told.next_attempt_at.is_some(), waits, "{status}");
    }
}

#[test]
fn words_are_the_same_in_the_contract_and_in_the_domain() {
    for value in Status::ALL {
        assert_eq!(status(value).as_str_name(), format!("STATUS_{}", value.as_str()));
    }
    for value in Class::ALL {
        assert_eq!(class(value).as_str_name(), format!("OUTCOME_CLASS_{}", value.as_str()));
    }
    for value in Scope::ALL {
        assert_eq!(scope(value).as_str_name(), format!("OUTCOME_SCOPE_{}", value.as_str()));
    }
}

#[test]
fn every_kind_of_event_has_its_own_value() {
    use EventKind::{Attempt, Canceled, Expired, GaveUp, LateOutcome, Reported, Retried, Takeover};
    let all = [Attempt, Takeover, Canceled, Expired, Retried, LateOutcome, GaveUp, Reported];
    let values: BTreeSet<i32> = all.into_iter().map(|value| kind(value).into()).collect();
    assert_eq!(values, (1..=8).collect());
}

/// The state and outcome of the first recipient after those verdicts.
fn first(history: &[(EventKind, Class)]) -> (pb::RecipientState, pb::OutcomeClass) {
    let events = history.iter().map(|&(kind, class)| event(kind, "primary", &[(0, class), (7, class)])).collect();
    let told = message_status(message(Status::RequiredResend, events), None);
    assert_eq!(told.recipients.len(), 2, "a verdict for nobody adds no recipient");
    (told.recipients[0].state(), told.recipients[0].outcome())
}

#[test]
fn a_recipients_state_follows_from_the_history() {
    use EventKind::{Attempt, LateOutcome, Takeover};
    use pb::{OutcomeClass as Told, RecipientState as State};
    type Case<'a> = (&'a [(EventKind, Class)], State, Told);
    let cases: [Case<'_>; 9] = [
        (&[], State::Open, Told::Unspecified),
        (&[(Attempt, Class::Accepted)], State::Accepted, Told::Accepted),
        (&[(Attempt, Class::RecipientRejected)], State::Rejected, Told::RecipientRejected),
        (&[(Attempt, Class::MessageRejected)], State::Rejected, Told::MessageRejected),
        (&[(Attempt, Class::Unavailable), (Attempt, Class::Deferred)], State::Open, Told::Deferred),
        (&[(Attempt, Class::RecipientRejected), (Attempt, Class::Accepted)], State::Accepted, Told::Accepted),
        (&[(Takeover, Class::OutcomeUnknown), (LateOutcome, Class::Accepted)], State::Accepted, Told::Accepted),
        (&[(Attempt, Class::Deferred), (LateOutcome, Class::RecipientRejected)], State::Open, Told::Deferred),
        (&[(Attempt, Class::Accepted), (LateOutcome, Class::Unavailable)], State::Accepted, Told::Accepted),
    ];
    for (history, state, told) in cases {
        assert_eq!(first(history), (state, told), "{history:?}");
    }
}
