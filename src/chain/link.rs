//! A provider with everything that stands round it, built once and shared by every chain that names it.
//!
//! Owns no order among providers: that is the chain's.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use time::OffsetDateTime;
use tokio::{sync::Notify, time::Instant};
use tower::ServiceExt;

use super::{
    admission::{Admission, Applicant, Permits},
    gate::{Gate, Surroundings},
    layers::{self, Call, Stack},
};
use crate::{
    config::{self, WhenBusy},
    delivery::{Attempt, Outcome, ProviderName, Skip},
    health::{Board, Share},
    message::Clock,
    provider::{Capabilities, Provider, Submission},
};

/// Every provider with its admission and its layers, by name.
///
/// A provider that stands in several chains is one provider: its circuit, its rest and its limits are the same there.
#[derive(Clone)]
pub struct Links {
    pub(super) links: BTreeMap<ProviderName, Arc<Link>>,
    pub(super) board: Board,
    pub(super) clock: Clock,
    /// Rung when there is something to tell other processes.
    pub(super) found: Arc<Notify>,
}

impl Links {
    /// Puts admission and layers round each provider.
    pub fn new(
        providers: impl IntoIterator<Item = (Arc<dyn Provider>, config::Provider)>,
        board: &Board,
        clock: &Clock,
    ) -> Self {
        Self::with_dice(providers, board, clock, rand::random())
    }

    /// The same in a process that comes back after a rest at that place in the crowd, from 0 to 1.
    pub(super) fn with_dice(
        providers: impl IntoIterator<Item = (Arc<dyn Provider>, config::Provider)>,
        board: &Board,
        clock: &Clock,
        dice: f64,
    ) -> Self {
        let found = Arc::new(Notify::new());
        let around = Surroundings { board: board.clone(), clock: clock.clone(), found: found.clone(), dice };
        let links = providers
            .into_iter()
            .map(|(provider, settings)| {
                let link = Link::new(provider, settings, around.clone());
                (link.name().clone(), Arc::new(link))
            })
            .collect();
        Self { links, board: board.clone(), clock: clock.clone(), found }
    }

    pub(super) fn get(&self, name: &ProviderName) -> Option<Arc<Link>> {
        self.links.get(name).cloned()
    }
}

/// One provider with its admission and its layers.
pub(super) struct Link {
    provider: Arc<dyn Provider>,
    admission: Admission,
    when_busy: WhenBusy,
    stack: Stack,
    clock: Clock,
    /// Whether this process does what one does for all that share the account.
    is_first: AtomicBool,
    /// How often it was asked.
    calls: AtomicU64,
    account_rest: Duration,
}

impl Link {
    fn new(provider: Arc<dyn Provider>, settings: config::Provider, around: Surroundings) -> Self {
        let (clock, account_rest) = (around.clock.clone(), settings.account_rest);
        let gate = Gate::new(provider.name().clone(), settings.clone(), around);
        let admission = Admission::new(gate, &settings);
        let when_busy = settings.when_busy;
        let stack = layers::stack(provider.clone());
        let (is_first, calls) = (AtomicBool::new(true), AtomicU64::new(0));
        Self { provider, admission, when_busy, stack, clock, is_first, calls, account_rest }
    }

    pub(super) fn name(&self) -> &ProviderName {
        self.provider.name()
    }

    pub(super) fn capabilities(&self) -> &Capabilities {
        self.provider.capabilities()
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    pub(super) fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// Keeps from now on to that share of the account.
    pub(super) fn keep_to(&self, share: Share) {
        self.admission.keep_to(share);
        self.is_first.store(share.is_first(), Ordering::Relaxed);
    }

    /// Whether this process does what one does for all that share the account.
    pub(super) fn is_first(&self) -> bool {
        self.is_first.load(Ordering::Relaxed)
    }

    /// How long it is left out when the account is not set up.
    pub(super) fn account_rest(&self) -> Duration {
        self.account_rest
    }

    /// How often it was asked.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn when_busy(&self) -> WhenBusy {
        self.when_busy
    }

    /// Whether it can be asked now, for a sender domain that is set up at it.
    pub(super) fn is_ready(&self) -> bool {
        self.admission.gate().admits(Applicant::NEW).is_ok()
    }

    /// Until when it cannot be asked, for a sender domain that is set up at it; `None` if it can.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.admission.gate().admits(Applicant::NEW).err().map(|wait| wait.until)
    }

    /// Asks the provider, after those that were considered before it and passed over.
    pub(super) async fn attempt(&self, permits: Permits, submission: Submission, skipped: Vec<Skip>) -> Attempt {
        let started_at = self.clock.now();
        let began = Instant::now();
        self.calls.fetch_add(1, Ordering::Relaxed);
        let call = Call::new(permits, submission, skipped.clone());
        let Ok(outcome): Result<Outcome, _> = self.stack.clone().oneshot(call).await;
        Attempt {
            provider: self.name().clone(),
            started_at,
            duration: began.elapsed(),
            recognises_key_for: self.capabilities().idempotency,
            outcome,
            skipped,
        }
    }

    /// When it can be asked for such a message; `None` if now.
    pub(super) fn ready_at(&self, applicant: Applicant<'_>) -> Option<OffsetDateTime> {
        self.admission.gate().admits(applicant).err().map(|wait| self.time_of(wait.until))
    }

    /// A moment of this process as a time of the database.
    pub(super) fn time_of(&self, moment: Instant) -> OffsetDateTime {
        self.clock.now() + moment.saturating_duration_since(Instant::now())
    }
}
