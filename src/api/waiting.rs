//! What a message waits for, in words for a person.
//!
//! Owns no knowledge of providers: what keeps a chain from sending is on the [`Board`].

use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{delivery::Status, health::Board, outbox::MessageStatus};

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
    let held_up = message.chain.as_deref().and_then(|chain| board.waiting_for(chain));
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

/// A time as RFC 3339, rounded up to the second: nobody looks too early.
fn to_the_second(time: OffsetDateTime) -> String {
    let rest = i64::from(time.nanosecond());
    let up = if rest == 0 { time } else { time + Duration::nanoseconds(1_000_000_000 - rest) };
    up.format(&Rfc3339).unwrap_or_else(|_| up.to_string())
}
