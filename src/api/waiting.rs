//! What a message waits for, in words for a person.
//!
//! Owns no knowledge of providers: what keeps a chain from sending is on the [`Board`].

use time::OffsetDateTime;

use crate::{
    delivery::Status,
    health::{Board, to_the_second},
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
        Status::FailedNotRetryable => Some("a person: it failed in a way that will not pass".to_owned()),
        Status::FailedRetriesExhausted => Some("a person: it was tried as often, or waited as long, as allowed".into()),
        Status::FailedOutcomeUnknown => Some("a person: it may have been sent, and must not be sent twice".to_owned()),
        Status::Expired | Status::Canceled | Status::SuccessSent => None,
    }
}

/// What keeps every provider of its chain from taking it comes first; then its time, if that is still to come.
fn waiting_for_dispatcher(message: &MessageStatus, board: &Board, now: OffsetDateTime) -> String {
    let held_up = message.chain.as_deref().and_then(|chain| board.waiting_for(chain, now));
    let due = message.due_at.filter(|due| *due > now).map(|due| {
        let round = message.rounds + 1;
        format!("round {round} at {}", to_the_second(due))
    });
    match (held_up, due) {
        (Some(held_up), Some(due)) => format!("{held_up}; {due}"),
        (Some(words), None) | (None, Some(words)) => words,
        (None, None) => "a free dispatcher".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        delivery::ProviderName,
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
            chain: Some("default".into()),
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
}
