//! The right to one call, and what becomes of it.
//!
//! Owns that the gate hears of each call once, however it ends.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Gate, Shared,
    told::{ending_of, told_by},
};
use crate::{
    chain::{
        breaker::{Call, Ending},
        rotation::{Admitted, Told},
    },
    delivery::Outcome,
};

/// The right to one call. Dropped without an outcome (the call was called off) it says nothing of the provider.
pub(in crate::chain) struct Permit {
    gate: Gate,
    domain: String,
    breaker: Option<Call>,
    rotation: Option<Admitted>,
}

impl Permit {
    pub(super) fn new(gate: Gate, domain: String, breaker: Call, rotation: Admitted) -> Self {
        Self { gate, domain, breaker: Some(breaker), rotation: Some(rotation) }
    }

    /// After how long a call is slow.
    pub(in crate::chain) fn slow_after(&self) -> Duration {
        self.gate.shared.settings.breaker.slow_call
    }

    /// Tells that the call is slow, which counts as a failure however it will end. It is told while the call is under
    /// way: a provider gone silent need not be waited for to the last timeout before others are spared it.
    pub(in crate::chain) fn is_slow(&mut self) {
        self.tell(Ending::Failure { retry_after: None }, None);
    }

    /// Spends the permit: tells what the outcome says of the provider.
    pub(in crate::chain) fn end(mut self, outcome: &Outcome) {
        let Shared { settings, around, .. } = &*self.gate.shared;
        let told = told_by(outcome, settings, around.dice);
        self.tell(ending_of(outcome.health), Some(told));
    }

    /// The breaker is told once; the rotation when there is something to tell it.
    fn tell(&mut self, ending: Ending, told: Option<Told>) {
        let now = Instant::now();
        let Self { gate, domain, breaker, rotation } = self;
        let out_for = gate.shared.settings.account_rest;
        let domain_is_out = gate.shared.change(now, |state| {
            if let Some(call) = breaker.take() {
                state.forget_failover(ending, now);
                state.breaker.end(call, ending, now);
            }
            let Some((told, admitted)) = told.and_then(|told| Some((told, rotation.take()?))) else { return false };
            state.rotation.end(admitted, domain, told, out_for, now)
        });
        if domain_is_out {
            let provider = gate.shared.provider.as_str();
            tracing::error!(provider, domain, "provider left out for a sender domain: misconfigured");
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.rotation.is_some() {
            self.tell(Ending::Neutral, Some(Told::Nothing));
        }
    }
}
