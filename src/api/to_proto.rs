//! From the domain to protobuf: where a message stands, its history, and what became of each recipient.
//!
//! Owns no fact: everything it says follows from the message's row and its history.

use std::time::Duration;

use prost_types::Timestamp;
use time::OffsetDateTime;

use crate::{
    delivery::{Class, ProviderName, Scope, Skip, Status, Verdict},
    message::{Priority, RecipientIndex},
    outbox::{Event, EventKind, MessageStatus},
    proto::v1 as pb,
};

/// The answer to `GetStatus`.
pub(super) fn message_status(message: MessageStatus, waiting_for: Option<String>) -> pb::GetStatusResponse {
    let waits_for_machine = !message.status.is_finished() && !message.status.is_failed();
    pb::GetStatusResponse {
        recipients: recipients(&message),
        message_id: message.id.to_string(),
        status: status(message.status).into(),
        accepted_at: Some(timestamp(message.accepted_at)),
        next_attempt_at: message.due_at.filter(|_| waits_for_machine).map(timestamp),
        finished_at: message.finished_at.map(timestamp),
        rounds: message.rounds,
        events: message.events.into_iter().map(event).collect(),
        waiting_for: waiting_for.unwrap_or_default(),
        correlation_id: message.correlation_id,
        document_type: message.document_type.unwrap_or_default(),
        skipped: message.skipped.into_iter().map(skipped).collect(),
        chain: message.chain,
    }
}

/// The answer to `GetOverview`.
pub(super) fn overview(counts: &[(Status, u64)], oldest_due: &[(Priority, Duration)]) -> pb::GetOverviewResponse {
    let count = |&(of, count): &(Status, u64)| pb::StatusCount { status: status(of).into(), count };
    let oldest =
        |&(of, age): &(Priority, Duration)| pb::OldestDue { priority: priority(of).into(), age: age.try_into().ok() };
    pb::GetOverviewResponse {
        counts: counts.iter().map(count).collect(),
        oldest_due: oldest_due.iter().map(oldest).collect(),
    }
}

/// A priority.
pub(super) fn priority(priority: Priority) -> pb::Priority {
    match priority {
        Priority::High => pb::Priority::High,
        Priority::Normal => pb::Priority::Normal,
        Priority::Bulk => pb::Priority::Bulk,
    }
}

/// A status.
pub(super) fn status(status: Status) -> pb::Status {
    match status {
        Status::NotYetSent => pb::Status::NotYetSent,
        Status::InProcess => pb::Status::InProcess,
        Status::RequiredResend => pb::Status::RequiredResend,
        Status::FailedNotRetryable => pb::Status::FailedNotRetryable,
        Status::FailedRetriesExhausted => pb::Status::FailedRetriesExhausted,
        Status::FailedOutcomeUnknown => pb::Status::FailedOutcomeUnknown,
        Status::Expired => pb::Status::Expired,
        Status::Canceled => pb::Status::Canceled,
        Status::SuccessSent => pb::Status::SuccessSent,
    }
}

fn event(event: Event) -> pb::Event {
    pb::Event {
        kind: kind(event.kind).into(),
        started_at: Some(timestamp(event.at)),
        duration: event.duration.and_then(|duration| duration.try_into().ok()),
        round: event.round.unwrap_or_default(),
        provider: event.provider.map(name).unwrap_or_default(),
        outcome: event.class.map_or(pb::OutcomeClass::Unspecified, class).into(),
        scope: event.scope.map_or(pb::OutcomeScope::Unspecified, scope).into(),
        code: event.code.unwrap_or_default(),
        detail: event.detail.unwrap_or_default(),
        provider_message_id: event.provider_message_id.unwrap_or_default(),
        skipped: event.skipped.into_iter().map(skipped).collect(),
    }
}

fn skipped(skip: Skip) -> pb::SkippedProvider {
    pb::SkippedProvider { provider: name(skip.provider), reason: skip.reason, until: skip.until.map(timestamp) }
}

fn kind(kind: EventKind) -> pb::EventKind {
    match kind {
        EventKind::Attempt => pb::EventKind::Attempt,
        EventKind::Takeover => pb::EventKind::Takeover,
        EventKind::Canceled => pb::EventKind::Canceled,
        EventKind::Expired => pb::EventKind::Expired,
        EventKind::Retried => pb::EventKind::Retried,
        EventKind::LateOutcome => pb::EventKind::LateOutcome,
        EventKind::GaveUp => pb::EventKind::GaveUp,
        EventKind::Reported => pb::EventKind::Reported,
    }
}

pub(super) fn class(class: Class) -> pb::OutcomeClass {
    match class {
        Class::Accepted => pb::OutcomeClass::Accepted,
        Class::RecipientRejected => pb::OutcomeClass::RecipientRejected,
        Class::MessageRejected => pb::OutcomeClass::MessageRejected,
        Class::UnfitHere => pb::OutcomeClass::UnfitHere,
        Class::Deferred => pb::OutcomeClass::Deferred,
        Class::Unavailable => pb::OutcomeClass::Unavailable,
        Class::Throttled => pb::OutcomeClass::Throttled,
        Class::QuotaUsedUp => pb::OutcomeClass::QuotaUsedUp,
        Class::Misconfigured => pb::OutcomeClass::Misconfigured,
        Class::OutcomeUnknown => pb::OutcomeClass::OutcomeUnknown,
    }
}

fn scope(scope: Scope) -> pb::OutcomeScope {
    match scope {
        Scope::Recipient => pb::OutcomeScope::Recipient,
        Scope::RecipientAtProvider => pb::OutcomeScope::RecipientAtProvider,
        Scope::Message => pb::OutcomeScope::Message,
        Scope::MessageAtProvider => pb::OutcomeScope::MessageAtProvider,
        Scope::Provider => pb::OutcomeScope::Provider,
        Scope::Account => pb::OutcomeScope::Account,
        Scope::SenderDomain => pb::OutcomeScope::SenderDomain,
        Scope::Wire => pb::OutcomeScope::Wire,
    }
}

/// What became of each recipient, in the order to, cc, bcc.
fn recipients(message: &MessageStatus) -> Vec<pb::RecipientStatus> {
    let mut told: Vec<Option<Told<'_>>> = vec![None; message.recipients.len()];
    for event in &message.events {
        for (RecipientIndex(index), verdict) in &event.verdicts {
            let Some(before) = told.get_mut(usize::from(*index)) else { continue };
            if decides(event.kind, verdict, *before) {
                *before = Some(Told { verdict, provider: event.provider.as_ref() });
            }
        }
    }
    let addresses = message.recipients.iter().map(|address| address.as_str().to_owned());
    addresses.zip(told).map(|(address, told)| recipient(address, told)).collect()
}

/// What an attempt told about a recipient.
#[derive(Clone, Copy)]
struct Told<'a> {
    verdict: &'a Verdict,
    provider: Option<&'a ProviderName>,
}

/// Whether a verdict takes the place of what was told before. An acceptance stands. A later attempt replaces a
/// rejection, since only an operator's retry offers that recipient again. What arrives late says only what it adds: an
/// acceptance.
fn decides(kind: EventKind, verdict: &Verdict, before: Option<Told<'_>>) -> bool {
    match before {
        None => true,
        Some(before) if before.verdict.class == Class::Accepted => false,
        Some(_) => kind != EventKind::LateOutcome || verdict.class == Class::Accepted,
    }
}

fn recipient(address: String, told: Option<Told<'_>>) -> pb::RecipientStatus {
    let Some(Told { verdict, provider }) = told else {
        let state = pb::RecipientState::Open.into();
        return pb::RecipientStatus { address, state, ..Default::default() };
    };
    let state = match verdict.class {
        Class::Accepted => pb::RecipientState::Accepted,
        class if class.is_final() => pb::RecipientState::Rejected,
        _ => pb::RecipientState::Open,
    };
    pb::RecipientStatus {
        address,
        state: state.into(),
        outcome: class(verdict.class).into(),
        provider: provider.map(|name| name.as_str().to_owned()).unwrap_or_default(),
        code: verdict.code.clone(),
        detail: verdict.detail.clone(),
    }
}

pub(super) fn name(provider: ProviderName) -> String {
    provider.as_str().to_owned()
}

/// A time of the contract.
pub(super) fn timestamp(time: OffsetDateTime) -> Timestamp {
    // Nanoseconds of a second are under 1,000,000,000, which an i32 holds.
    Timestamp { seconds: time.unix_timestamp(), nanos: i32::try_from(time.nanosecond()).unwrap_or_default() }
}

#[cfg(test)]
mod tests;
