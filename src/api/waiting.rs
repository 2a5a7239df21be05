//! What a message waits for, in words for a person.
//!
//! Owns no knowledge of providers: what keeps a chain from sending is on the [`Board`].

use time::OffsetDateTime;

use crate::{
    delivery::{ProviderName, Skip, Status},
    health::{Board, to_the_second},
    message::Priority,
    outbox::MessageStatus,
};

/// What the message waits for; `None` once it is finished.
pub(super) fn waiting_for(message: &MessageStatus, board: &Board, now: OffsetDateTime) -> Option<String> {
    match message.status {
        Status::NotYetSent | Status::RequiredResend => Some(waiting_for_dispatcher(message, board, now)),
        Status::InProcess => Some(match &message.provider {
            Some(provider) => format!("the answer of provider {provider}"),
            None => "the dispatcher that has it".to_owned(),
        }),
        Status::FailedNotRetryable if !message.skipped.is_empty() => {
            let chain = &message.chain;
            Some(format!("a person: no provider of chain {chain} can carry it: {}", all_passed_over(message)))
        }
        Status::FailedNotRetryable => Some("a person: it failed in a way that will not pass".to_owned()),
        Status::FailedRetriesExhausted => {
            let words = "a person: it was tried as often, or waited as long, as allowed";
            Some(match message.skipped.is_empty() {
                true => words.to_owned(),
                false => format!("{words}; at last {}", all_passed_over(message)),
            })
        }
        Status::FailedOutcomeUnknown => Some("a person: it may have been sent, and must not be sent twice".to_owned()),
        Status::Expired | Status::Canceled | Status::SuccessSent => None,
    }
}

/// First what keeps it from being taken at all, then its time, if that is still to come.
fn waiting_for_dispatcher(message: &MessageStatus, board: &Board, now: OffsetDateTime) -> String {
    let paused = message.is_paused.then(|| {
        let priority = message.priority.map_or("", Priority::as_str);
        format!("its lane, which is paused (chain {}, priority {priority}, client {})", message.chain, message.client)
    });
    let due = message.due_at.filter(|due| *due > now).map(|due| time_to_come(message, due));
    let words: Vec<String> = paused.into_iter().chain(held_up(message, board, now)).chain(due).collect();
    if words.is_empty() { "a free dispatcher".to_owned() } else { words.join("; ") }
}

fn time_to_come(message: &MessageStatus, due: OffsetDateTime) -> String {
    let at = to_the_second(due);
    match message.status {
        Status::NotYetSent if message.skipped.is_empty() => format!("its scheduled time, {at}"),
        _ => format!("round {} at {at}", message.rounds + 1),
    }
}

/// What keeps every provider that it may be handed to from taking it; `None` if one of them would. What the board has of
/// a provider is fresh; the row knows besides who cannot carry this message.
fn held_up(message: &MessageStatus, board: &Board, now: OffsetDateTime) -> Option<String> {
    let providers = match (&message.bound_to, board.providers_of(&message.chain)) {
        (Some(only), _) => vec![only.clone()],
        (None, Some(all)) => all,
        // Nobody sends for this chain here.
        (None, None) => message.skipped.iter().map(|skip| skip.provider.clone()).collect(),
    };
    let of_row = |provider: &ProviderName| {
        let still_holds = |skip: &&Skip| skip.provider == *provider && skip.until.is_none_or(|until| until > now);
        message.skipped.iter().rev().find(still_holds).map(passed_over)
    };
    let words: Vec<String> = providers
        .iter()
        .map(|provider| board.held_up(provider, now).or_else(|| of_row(provider)))
        .collect::<Option<_>>()?;
    (!words.is_empty()).then(|| words.join("; "))
}

fn all_passed_over(message: &MessageStatus) -> String {
    message.skipped.iter().map(passed_over).collect::<Vec<_>>().join("; ")
}

fn passed_over(skip: &Skip) -> String {
    let Skip { provider, reason, until } = skip;
    match until {
        Some(until) => format!("provider {provider}: {reason} until {}", to_the_second(*until)),
        None => format!("provider {provider}: {reason}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        health::{Circuit, ProviderState, Reason, Waiting},
        message::{ClientId, MessageId},
    };

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
    const LATER: OffsetDateTime = datetime!(2026-12-01 12:05:00.4 UTC);

    fn message(status: Status, due_at: OffsetDateTime, provider: Option<&str>) -> MessageStatus {
        MessageStatus {
            id: MessageId::new_at(NOW),
            client: ClientId::new("orders"),
            status,
            accepted_at: NOW,
            due_at: Some(due_at),
            finished_at: None,
            rounds: 1,
            chain: "default".into(),
            priority: Some(Priority::Normal),
            is_paused: false,
            skipped: Vec::new(),
            bound_to: None,
            provider: provider.map(ProviderName::new),
            correlation_id: "c-1".into(),
            document_type: None,
            recipients: Vec::new(),
            events: Vec::new(),
        }
    }

    fn board(until: Option<OffsetDateTime>) -> Board {
        let board = Board::default();
        let primary = ProviderName::new("primary");
        board.set_chain("default", vec![primary.clone()]);
        let (circuit, waiting) = match until {
            Some(until) => (Circuit::Open, Some(Waiting { reason: Reason::CircuitOpen, until })),
            None => (Circuit::Closed, None),
        };
        board.publish(&primary, ProviderState::new(circuit, waiting));
        board
    }

    #[test]
    fn a_message_says_what_it_waits_for() {
        let ready = board(None);
        let broken = board(Some(datetime!(2026-12-01 12:00:30 UTC)));
        let cases = [
            (Status::NotYetSent, NOW, None, &ready, Some("a free dispatcher")),
            (Status::NotYetSent, LATER, None, &ready, Some("its scheduled time, 2026-12-01T12:05:01Z")),
            (Status::RequiredResend, LATER, None, &ready, Some("round 2 at 2026-12-01T12:05:01Z")),
            (
                Status::RequiredResend,
                NOW,
                None,
                &broken,
                Some("circuit of provider primary is open until 2026-12-01T12:00:30Z"),
            ),
            (
                Status::RequiredResend,
                LATER,
                None,
                &broken,
                Some("circuit of provider primary is open until 2026-12-01T12:00:30Z; round 2 at 2026-12-01T12:05:01Z"),
            ),
            (Status::InProcess, LATER, Some("primary"), &broken, Some("the answer of provider primary")),
            (Status::InProcess, LATER, None, &ready, Some("the dispatcher that has it")),
        ];
        for (status, due_at, provider, board, expected) in cases {
            let words = waiting_for(&message(status, due_at, provider), board, NOW);
            assert_eq!(words.as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn a_failed_message_waits_for_a_person_and_a_finished_one_for_nothing() {
        for status in Status::ALL {
            let words = waiting_for(&message(status, NOW, None), &board(None), NOW);
            assert_eq!(words.is_none(), status.is_finished(), "{status}");
            assert_eq!(words.is_some_and(|words| words.starts_with("a person: ")), status.is_failed(), "{status}");
        }
    }

    fn skip(provider: &str, reason: &str, until: Option<OffsetDateTime>) -> Skip {
        Skip { provider: ProviderName::new(provider), reason: reason.into(), until }
    }

    #[test]
    fn who_was_passed_over_for_this_message_alone_is_named_while_nobody_else_would_take_it() {
        let domain = "misconfigured for sender domain shop.example";
        let until = datetime!(2026-12-01 12:01 UTC);
        let (ready, nowhere) = (board(None), Board::default());
        let waits = |skipped: Vec<Skip>, board: &Board| {
            let message = MessageStatus { skipped, ..message(Status::RequiredResend, NOW, None) };
            waiting_for(&message, board, NOW).unwrap()
        };
        let held = "provider primary: misconfigured for sender domain shop.example until 2026-12-01T12:01:00Z";
        assert_eq!(waits(vec![skip("primary", domain, Some(until))], &ready), held);
        assert_eq!(waits(vec![skip("primary", domain, Some(until))], &nowhere), held);
        assert_eq!(waits(vec![skip("primary", domain, Some(NOW))], &ready), "a free dispatcher", "it has passed");
        assert_eq!(waits(vec![skip("gone", "not in this chain", None)], &ready), "a free dispatcher");
    }

    #[test]
    fn who_may_have_it_alone_is_waited_for_whatever_others_are_ready() {
        let broken = board(Some(datetime!(2026-12-01 12:00:30 UTC)));
        broken.set_chain("default", ["primary", "backup"].map(ProviderName::new).to_vec());
        let bound = |to: Option<&str>| MessageStatus {
            bound_to: to.map(ProviderName::new),
            ..message(Status::RequiredResend, NOW, to)
        };
        assert_eq!(waiting_for(&bound(None), &broken, NOW).unwrap(), "a free dispatcher");
        let words = "circuit of provider primary is open until 2026-12-01T12:00:30Z";
        assert_eq!(waiting_for(&bound(Some("primary")), &broken, NOW).unwrap(), words);
    }

    #[test]
    fn a_paused_lane_is_named_with_what_an_operator_needs_to_let_it_go_on() {
        let paused = MessageStatus { is_paused: true, ..message(Status::NotYetSent, NOW, None) };
        let words = "its lane, which is paused (chain default, priority NORMAL, client orders)";
        assert_eq!(waiting_for(&paused, &board(None), NOW).unwrap(), words);
    }

    #[test]
    fn what_nobody_can_carry_says_why_to_the_person_who_gets_it() {
        let unfit = skip("primary", "does not show images inside the HTML", None);
        let failed = MessageStatus { skipped: vec![unfit], ..message(Status::FailedNotRetryable, NOW, None) };
        let words = "a person: no provider of chain default can carry it: \
                     provider primary: does not show images inside the HTML";
        assert_eq!(waiting_for(&failed, &board(None), NOW).unwrap(), words);
    }
}
