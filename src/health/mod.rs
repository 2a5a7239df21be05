//! A snapshot of every provider's state, for those who ask: what a message waits for, who is in rotation; and what
//! processes tell each other of it.
//!
//! Owns no decision: the chain publishes here when a state changes, and readers never block it. What ends by itself
//! with time is not published again, so every reader says what time it is.

mod known;
mod reason;
mod share;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::delivery::ProviderName;

pub use known::{Findings, Known, Mode, Opened, Rest, SharedState};
pub use reason::Reason;
pub use share::Share;

/// A circuit breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// A bounded number of calls passes, to see whether it is well again.
    HalfOpen,
}

impl Circuit {
    /// The word used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Circuit::Closed => "closed",
            Circuit::Open => "open",
            Circuit::HalfOpen => "half-open",
        }
    }
}

/// Why a provider is not asked, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why.
    pub reason: Reason,
    /// Until when.
    pub until: OffsetDateTime,
}

/// What is known of one provider, as it was when it last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    circuit: Circuit,
    waiting: Option<Waiting>,
    mode: Mode,
}

impl ProviderState {
    /// The state at a change.
    pub fn new(circuit: Circuit, waiting: Option<Waiting>) -> Self {
        Self { circuit, waiting, mode: Mode::On }
    }

    /// The same of a provider that an operator wants so.
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Its circuit breaker. One whose time has passed is half-open, whether or not somebody has called since.
    pub fn circuit(&self, now: OffsetDateTime) -> Circuit {
        match (self.circuit, self.waiting(now)) {
            (Circuit::Open, None) => Circuit::HalfOpen,
            (circuit, _) => circuit,
        }
    }

    /// Why it is not asked; `None` if it is.
    pub fn waiting(&self, now: OffsetDateTime) -> Option<&Waiting> {
        self.waiting.as_ref().filter(|waiting| waiting.until > now)
    }

    /// What an operator wants of it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why nothing new is offered to it, as a clause; `None` if it is.
    fn keeps_out(&self, provider: &ProviderName, now: OffsetDateTime) -> Option<String> {
        match self.mode {
            Mode::Off => Some(Reason::TurnedOff.of(provider)),
            Mode::Drain => Some(Reason::Draining.of(provider)),
            Mode::On => self
                .waiting(now)
                .map(|waiting| format!("{} until {}", waiting.reason.of(provider), to_the_second(waiting.until))),
        }
    }
}

/// Every provider's state, shared by those who publish and those who read.
#[derive(Clone, Debug, Default)]
pub struct Board {
    states: Arc<RwLock<BTreeMap<ProviderName, ProviderState>>>,
    chains: Arc<RwLock<BTreeMap<String, Vec<ProviderName>>>>,
}

impl Board {
    /// Says which providers a chain has, in their order.
    pub fn set_chain(&self, chain: &str, providers: Vec<ProviderName>) {
        self.chains.write().unwrap_or_else(PoisonError::into_inner).insert(chain.to_owned(), providers);
    }

    /// Publishes the state of a provider.
    pub fn publish(&self, provider: &ProviderName, state: ProviderState) {
        self.states.write().unwrap_or_else(PoisonError::into_inner).insert(provider.clone(), state);
    }

    /// The state of a provider.
    pub fn provider(&self, provider: &ProviderName) -> Option<ProviderState> {
        self.states.read().unwrap_or_else(PoisonError::into_inner).get(provider).cloned()
    }

    /// The providers of a chain, in their order; `None` for a chain that this process does not have.
    pub fn providers_of(&self, chain: &str) -> Option<Vec<ProviderName>> {
        self.chains.read().unwrap_or_else(PoisonError::into_inner).get(chain).cloned()
    }

    /// What keeps a provider from being asked, in words; `None` if nothing does.
    pub fn held_up(&self, provider: &ProviderName, now: OffsetDateTime) -> Option<String> {
        self.provider(provider)?.keeps_out(provider, now)
    }

    /// What a message of that chain waits for, in words; `None` if a provider of the chain would take it now.
    pub fn waiting_for(&self, chain: &str, now: OffsetDateTime) -> Option<String> {
        let providers = self.providers_of(chain)?;
        let reasons: Vec<String> =
            providers.iter().map(|provider| self.held_up(provider, now)).collect::<Option<_>>()?;
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// A time as RFC 3339 in UTC, rounded up to the second: nobody who goes by it looks too early.
pub fn to_the_second(time: OffsetDateTime) -> String {
    let up = (time + Duration::nanoseconds(999_999_999)).to_utc().truncate_to_second();
    up.format(&Rfc3339).unwrap_or_else(|_| up.to_string())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    fn board(states: [ProviderState; 2]) -> Board {
        let board = Board::default();
        let names = ["primary", "backup"].map(ProviderName::new);
        board.set_chain("default", names.to_vec());
        for (name, state) in names.iter().zip(states) {
            board.publish(name, state);
        }
        board
    }

    fn waiting(circuit: Circuit, reason: Reason, until: OffsetDateTime) -> ProviderState {
        ProviderState::new(circuit, Some(Waiting { reason, until }))
    }

    #[test]
    fn a_message_waits_only_while_every_provider_of_its_chain_does() {
        let open = waiting(Circuit::Open, Reason::CircuitOpen, NOW + Duration::milliseconds(4_300));
        let well = ProviderState::new(Circuit::Closed, None);
        assert_eq!(board([open.clone(), well]).waiting_for("default", NOW), None);

        let resting = waiting(Circuit::Closed, Reason::Throttled, NOW + Duration::days(1));
        assert_eq!(
            board([open, resting]).waiting_for("default", NOW).as_deref(),
            Some(
                "circuit of provider primary is open until 2026-12-01T12:00:05Z; \
                 provider backup is resting after throttling until 2026-12-02T12:00:00Z"
            )
        );
    }

    #[test]
    fn what_has_ended_by_itself_is_not_waited_for() {
        let open = waiting(Circuit::Open, Reason::CircuitOpen, NOW);
        let later = waiting(Circuit::Closed, Reason::QuotaUsedUp, NOW + Duration::HOUR);
        assert_eq!(open.circuit(NOW - Duration::SECOND), Circuit::Open);
        assert_eq!(open.circuit(NOW), Circuit::HalfOpen);
        assert_eq!(board([open, later]).waiting_for("default", NOW), None);
    }

    #[test]
    fn what_an_operator_took_out_is_waited_for_without_a_time() {
        let [off, drained] =
            [Mode::Off, Mode::Drain].map(|mode| ProviderState::new(Circuit::Closed, None).in_mode(mode));
        assert_eq!(
            board([off, drained]).waiting_for("default", NOW).as_deref(),
            Some("provider primary is turned off by an operator; provider backup is being drained for an operator")
        );
    }

    #[test]
    fn an_unknown_chain_waits_for_nothing() {
        assert_eq!(Board::default().waiting_for("default", NOW), None);
    }
}
