//! What `grpc.health.v1` is told: whether this process can do its part.
//!
//! Owns what follows from the database, the days and the providers; they are looked at by others.

use std::future::pending;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::maintenance::FEW_DAYS;
use crate::{
    api::{Readiness, Standing},
    outbox::DaysMade,
};

/// What is looked at.
#[derive(Clone)]
pub(super) struct Signs {
    /// Whether the database is there.
    pub(super) database: watch::Receiver<bool>,
    /// Which days have their tables.
    pub(super) days: watch::Receiver<DaysMade>,
    /// Whether there is a provider of each chain that would be asked now.
    pub(super) providers: watch::Receiver<bool>,
}

impl Signs {
    fn standing(&mut self) -> Standing {
        let days = *self.days.borrow_and_update();
        let database = *self.database.borrow_and_update();
        let providers = *self.providers.borrow_and_update();
        Standing { database, days: days.is_enough, days_ahead: days.ahead >= FEW_DAYS, providers }
    }
}

/// Waits for the next change, if there is to be one: in a process that does not send nobody looks at providers.
async fn change(providers: &mut watch::Receiver<bool>) {
    if providers.changed().await.is_err() {
        pending::<()>().await;
    }
}

/// Says how it stands, until the service stops.
pub(super) async fn follow(mut signs: Signs, readiness: Readiness, stop: CancellationToken) {
    loop {
        readiness.set(signs.standing()).await;
        tokio::select! {
            changed = signs.database.changed() => if changed.is_err() { return },
            changed = signs.days.changed() => if changed.is_err() { return },
            () = change(&mut signs.providers) => {}
            () = stop.cancelled() => return,
        }
    }
}
