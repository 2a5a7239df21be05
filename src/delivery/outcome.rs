//! What one attempt told: a verdict for each recipient, and apart from it what it says of the provider.
//!
//! Owns the classes and what each means for the message; which answer is of which class is the adapter's to say.

use std::{fmt, sync::Arc, time::Duration};

use crate::message::RecipientIndex;

/// The name of a configured provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderName(Arc<str>);

impl ProviderName {
    /// The provider of that name in the settings.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an attempt means for a recipient, and so what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Taken by the provider: that recipient is finished.
    Accepted,
    /// Refused for good: that recipient is finished; no other provider is asked.
    RecipientRejected,
    /// The message is refused everywhere: every open recipient is finished.
    MessageRejected,
    /// This provider cannot carry this message: the next one that can is asked now.
    UnfitHere,
    /// The same provider is asked again after the pause (greylisting).
    Deferred,
    /// The provider is down; definitely not sent: the next provider is asked now.
    Unavailable,
    /// The provider's capacity is used up: the next provider is asked now.
    Throttled,
    /// The account's quota is used up: the next provider is asked now.
    QuotaUsedUp,
    /// Credentials, the account or the sender domain are not set up: the next provider is asked now, and the round is
    /// not spent.
    Misconfigured,
    /// Nobody can know whether it was sent: never blindly to another provider.
    OutcomeUnknown,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 10] = [
        Class::Accepted,
        Class::RecipientRejected,
        Class::MessageRejected,
        Class::UnfitHere,
        Class::Deferred,
        Class::Unavailable,
        Class::Throttled,
        Class::QuotaUsedUp,
        Class::Misconfigured,
        Class::OutcomeUnknown,
    ];

    /// The word used in SQL, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Accepted => "ACCEPTED",
            Class::RecipientRejected => "RECIPIENT_REJECTED",
            Class::MessageRejected => "MESSAGE_REJECTED",
            Class::UnfitHere => "UNFIT_HERE",
            Class::Deferred => "DEFERRED",
            Class::Unavailable => "UNAVAILABLE",
            Class::Throttled => "THROTTLED",
            Class::QuotaUsedUp => "QUOTA_USED_UP",
            Class::Misconfigured => "MISCONFIGURED",
            Class::OutcomeUnknown => "OUTCOME_UNKNOWN",
        }
    }

    /// The class of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// Whether the recipient is finished.
    pub fn is_final(self) -> bool {
        matches!(self, Class::Accepted | Class::RecipientRejected | Class::MessageRejected)
    }

    /// Whether the next provider of the chain is asked now, in the same round.
    pub fn asks_next(self) -> bool {
        matches!(
            self,
            Class::UnfitHere | Class::Unavailable | Class::Throttled | Class::QuotaUsedUp | Class::Misconfigured
        )
    }

    /// Whether an attempt that ended so spends the round. What is about our account or the provider's capacity costs
    /// the message nothing.
    pub fn spends_round(self) -> bool {
        !matches!(self, Class::Throttled | Class::QuotaUsedUp | Class::Misconfigured)
    }
}

/// What an outcome is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One recipient, at every provider.
    Recipient,
    /// One recipient, at this provider.
    RecipientAtProvider,
    /// The message, at every provider.
    Message,
    /// The message, at this provider.
    MessageAtProvider,
    /// The provider as a whole.
    Provider,
    /// Our account at the provider.
    Account,
    /// One sender domain at the provider.
    SenderDomain,
    /// The connection on which the answer was lost.
    Wire,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 8] = [
        Scope::Recipient,
        Scope::RecipientAtProvider,
        Scope::Message,
        Scope::MessageAtProvider,
        Scope::Provider,
        Scope::Account,
        Scope::SenderDomain,
        Scope::Wire,
    ];

    /// The word used in SQL, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Recipient => "RECIPIENT",
            Scope::RecipientAtProvider => "RECIPIENT_AT_PROVIDER",
            Scope::Message => "MESSAGE",
            Scope::MessageAtProvider => "MESSAGE_AT_PROVIDER",
            Scope::Provider => "PROVIDER",
            Scope::Account => "ACCOUNT",
            Scope::SenderDomain => "SENDER_DOMAIN",
            Scope::Wire => "WIRE",
        }
    }

    /// The scope of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// What an attempt means for one recipient.
#[derive(Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The class.
    pub class: Class,
    /// What it is about.
    pub scope: Scope,
    /// What the provider gave as code: `503`, `550 5.1.1`. Made by us where there was no answer: `connect`, `timeout`.
    pub code: String,
    /// What the provider said, cut to [`Verdict::DETAIL_LIMIT`]. It may hold addresses: it goes to the history and to
    /// `GetStatus`, never to a log.
    pub detail: String,
}

impl Verdict {
    /// How much of a provider's words is kept, in characters.
    pub const DETAIL_LIMIT: usize = 500;

    /// A verdict, the detail cut to the limit and freed of control characters.
    pub fn new(class: Class, scope: Scope, code: impl Into<String>, detail: &str) -> Self {
        let detail = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(Self::DETAIL_LIMIT).collect();
        Self { class, scope, code: code.into(), detail }
    }

    /// Whether the message was declined for what it says (5.7.1 once the content was seen): another may see it otherwise,
    /// but whoever offers it to one after the other looks like a sender of spam to all of them.
    pub fn is_about_content(&self) -> bool {
        self.class == Class::UnfitHere && self.code.split(' ').any(|part| part == "5.7.1")
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("class", &self.class)
            .field("scope", &self.scope)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

/// What an attempt says of the provider, whatever it means for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered as a well provider does.
    Healthy,
    /// It did not: counts against the breaker. Where it named a time (Retry-After), it is asked again no sooner.
    Failing {
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// It is well, but will take no more for a while (throttled, quota). It rests that long, or the default of its
    /// settings for the class.
    Resting {
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// Our account is not set up: out of rotation.
    Misconfigured,
    /// One sender domain is not set up: out of rotation for that domain.
    MisconfiguredForSenderDomain,
    /// It says nothing of the provider: the attempt ended by our own doing before the provider could show itself.
    Neutral,
}

/// What one attempt told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A verdict for each recipient that was offered, each exactly once.
    pub verdicts: Vec<(RecipientIndex, Verdict)>,
    /// The provider's own id of the message, where it gave one.
    pub provider_message_id: Option<String>,
    /// What it says of the provider.
    pub health: Health,
}

impl Outcome {
    /// The same verdict for every recipient.
    pub fn uniform(recipients: &[RecipientIndex], verdict: &Verdict, health: Health) -> Self {
        Self {
            verdicts: recipients.iter().map(|&recipient| (recipient, verdict.clone())).collect(),
            provider_message_id: None,
            health,
        }
    }

    /// The verdict that speaks for the whole attempt on the message's row: an unknown outcome before anything, then
    /// what keeps a recipient open, then an acceptance, then a rejection. `None` only for an attempt without
    /// recipients, which no adapter makes.
    pub fn headline(&self) -> Option<&Verdict> {
        let rank = |class: Class| match class {
            Class::OutcomeUnknown => 0,
            class if !class.is_final() => 1,
            Class::Accepted => 2,
            _ => 3,
        };
        self.verdicts.iter().map(|(_, verdict)| verdict).min_by_key(|verdict| rank(verdict.class))
    }
}
