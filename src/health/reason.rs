//! Why a provider is not asked, in the words of which there is one set everywhere.
//!
//! Owns the words; when one of them applies is decided in the chain.

use std::fmt;

use crate::delivery::ProviderName;

/// Why a provider is not asked. `Display` says it without the provider's name: "circuit is open".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too many of its last calls failed.
    CircuitOpen,
    /// Its circuit is half-open, or it was misconfigured, and the calls that try it out are under way.
    BeingProbed,
    /// It named a time before which it does not want to be asked.
    AskedToWait,
    /// It throttled us.
    Throttled,
    /// Our account's quota is used up.
    QuotaUsedUp,
    /// Our account at it is not set up.
    Misconfigured,
    /// That sender domain is not set up at it.
    MisconfiguredForSenderDomain(String),
    /// An operator turned it off.
    TurnedOff,
    /// An operator wants it to be given nothing new.
    Draining,
    /// As many messages as the settings allow are with it already.
    ConcurrencyLimit,
    /// As many messages a second as the settings allow are handed to it already.
    RateLimit,
}

impl Reason {
    /// Whether it is a limit of our own settings, which says nothing of the provider.
    pub fn is_our_limit(&self) -> bool {
        matches!(self, Reason::ConcurrencyLimit | Reason::RateLimit)
    }

    /// The reason as a clause about a provider: "circuit of provider primary is open".
    pub fn of(&self, provider: &ProviderName) -> String {
        match self {
            Reason::CircuitOpen => format!("circuit of provider {provider} is open"),
            Reason::QuotaUsedUp => format!("quota of provider {provider} is used up"),
            Reason::ConcurrencyLimit | Reason::RateLimit => format!("{self} of provider {provider} is reached"),
            reason => format!("provider {provider} is {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::CircuitOpen => "circuit is open",
            Reason::BeingProbed => "being probed",
            Reason::AskedToWait => "resting as it asked",
            Reason::Throttled => "resting after throttling",
            Reason::QuotaUsedUp => "quota used up",
            Reason::Misconfigured => "misconfigured",
            Reason::MisconfiguredForSenderDomain(domain) => {
                return write!(f, "misconfigured for sender domain {domain}");
            }
            Reason::TurnedOff => "turned off by an operator",
            Reason::Draining => "being drained for an operator",
            Reason::ConcurrencyLimit => "concurrency limit",
            Reason::RateLimit => "rate limit",
        })
    }
}
