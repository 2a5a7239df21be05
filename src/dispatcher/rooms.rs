//! Which chains take messages now, and how many.
//!
//! Owns nothing: the chains are asked each time.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::lanes::Room;
use crate::chain::{Chain, Readiness};

/// The chains that take messages, and what is known of the others.
pub(super) struct Rooms {
    pub(super) open: BTreeMap<String, Room>,
    /// How many messages they take when they have none.
    pub(super) most: usize,
    /// When one of the others is worth asking again.
    pub(super) resting_until: Option<Instant>,
}

impl Rooms {
    /// Asks each of the chains.
    pub(super) fn of(chains: &BTreeMap<String, Chain>) -> Self {
        let mut rooms = Self { open: BTreeMap::new(), most: 0, resting_until: None };
        for (name, chain) in chains {
            match chain.readiness() {
                Readiness::Ready { provider, places, trials, most } => {
                    rooms.open.insert(name.clone(), Room { provider, places, trials });
                    rooms.most += most;
                }
                Readiness::RestsUntil(until) => {
                    rooms.resting_until = Some(rooms.resting_until.map_or(until, |earlier| earlier.min(until)));
                }
            }
        }
        rooms
    }

    /// How many messages they take in all.
    pub(super) fn places(&self) -> usize {
        self.open.values().map(|room| room.places).sum()
    }
}
