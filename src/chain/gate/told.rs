//! What an outcome says of the provider: to the breaker, and to the rotation.
//!
//! Owns the translation alone. The verdicts mean nothing here: one bad recipient says nothing of the provider.

use std::time::Duration;

use crate::{
    chain::{breaker::Ending, rotation::Told},
    config,
    delivery::{Class, Health, Outcome},
    health::Reason,
};

/// The longest time that a provider's word counts for. Whoever named a later one is asked once a day, so that one wrong
/// header does not keep it out for good.
const LONGEST_NAMED: Duration = Duration::from_secs(24 * 60 * 60);

/// How much longer than its rest a provider is left alone at most, as a part of the rest and in all.
const SPREAD: f64 = 0.1;
const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// What an outcome's health means to the breaker.
pub(super) fn ending_of(health: Health) -> Ending {
    match health {
        Health::Healthy => Ending::Success,
        Health::Failing { retry_after } => Ending::Failure { retry_after: named(retry_after) },
        // That the provider has no capacity for us, or that we are not set up, is no failure of the provider.
        Health::Resting { .. } | Health::Misconfigured | Health::MisconfiguredForSenderDomain | Health::Neutral => {
            Ending::Neutral
        }
    }
}

/// What an outcome means to the rotation. A failing provider that names a time is left alone until then even if its
/// circuit stays closed. `dice`, from 0 to 1, says how long after its rest.
pub(super) fn told_by(outcome: &Outcome, settings: &config::Provider, dice: f64) -> Told {
    let rest = |reason, lasts| Told::Rest { reason, lasts, spread: spread(lasts, dice) };
    match outcome.health {
        Health::Healthy => Told::SetUp,
        Health::Failing { retry_after } => {
            named(retry_after).map_or(Told::Nothing, |lasts| rest(Reason::AskedToWait, lasts))
        }
        Health::Resting { retry_after } => {
            let is_quota = outcome.verdicts.iter().any(|(_, verdict)| verdict.class == Class::QuotaUsedUp);
            let (reason, usual) = match is_quota {
                true => (Reason::QuotaUsedUp, settings.account_rest),
                false => (Reason::Throttled, settings.throttle_rest),
            };
            rest(reason, named(retry_after).unwrap_or(usual))
        }
        Health::Misconfigured => Told::AccountMisconfigured,
        Health::MisconfiguredForSenderDomain => Told::DomainMisconfigured,
        Health::Neutral => Told::Nothing,
    }
}

/// How much longer than its rest a provider is left alone: never less than it said, and not by all processes the same.
pub(super) fn spread(lasts: Duration, dice: f64) -> Duration {
    lasts.mul_f64(SPREAD * dice.clamp(0.0, 1.0)).min(LONGEST_SPREAD)
}

/// The time that a provider named, if it is one: "after 0 seconds" names none.
fn named(retry_after: Option<Duration>) -> Option<Duration> {
    retry_after.filter(|pause| !pause.is_zero()).map(|pause| pause.min(LONGEST_NAMED))
}
