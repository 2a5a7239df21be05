//! Messages on their way from the lane book to the lanes: who got how many.
//!
//! Owns the bounds of a deal; whose turn it is, is the book's to say.

use std::collections::BTreeMap;

use super::Room;
use crate::outbox::{Lane, LaneId};

/// What is dealt out, and what is left to deal.
pub(super) struct Hands<'a> {
    /// How many there are to deal.
    messages: usize,
    /// How many are.
    pub(super) dealt: usize,
    /// Places by chain.
    left: BTreeMap<&'a str, usize>,
    shares: BTreeMap<LaneId, usize>,
    /// The lanes that got something, in the order in which they did.
    pub(super) order: Vec<LaneId>,
}

impl<'a> Hands<'a> {
    /// So many messages, and the places of those chains.
    pub(super) fn new(messages: usize, rooms: &'a BTreeMap<String, Room>) -> Self {
        let left = rooms.iter().map(|(chain, room)| (chain.as_str(), room.places)).collect();
        Self { messages, dealt: 0, left, shares: BTreeMap::new(), order: Vec::new() }
    }

    /// Whether there is more to deal.
    pub(super) fn have_more(&self) -> bool {
        self.dealt < self.messages
    }

    /// Whether the chain of a lane takes more.
    pub(super) fn has_places(&self, lane: &Lane) -> bool {
        self.left.get(lane.chain.as_str()).is_some_and(|places| *places > 0)
    }

    /// What a lane got.
    pub(super) fn share(&self, lane: LaneId) -> usize {
        self.shares.get(&lane).copied().unwrap_or(0)
    }

    /// Deals a message to a lane; whether there was one, and its chain had a place for it.
    pub(super) fn give(&mut self, lane: &Lane) -> bool {
        let Some(places) = self.left.get_mut(lane.chain.as_str()).filter(|places| **places > 0) else { return false };
        if self.dealt == self.messages {
            return false;
        }
        *places -= 1;
        self.dealt += 1;
        let share = self.shares.entry(lane.id).or_insert(0);
        if *share == 0 {
            self.order.push(lane.id);
        }
        *share += 1;
        true
    }
}
