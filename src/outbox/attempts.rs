//! Attempts as columns, one array each, and verdicts as they are stored.
//!
//! Owns the form of the history's verdicts, written and read; what an attempt means was decided before.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{OutboxError, error::unreadable, skips};
use crate::{
    delivery::{Attempt, Class, Scope, Verdict},
    message::RecipientIndex,
};

/// Attempts as columns.
#[derive(Default)]
pub(super) struct AttemptColumns<'a> {
    pub(super) id: Vec<Uuid>,
    pub(super) token: Vec<i64>,
    pub(super) nth: Vec<i32>,
    pub(super) round: Vec<i32>,
    pub(super) provider: Vec<&'a str>,
    pub(super) started_at: Vec<OffsetDateTime>,
    pub(super) duration_us: Vec<i64>,
    pub(super) class: Vec<&'static str>,
    pub(super) scope: Vec<&'static str>,
    pub(super) code: Vec<String>,
    pub(super) detail: Vec<String>,
    pub(super) provider_message_id: Vec<Option<String>>,
    pub(super) offered: Vec<Option<String>>,
    pub(super) verdicts: Vec<Option<String>>,
    pub(super) skipped: Vec<Option<String>>,
}

impl<'a> AttemptColumns<'a> {
    /// Adds the attempts of one message, in their order.
    pub(super) fn push_all(&mut self, lease: super::Lease, round: u32, attempts: &'a [Attempt]) {
        for (nth, attempt) in (0..).zip(attempts) {
            self.id.push(lease.id.as_uuid());
            self.token.push(lease.token);
            self.nth.push(nth);
            self.round.push(i32::try_from(round).unwrap_or(i32::MAX));
            self.push(attempt);
        }
    }

    fn push(&mut self, attempt: &'a Attempt) {
        let outcome = &attempt.outcome;
        self.provider.push(attempt.provider.as_str());
        self.started_at.push(attempt.started_at);
        self.duration_us.push(i64::try_from(attempt.duration.as_micros()).unwrap_or(i64::MAX));
        // An attempt that says nothing of anybody may have done anything.
        let (class, scope, code, detail) = match outcome.headline() {
            Some(verdict) => (verdict.class, verdict.scope, text(&verdict.code), text(&verdict.detail)),
            None => (Class::OutcomeUnknown, Scope::Wire, String::new(), String::new()),
        };
        self.class.push(class.as_str());
        self.scope.push(scope.as_str());
        self.code.push(code);
        self.detail.push(detail);
        self.provider_message_id.push(outcome.provider_message_id.as_deref().map(text));
        let (offered, verdicts) = match outcome.headline() {
            Some(headline) if outcome.verdicts.iter().any(|(_, verdict)| verdict != headline) => {
                (None, Some(to_json(&outcome.verdicts)))
            }
            _ => (Some(list(outcome.verdicts.iter().map(|(recipient, _)| *recipient))), None),
        };
        self.offered.push(offered);
        self.verdicts.push(verdicts);
        self.skipped.push(skips::to_json(&attempt.skipped));
    }
}

/// When the first of these attempts that left anybody's outcome unknown began.
pub(super) fn unknown_since(attempts: &[Attempt]) -> Option<OffsetDateTime> {
    attempts.iter().filter(|a| a.left_any(Class::OutcomeUnknown)).map(|a| a.started_at).min()
}

/// The recipients that these attempts left accepted.
pub(super) fn accepted(attempts: &[Attempt]) -> impl Iterator<Item = RecipientIndex> {
    attempts
        .iter()
        .flat_map(|attempt| &attempt.outcome.verdicts)
        .filter(|(_, verdict)| verdict.class == Class::Accepted)
        .map(|(recipient, _)| *recipient)
}

/// Recipients in one text: Postgres has no arrays of arrays of different lengths.
pub(super) fn list(recipients: impl IntoIterator<Item = RecipientIndex>) -> String {
    recipients.into_iter().map(|recipient| recipient.0.to_string()).collect::<Vec<_>>().join(",")
}

/// Recipients from a column.
pub(super) fn recipients(numbers: &[i16]) -> Vec<RecipientIndex> {
    numbers.iter().map(|&number| RecipientIndex(u16::try_from(number).unwrap_or(u16::MAX))).collect()
}

/// What a provider said, as Postgres takes it: a text has no NUL.
fn text(words: &str) -> String {
    words.replace('\0', "\u{fffd}")
}

/// A verdict as it is stored. The names are part of the tables.
#[derive(Serialize, Deserialize)]
struct StoredVerdict {
    recipient: u16,
    class: String,
    scope: String,
    code: String,
    detail: String,
}

fn to_json(verdicts: &[(RecipientIndex, Verdict)]) -> String {
    let stored: Vec<StoredVerdict> = verdicts
        .iter()
        .map(|(recipient, verdict)| StoredVerdict {
            recipient: recipient.0,
            class: verdict.class.as_str().to_owned(),
            scope: verdict.scope.as_str().to_owned(),
            code: text(&verdict.code),
            detail: text(&verdict.detail),
        })
        .collect();
    serde_json::to_string(&stored).expect("texts and numbers can be written as JSON")
}

/// The verdicts of an event's column.
pub(super) fn from_json(json: serde_json::Value) -> Result<Vec<(RecipientIndex, Verdict)>, OutboxError> {
    let stored: Vec<StoredVerdict> = serde_json::from_value(json).map_err(unreadable)?;
    stored
        .into_iter()
        .map(|verdict| {
            let class = parse_class(&verdict.class)?;
            let scope = parse_scope(&verdict.scope)?;
            let recipient = RecipientIndex(verdict.recipient);
            Ok((recipient, Verdict { class, scope, code: verdict.code, detail: verdict.detail }))
        })
        .collect()
}

/// The class of a column's word.
pub(super) fn parse_class(word: &str) -> Result<Class, OutboxError> {
    Class::parse(word).ok_or_else(|| unreadable(format_args!("unknown class {word}")))
}

/// The scope of a column's word.
pub(super) fn parse_scope(word: &str) -> Result<Scope, OutboxError> {
    Scope::parse(word).ok_or_else(|| unreadable(format_args!("unknown scope {word}")))
}
