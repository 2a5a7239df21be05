//! The leases this process holds, and their renewal while sends last.
//!
//! Owns which are held and until when, as far as this process knows; the tables decide.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use time::OffsetDateTime;
use tokio::task::JoinHandle;

use super::outage::Outage;
use crate::outbox::{Holding, Lease, Outbox, OutboxError};

/// The leases this process holds.
#[derive(Clone)]
pub(super) struct Leases {
    outbox: Outbox,
    outage: Outage,
    length: Duration,
    held: Arc<Mutex<HashMap<Lease, Arc<HeldLease>>>>,
}

/// One lease, as far as this process knows.
pub(super) struct HeldLease {
    pub(super) lease: Lease,
    until: Mutex<OffsetDateTime>,
    lost: AtomicBool,
    cancel_requested: AtomicBool,
}

impl HeldLease {
    /// Whether the message has gone on without us.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether somebody asked to call the message off.
    pub(super) fn cancel_requested(&self) -> bool {
        self.cancel_requested.load(Ordering::Relaxed)
    }

    /// Until when it lasts.
    pub(super) fn until(&self) -> OffsetDateTime {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the outbox said of it.
    pub(super) fn note(&self, holding: Holding) {
        match holding {
            Holding::Lost => self.lost.store(true, Ordering::Relaxed),
            Holding::Held { cancel_requested: true } => self.cancel_requested.store(true, Ordering::Relaxed),
            Holding::Held { cancel_requested: false } => {}
        }
    }

    fn extend(&self, until: OffsetDateTime) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// A lease in the list of those renewed; dropping it takes it off the list.
pub(super) struct Hold {
    leases: Leases,
    held: Arc<HeldLease>,
}

impl Hold {
    pub(super) fn lease(&self) -> &Arc<HeldLease> {
        &self.held
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.leases.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.held.lease);
    }
}

impl Leases {
    pub(super) fn new(outbox: Outbox, outage: Outage, length: Duration) -> Self {
        Self { outbox, outage, length, held: Arc::default() }
    }

    /// Puts a lease on the list of those renewed.
    pub(super) fn hold(&self, lease: Lease, until: OffsetDateTime) -> Hold {
        let held = Arc::new(HeldLease {
            lease,
            until: Mutex::new(until),
            lost: AtomicBool::new(false),
            cancel_requested: AtomicBool::new(false),
        });
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(lease, held.clone());
        Hold { leases: self.clone(), held }
    }

    /// Whether enough of the lease is left to begin a send: a third of its length, which outlasts a renewal that comes
    /// late. Asks for a renewal if not.
    pub(super) async fn is_long_enough(&self, held: &HeldLease) -> bool {
        let enough = |held: &HeldLease| held.until() - self.outbox.clock().now() > self.length / 3;
        if enough(held) {
            return true;
        }
        self.renew(&[held.lease]).await.is_ok() && enough(held) && !held.is_lost()
    }

    /// Renews all leases at an interval until aborted. A renewal that fails is tried again at the next one: the send
    /// goes on, and if the lease runs out meanwhile its outcome is a late one.
    pub(super) fn spawn_renewal(self, every: Duration) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                // It is told where it fails, and tried again.
                drop(self.renew_all().await);
            }
        })
    }

    /// Whether one of them has run out, as far as this process knows, while its send goes on.
    pub(super) fn has_any_run_out(&self) -> bool {
        let now = self.outbox.clock().now();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().any(|held| !held.is_lost() && held.until() <= now)
    }

    /// Renews all leases.
    pub(super) async fn renew_all(&self) -> Result<(), OutboxError> {
        let held: Vec<Lease> = self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        if held.is_empty() { Ok(()) } else { self.renew(&held).await }
    }

    async fn renew(&self, leases: &[Lease]) -> Result<(), OutboxError> {
        // Counted from before the statement, so that we never believe in more than the database granted.
        let until = self.outbox.clock().now() + self.length;
        let renewed = self.outbox.renew(leases, self.length).await.inspect_err(|error| {
            self.outage.note(error);
            tracing::warn!(%error, leases = leases.len(), "leases could not be renewed");
        })?;
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for (lease, holding) in renewed {
            if let Some(held) = held.get(&lease) {
                held.note(holding);
                if holding != Holding::Lost {
                    held.extend(until);
                }
            }
        }
        Ok(())
    }
}
