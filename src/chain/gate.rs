//! The gate before one provider: its breaker, its rotation and its mode under one lock.
//!
//! Owns what is published, logged and told to other processes of them. Limits of our own (rate, concurrency) are not its
//! matter.

mod permit;
mod shown;
mod told;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

pub(super) use self::permit::Permit;
use self::shown::Shown;
use super::{
    admission::{Applicant, Wait},
    breaker::{Breaker, Ending, Epoch, Refusal},
    rotation::{PROBE_PATIENCE, Rotation},
};
use crate::{
    config,
    delivery::{Health, ProviderName},
    health::{Board, Findings, Known, Mode, Reason},
    message::Clock,
};

/// A provider is thought well again, for the log line about failover, when it does well this long after the last
/// message that had to go on without it.
const FAILOVER_OVER: Duration = Duration::from_secs(60);

/// When to ask again for a provider that an operator took out: nobody knows how long that lasts.
const MODE_PATIENCE: Duration = Duration::from_secs(30);

/// The gate before one provider. Clones share it.
#[derive(Clone)]
pub(super) struct Gate {
    shared: Arc<Shared>,
}

/// What all gates of a process share.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// Where states are published.
    pub(super) board: Board,
    /// The database's time.
    pub(super) clock: Clock,
    /// Rung when there is something to tell other processes.
    pub(super) found: Arc<Notify>,
    /// Where in the crowd of processes this one comes back after a rest, from 0 to 1.
    pub(super) dice: f64,
}

struct Shared {
    provider: ProviderName,
    settings: config::Provider,
    around: Surroundings,
    changes: watch::Sender<()>,
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    rotation: Rotation,
    mode: Mode,
    shown: Shown,
    /// When a message last went on through another provider, in the present outage.
    failed_over: Option<Instant>,
    /// What others are to be told.
    findings: Findings<Instant>,
    /// What was known when it was last looked for findings, and how far breaker and rotation had come.
    noted: Known<Instant>,
    stamp: (Epoch, u64),
    /// The version of what was last heard from others.
    version: i64,
}

impl Gate {
    /// An open gate: the provider is thought well until it shows otherwise.
    pub(super) fn new(provider: ProviderName, settings: config::Provider, around: Surroundings) -> Self {
        let now = Instant::now();
        let shown = Shown::new();
        around.board.publish(&provider, shown.published(&around.clock, now));
        let (breaker, rotation) = (Breaker::new(settings.breaker.clone(), now), Rotation::default());
        let stamp = (breaker.epoch(), rotation.revision());
        let state = State {
            breaker,
            rotation,
            mode: Mode::On,
            shown,
            failed_over: None,
            findings: Findings::default(),
            noted: Known::default(),
            stamp,
            version: 0,
        };
        let changes = watch::Sender::new(());
        Self { shared: Arc::new(Shared { provider, settings, around, changes, state: Mutex::new(state) }) }
    }

    /// Whether a call would pass now.
    pub(super) fn admits(&self, applicant: Applicant<'_>) -> Result<(), Wait> {
        self.shared.lock().admits(applicant, Instant::now())
    }

    /// How many more calls pass before one has ended; `None` if that is not bounded.
    pub(super) fn room(&self) -> Option<u32> {
        let state = self.shared.lock();
        [state.trial_room(), state.rotation.ramp_room()].into_iter().flatten().min()
    }

    /// The same where these calls are a trial, to find out whether the provider is well again; `None` where they are not.
    pub(super) fn trial_room(&self) -> Option<u32> {
        self.shared.lock().trial_room()
    }

    /// Lets a call pass. While the provider is only tried out, what matters less goes first: so many of that are about to
    /// come.
    pub(super) fn begin(&self, applicant: Applicant<'_>, matter_less: usize) -> Result<Permit, Wait> {
        let now = Instant::now();
        let domain = applicant.domain.unwrap_or_default();
        let (breaker, rotation) = self.shared.change(now, |state| {
            state.admits(applicant, now)?;
            if state.trial_room().is_some_and(|room| matter_less >= room as usize) {
                return Err(Wait { reason: Reason::BeingProbed, until: now + PROBE_PATIENCE });
            }
            let breaker = state.breaker.begin(now).map_err(|refusal| wait_of(refusal, now))?;
            Ok((breaker, state.rotation.begin(domain)))
        })?;
        Ok(Permit::new(self.clone(), domain.to_owned(), breaker, rotation))
    }

    /// Sees each change, so that who waits for a limit does not wait behind a gate that has closed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    /// Takes notice that a message went on through another provider; whether it was the first since this one did well.
    pub(super) fn note_failover(&self) -> bool {
        self.shared.lock().failed_over.replace(Instant::now()).is_none()
    }

    /// Whether our account is not set up, and it may be asked without a message whether it is again.
    pub(super) fn may_be_probed(&self) -> bool {
        self.shared.lock().rotation.may_be_probed()
    }

    /// Takes notice of what it answered to that.
    pub(super) fn probed(&self, health: Health) {
        let is_set_up = match health {
            Health::Healthy | Health::MisconfiguredForSenderDomain => true,
            Health::Misconfigured => false,
            Health::Failing { .. } | Health::Resting { .. } | Health::Neutral => return,
        };
        let now = Instant::now();
        let out_for = self.shared.settings.account_rest;
        self.shared.change(now, |state| state.rotation.probed(is_set_up, out_for, now));
    }

    /// What was found out since this was last asked, to be told to others.
    pub(super) fn take_findings(&self) -> Findings<Instant> {
        std::mem::take(&mut self.shared.lock().findings)
    }

    /// They could not be told.
    pub(super) fn put_back(&self, mut findings: Findings<Instant>) {
        let mut state = self.shared.lock();
        findings.extend(std::mem::take(&mut state.findings));
        state.findings = findings;
    }

    /// Takes notice of what others know and of what an operator wants, unless something newer was heard before.
    pub(super) fn learn(&self, mut theirs: Known<Instant>, mode: Mode, version: i64) {
        let now = Instant::now();
        let mut state = self.shared.lock();
        if version <= state.version {
            return;
        }
        // They do not know yet.
        theirs.take_in(&state.findings);
        let lasts = theirs.rest.as_ref().map_or(Duration::ZERO, |rest| rest.until.saturating_duration_since(now));
        let spread = told::spread(lasts, self.shared.around.dice);
        state.version = version;
        state.mode = mode;
        state.breaker.learn(theirs.circuit, now);
        state.rotation.learn(theirs, spread, now);
        state.noted = state.known();
        state.stamp = state.stamp();
        self.shared.show(state, now);
    }
}

impl State {
    fn admits(&self, applicant: Applicant<'_>, now: Instant) -> Result<(), Wait> {
        let until = now + MODE_PATIENCE;
        match self.mode {
            Mode::Off => return Err(Wait { reason: Reason::TurnedOff, until }),
            Mode::Drain if !applicant.is_back => return Err(Wait { reason: Reason::Draining, until }),
            Mode::On | Mode::Drain => {}
        }
        let circuit = self.breaker.admits(now).map_err(|refusal| wait_of(refusal, now));
        match (circuit, self.rotation.admits(applicant.domain, now)) {
            (Err(circuit), Err(rotation)) if circuit.until >= rotation.until => Err(circuit),
            (Err(circuit), Ok(())) => Err(circuit),
            (_, rotation) => rotation,
        }
    }

    fn trial_room(&self) -> Option<u32> {
        [self.breaker.probe_room(), self.rotation.probe_room()].into_iter().flatten().min()
    }

    fn known(&self) -> Known<Instant> {
        Known { circuit: self.breaker.known(), ..self.rotation.known() }
    }

    fn stamp(&self) -> (Epoch, u64) {
        (self.breaker.epoch(), self.rotation.revision())
    }

    /// Looks what others should be told; whether there is something.
    fn note_findings(&mut self) -> bool {
        if self.stamp == self.stamp() {
            return false;
        }
        self.stamp = self.stamp();
        let known = self.known();
        let found = Findings::between(&self.noted, &known);
        self.noted = known;
        let is_something = !found.is_empty();
        self.findings.extend(found);
        is_something
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
        Shown {
            circuit: self.breaker.circuit(now),
            out: self.rotation.out(now).into_iter().chain(open).max_by_key(|wait| wait.until),
            is_misconfigured: self.rotation.is_misconfigured(),
            mode: self.mode,
        }
    }
}

impl Shared {
    /// Nothing panics under this lock; if something did, its state would still be whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state by what was found out here.
    fn change<T>(&self, now: Instant, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let answer = change(&mut state);
        if state.note_findings() {
            self.around.found.notify_one();
        }
        self.show(state, now);
        answer
    }

    /// Publishes and logs what has changed. Under the lock, so that the board gets changes in their order.
    fn show(&self, mut state: MutexGuard<'_, State>, now: Instant) {
        let shown = state.shown(now);
        if shown == state.shown {
            return;
        }
        let before = std::mem::replace(&mut state.shown, shown.clone());
        if shown.is_well() {
            state.failed_over = None;
        }
        self.around.board.publish(&self.provider, shown.published(&self.around.clock, now));
        drop(state);
        self.changes.send_replace(());
        shown::log(&self.provider, &before, &shown, now);
    }
}

fn wait_of(refusal: Refusal, now: Instant) -> Wait {
    match refusal {
        Refusal::OpenUntil(until) => Wait { reason: Reason::CircuitOpen, until },
        Refusal::ProbesUnderWay => Wait { reason: Reason::BeingProbed, until: now + PROBE_PATIENCE },
    }
}
