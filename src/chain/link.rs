//! A provider with everything that stands round it, built once and shared by every chain that names it.
//!
//! Owns no order among providers: that is the chain's.

use std::{collections::BTreeMap, sync::Arc};

use time::OffsetDateTime;
use tokio::time::Instant;
use tower::ServiceExt;

use super::{
    admission::{Admission, Permits},
    gate::Gate,
    layers::{self, Call, Stack},
    room::Count,
};
use crate::{
    config::{self, WhenBusy},
    delivery::{Attempt, Outcome, ProviderName, Skip},
    health::Board,
    message::Clock,
    provider::{Capabilities, Provider, Submission},
};

/// Every provider with its admission and its layers, by name.
///
/// A provider that stands in several chains is one provider: its circuit, its rest and its limits are the same there.
#[derive(Clone)]
pub struct Links {
    links: BTreeMap<ProviderName, Arc<Link>>,
    pub(super) board: Board,
}

impl Links {
    /// Puts admission and layers round each provider.
    pub fn new(
        providers: impl IntoIterator<Item = (Arc<dyn Provider>, config::Provider)>,
        board: &Board,
        clock: &Clock,
    ) -> Self {
        let links = providers
            .into_iter()
            .map(|(provider, settings)| {
                let link = Link::new(provider, settings, board.clone(), clock.clone());
                (link.name().clone(), Arc::new(link))
            })
            .collect();
        Self { links, board: board.clone() }
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
    /// Messages that were claimed for it and not offered yet.
    expected: Count,
    stack: Stack,
    clock: Clock,
}

impl Link {
    fn new(provider: Arc<dyn Provider>, settings: config::Provider, board: Board, clock: Clock) -> Self {
        let gate = Gate::new(provider.name().clone(), settings.clone(), board, clock.clone());
        let admission = Admission::new(gate, &settings);
        let when_busy = settings.when_busy;
        Self {
            stack: layers::stack(provider.clone()),
            admission,
            when_busy,
            expected: Count::default(),
            provider,
            clock,
        }
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

    pub(super) fn when_busy(&self) -> WhenBusy {
        self.when_busy
    }

    pub(super) fn expected(&self) -> &Count {
        &self.expected
    }

    /// Whether it can be asked now, for a sender domain that is set up at it.
    pub(super) fn is_ready(&self) -> bool {
        self.admission.gate().admits(None).is_ok()
    }

    /// Until when it cannot be asked, for a sender domain that is set up at it; `None` if it can.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.admission.gate().admits(None).err().map(|wait| wait.until)
    }

    /// How many calls it takes while it is only being tried out; `None` while it is not.
    pub(super) fn probe_room(&self) -> Option<usize> {
        self.admission.gate().probe_room().and_then(|room| usize::try_from(room).ok())
    }

    /// Asks the provider, after those that were considered before it and passed over.
    pub(super) async fn attempt(&self, permits: Permits, submission: Submission, skipped: Vec<Skip>) -> Attempt {
        let started_at = self.clock.now();
        let began = Instant::now();
        let Ok(outcome): Result<Outcome, _> =
            self.stack.clone().oneshot(Call::new(permits, submission, skipped.clone())).await;
        Attempt {
            provider: self.name().clone(),
            started_at,
            duration: began.elapsed(),
            recognises_key_for: self.capabilities().idempotency,
            outcome,
            skipped,
        }
    }

    /// When it can be asked for that sender domain; `None` if now.
    pub(super) fn ready_at(&self, domain: &str) -> Option<OffsetDateTime> {
        self.admission.gate().admits(Some(domain)).err().map(|wait| self.time_of(wait.until))
    }

    /// A moment of this process as a time of the database.
    pub(super) fn time_of(&self, moment: Instant) -> OffsetDateTime {
        self.clock.now() + moment.saturating_duration_since(Instant::now())
    }
}
