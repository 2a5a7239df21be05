//! One pass of a message through its chain, as it went.
//!
//! Owns no decision: whom to ask is the chain's, and what follows from a round is the policy's.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Class, Outcome, ProviderName};
use crate::message::RecipientIndex;

/// One message handed to one provider once, with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The provider that was asked.
    pub provider: ProviderName,
    /// When, by the database's clock.
    pub started_at: OffsetDateTime,
    /// How long it took.
    pub duration: Duration,
    /// For how long the provider recognises the message by its idempotency key; `None` if it has none.
    pub recognises_key_for: Option<Duration>,
    /// What it told.
    pub outcome: Outcome,
    /// The providers considered since the attempt before it, in the same round, and not asked.
    pub skipped: Vec<Skip>,
}

impl Attempt {
    /// Whether it left a recipient with that class.
    pub fn left_any(&self, class: Class) -> bool {
        self.outcome.verdicts.iter().any(|(_, verdict)| verdict.class == class)
    }
}

/// A provider that was considered and not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The provider.
    pub provider: ProviderName,
    /// Why, in words without an address or content: "circuit is open".
    pub reason: String,
    /// When it can be asked again. `None`: never for this message (it cannot carry it).
    pub until: Option<OffsetDateTime>,
}

/// One pass of a message through its chain: an attempt for each provider really asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// The attempts, in their order.
    pub attempts: Vec<Attempt>,
    /// The providers that were considered and not asked, in their order: those before an attempt are with it as well.
    pub skipped: Vec<Skip>,
    /// When the first of the providers that can carry it can be asked again; `None` if that is not known.
    pub ready_at: Option<OffsetDateTime>,
}

impl Round {
    /// Whether it counts as one of those that are allowed.
    pub fn spends(&self) -> bool {
        let verdicts = self.attempts.iter().flat_map(|attempt| &attempt.outcome.verdicts);
        verdicts.into_iter().any(|(_, verdict)| verdict.class.spends_round())
    }

    /// The providers considered since the last attempt, or since the beginning, and not asked.
    pub fn skipped_since_last_attempt(&self) -> &[Skip] {
        let before: usize = self.attempts.iter().map(|attempt| attempt.skipped.len()).sum();
        self.skipped.get(before..).unwrap_or_default()
    }

    /// The class each recipient was left with: that of the last attempt that offered it.
    pub fn last_class(&self, recipient: RecipientIndex) -> Option<Class> {
        self.attempts
            .iter()
            .rev()
            .find_map(|attempt| attempt.outcome.verdicts.iter().find(|(index, _)| *index == recipient))
            .map(|(_, verdict)| verdict.class)
    }
}
