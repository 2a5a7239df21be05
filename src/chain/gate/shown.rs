//! What the board and the log know of a gate.
//!
//! Owns the words of the log; decides nothing.

use tokio::time::Instant;

use crate::{
    chain::admission::Wait,
    delivery::ProviderName,
    health::{Circuit, Mode, ProviderState, Reason, Waiting},
    message::Clock,
};

/// What the board and the log know.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) circuit: Circuit,
    pub(super) out: Option<Wait>,
    /// Whether our account is not set up, be it that it is being tried again.
    pub(super) is_misconfigured: bool,
    pub(super) mode: Mode,
}

impl Shown {
    /// A provider that is thought well.
    pub(super) fn new() -> Self {
        Self { circuit: Circuit::Closed, out: None, is_misconfigured: false, mode: Mode::On }
    }

    pub(super) fn is_well(&self) -> bool {
        self.circuit == Circuit::Closed && self.out.is_none() && !self.is_misconfigured
    }

    /// The same for the board.
    pub(super) fn published(&self, clock: &Clock, now: Instant) -> ProviderState {
        let waiting = self.out.as_ref().map(|wait| Waiting {
            reason: wait.reason.clone(),
            until: clock.now() + wait.until.saturating_duration_since(now),
        });
        ProviderState::new(self.circuit, waiting).in_mode(self.mode)
    }

    /// Why it rests, if it does so by its own word.
    fn rests(&self) -> Option<&Wait> {
        let by_its_word = |reason: &Reason| !matches!(reason, Reason::CircuitOpen | Reason::Misconfigured);
        self.out.as_ref().filter(|wait| by_its_word(&wait.reason))
    }

    fn is_out(&self) -> bool {
        self.is_misconfigured || self.rests().is_some()
    }
}

/// Says once what has changed. That an account is not set up ends by a person's doing alone, so it is an error, and that
/// it still is not is not said again.
pub(super) fn log(provider: &ProviderName, before: &Shown, after: &Shown, now: Instant) {
    let provider = provider.as_str();
    let left_out = |wait: &Wait| u64::try_from(wait.until.saturating_duration_since(now).as_millis()).ok();
    let for_ms = after.out.as_ref().and_then(left_out);
    if before.mode != after.mode {
        tracing::info!(provider, mode = after.mode.as_str(), "provider is in another mode");
    }
    if before.circuit != after.circuit {
        match after.circuit {
            Circuit::Open => tracing::warn!(provider, for_ms, "circuit opened"),
            Circuit::HalfOpen => tracing::info!(provider, "circuit is half-open"),
            Circuit::Closed => tracing::info!(provider, "circuit closed"),
        }
    }
    if after.is_misconfigured && !before.is_misconfigured {
        tracing::error!(provider, reason = %Reason::Misconfigured, for_ms, "provider left out");
    }
    match after.rests() {
        Some(wait) if before.rests() != Some(wait) => {
            tracing::warn!(provider, reason = %wait.reason, for_ms, "provider left out");
        }
        None if before.is_out() && !after.is_out() => tracing::info!(provider, "provider back in rotation"),
        _ => {}
    }
}
