//! The gate before one provider: its breaker and its rotation under one lock, and the permit of a call under way.
//!
//! Owns what is published and logged of them. Limits of our own (rate, concurrency) are not its matter.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{
    admission::Wait,
    breaker::{Breaker, Ending, Epoch, Refusal},
    rotation::{self, PROBE_PATIENCE, Rotation, Told},
};
use crate::{
    config,
    delivery::{Class, Health, Outcome, ProviderName},
    health::{Board, Circuit, ProviderState, Reason, Waiting},
    message::Clock,
};

/// The longest time that a provider's word counts for. Whoever named a later one is asked once a day, so that one wrong
/// header does not keep it out for good.
const LONGEST_NAMED: Duration = Duration::from_secs(24 * 60 * 60);

/// A provider is thought well again, for the log line about failover, when it does well this long after the last
/// message that had to go on without it.
const FAILOVER_OVER: Duration = Duration::from_secs(60);

/// The gate before one provider. Clones share it.
#[derive(Clone)]
pub(super) struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    provider: ProviderName,
    settings: config::Provider,
    board: Board,
    clock: Clock,
    changes: watch::Sender<()>,
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    rotation: Rotation,
    shown: Shown,
    /// When a message last went on through another provider, in the present outage.
    failed_over: Option<Instant>,
}

/// What the board and the log know.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    circuit: Circuit,
    out: Option<Wait>,
}

impl Gate {
    /// An open gate: the provider is thought well until it shows otherwise.
    pub(super) fn new(provider: ProviderName, settings: config::Provider, board: Board, clock: Clock) -> Self {
        let shown = Shown { circuit: Circuit::Closed, out: None };
        board.publish(&provider, ProviderState::new(Circuit::Closed, None));
        let state = State {
            breaker: Breaker::new(settings.breaker.clone(), Instant::now()),
            rotation: Rotation::default(),
            shown,
            failed_over: None,
        };
        let changes = watch::Sender::new(());
        Self { shared: Arc::new(Shared { provider, settings, board, clock, changes, state: Mutex::new(state) }) }
    }

    /// Whether a call for that sender domain would pass now; without a domain, for one that is set up.
    pub(super) fn admits(&self, domain: Option<&str>) -> Result<(), Wait> {
        self.shared.lock().admits(domain, Instant::now())
    }

    /// How many more calls pass before one has ended; `None` if that is not bounded.
    pub(super) fn probe_room(&self) -> Option<u32> {
        let state = self.shared.lock();
        [state.breaker.probe_room(), state.rotation.probe_room()].into_iter().flatten().min()
    }

    /// Lets a call pass.
    pub(super) fn begin(&self, domain: &str) -> Result<Permit, Wait> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        state.admits(Some(domain), now)?;
        let breaker = state.breaker.begin(now).map_err(|refusal| wait_of(refusal, now))?;
        let rotation = state.rotation.begin(domain);
        self.shared.show(state, now);
        let domain = domain.to_owned();
        Ok(Permit { gate: self.clone(), domain, breaker: Some(breaker), rotation: Some(rotation) })
    }

    /// Sees each change, so that who waits for a limit does not wait behind a gate that has closed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    /// Takes notice that a message went on through another provider; whether it was the first since this one did well.
    pub(super) fn note_failover(&self) -> bool {
        self.shared.lock().failed_over.replace(Instant::now()).is_none()
    }
}

impl State {
    fn admits(&self, domain: Option<&str>, now: Instant) -> Result<(), Wait> {
        let circuit = self.breaker.admits(now).map_err(|refusal| wait_of(refusal, now));
        match (circuit, self.rotation.admits(domain, now)) {
            (Err(circuit), Err(rotation)) if circuit.until >= rotation.until => Err(circuit),
            (Err(circuit), Ok(())) => Err(circuit),
            (_, rotation) => rotation,
        }
    }

    /// An outage in which no circuit opened is over when the provider has done well for a while.
    fn forget_failover(&mut self, ending: Ending, now: Instant) {
        let is_over = |last: Instant| now.saturating_duration_since(last) >= FAILOVER_OVER;
        if ending == Ending::Success && self.failed_over.is_some_and(is_over) {
            self.failed_over = None;
        }
    }

    fn shown(&self, now: Instant) -> Shown {
        let open = match self.breaker.admits(now) {
            Err(Refusal::OpenUntil(until)) => Some(Wait { reason: Reason::CircuitOpen, until }),
            Err(Refusal::ProbesUnderWay) | Ok(()) => None,
        };
        let out = self.rotation.out(now).into_iter().chain(open).max_by_key(|wait| wait.until);
        Shown { circuit: self.breaker.circuit(now), out }
    }
}

impl Shared {
    /// Nothing panics under this lock; if something did, its state would still be whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes and logs what has changed. Under the lock, so that the board gets changes in their order.
    fn show(&self, mut state: MutexGuard<'_, State>, now: Instant) {
        let shown = state.shown(now);
        if shown == state.shown {
            return;
        }
        let before = std::mem::replace(&mut state.shown, shown.clone());
        if shown.circuit == Circuit::Closed && shown.out.is_none() {
            state.failed_over = None;
        }
        let waiting = shown.out.as_ref().map(|wait| Waiting {
            reason: wait.reason.clone(),
            until: self.clock.now() + wait.until.saturating_duration_since(now),
        });
        self.board.publish(&self.provider, ProviderState::new(shown.circuit, waiting));
        drop(state);
        self.changes.send_replace(());
        self.log(&before, &shown, now);
    }

    fn log(&self, before: &Shown, after: &Shown, now: Instant) {
        let provider = self.provider.as_str();
        let left_out = |wait: &Wait| u64::try_from(wait.until.saturating_duration_since(now).as_millis()).ok();
        let for_ms = after.out.as_ref().and_then(left_out);
        let was_out = before.out.as_ref().is_some_and(|wait| wait.reason != Reason::CircuitOpen);
        match (after.circuit, &after.out) {
            (Circuit::Open, _) if before.circuit != Circuit::Open => tracing::warn!(provider, for_ms, "circuit opened"),
            (Circuit::HalfOpen, _) if before.circuit != Circuit::HalfOpen => {
                tracing::info!(provider, "circuit is half-open");
            }
            (Circuit::Closed, _) if before.circuit != Circuit::Closed => tracing::info!(provider, "circuit closed"),
            (_, Some(wait)) => tracing::warn!(provider, reason = %wait.reason, for_ms, "provider left out"),
            (_, None) if was_out => tracing::info!(provider, "provider back in rotation"),
            (_, None) => {}
        }
    }
}

/// The right to one call. Dropped without an outcome (the call was called off) it says nothing of the provider.
pub(super) struct Permit {
    gate: Gate,
    domain: String,
    breaker: Option<Epoch>,
    rotation: Option<rotation::Admitted>,
}

impl Permit {
    /// After how long a call is slow.
    pub(super) fn slow_after(&self) -> Duration {
        self.gate.shared.settings.breaker.slow_call
    }

    /// Tells that the call is slow, which counts as a failure however it will end. It is told while the call is under
    /// way: a provider gone silent need not be waited for to the last timeout before others are spared it.
    pub(super) fn is_slow(&mut self) {
        self.tell(Ending::Failure { retry_after: None }, None);
    }

    /// Spends the permit: tells what the outcome says of the provider.
    pub(super) fn end(mut self, outcome: &Outcome) {
        let told = told_by(outcome, &self.gate.shared.settings);
        if told == Told::DomainMisconfigured {
            let provider = self.gate.shared.provider.as_str();
            tracing::warn!(provider, domain = self.domain, "provider left out for a sender domain: misconfigured");
        }
        self.tell(ending_of(outcome.health), Some(told));
    }

    /// The breaker is told once; the rotation when there is something to tell it.
    fn tell(&mut self, ending: Ending, told: Option<Told>) {
        let now = Instant::now();
        let shared = &self.gate.shared;
        let mut state = shared.lock();
        if let Some(epoch) = self.breaker.take() {
            state.forget_failover(ending, now);
            state.breaker.end(epoch, ending, now);
        }
        if let Some(told) = told
            && let Some(rotation) = self.rotation.take()
        {
            state.rotation.end(rotation, &self.domain, told, shared.settings.account_rest, now);
        }
        shared.show(state, now);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.rotation.is_some() {
            self.tell(Ending::Neutral, Some(Told::Nothing));
        }
    }
}

fn wait_of(refusal: Refusal, now: Instant) -> Wait {
    match refusal {
        Refusal::OpenUntil(until) => Wait { reason: Reason::CircuitOpen, until },
        Refusal::ProbesUnderWay => Wait { reason: Reason::BeingProbed, until: now + PROBE_PATIENCE },
    }
}

/// What an outcome's health means to the breaker. The verdicts mean nothing to it: one bad recipient says nothing of
/// the provider.
fn ending_of(health: Health) -> Ending {
    match health {
        Health::Healthy => Ending::Success,
        Health::Failing { retry_after } => Ending::Failure { retry_after: named(retry_after) },
        Health::Resting { .. } | Health::Misconfigured | Health::MisconfiguredForSenderDomain | Health::Neutral => {
            Ending::Neutral
        }
    }
}

/// What an outcome means to the rotation. A failing provider that names a time is left alone until then even if its
/// circuit stays closed.
fn told_by(outcome: &Outcome, settings: &config::Provider) -> Told {
    match outcome.health {
        Health::Healthy => Told::SetUp,
        Health::Failing { retry_after } => {
            named(retry_after).map_or(Told::Nothing, |rest| Told::Rest(Reason::AskedToWait, rest))
        }
        Health::Resting { retry_after } => {
            let is_quota = outcome.verdicts.iter().any(|(_, verdict)| verdict.class == Class::QuotaUsedUp);
            let (reason, usual) = match is_quota {
                true => (Reason::QuotaUsedUp, settings.account_rest),
                false => (Reason::Throttled, settings.throttle_rest),
            };
            Told::Rest(reason, named(retry_after).unwrap_or(usual))
        }
        Health::Misconfigured => Told::AccountMisconfigured,
        Health::MisconfiguredForSenderDomain => Told::DomainMisconfigured,
        Health::Neutral => Told::Nothing,
    }
}

/// The time that a provider named, if it is one: "after 0 seconds" names none.
fn named(retry_after: Option<Duration>) -> Option<Duration> {
    retry_after.filter(|pause| !pause.is_zero()).map(|pause| pause.min(LONGEST_NAMED))
}
