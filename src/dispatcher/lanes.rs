//! The lane book: where each lane was read to, whether more may be due in it, and whose turn it is.
//!
//! Owns the shares of priorities and clients. Reads no clock and asks nobody: it is told what was accepted, seen and
//! claimed.

mod entry;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use time::OffsetDateTime;

use self::entry::{Entry, Looked, SHORT_LOOK_BACK};
use crate::{
    delivery::ProviderName,
    message::Priority,
    outbox::{Claims, Lane, LaneClaim, LaneId, LaneSeen, Rest},
};

/// How far before its position a lane is read: a row that is committed a little later than one that is due after it is
/// still seen.
const LOOK_BACK: Duration = Duration::from_secs(1);

/// How many due times to come are remembered of one lane. What is forgotten is asked for.
const LATER_AT_MOST: usize = 1000;

/// How many lanes are looked at beside those whose turn it is, in case these have less than their share.
const BESIDE_AT_MOST: usize = 1000;

/// The lanes that this process knows.
#[derive(Default)]
pub(super) struct LaneBook {
    lanes: BTreeMap<LaneId, Entry>,
    /// Where the lanes that wait have come to. One that comes back joins here: it is owed nothing for the time in which
    /// it had nothing to send.
    pass: u64,
}

/// A lane book that the express lane asks too. Clones are the same book.
#[derive(Clone)]
pub(super) struct SharedBook(Arc<Mutex<LaneBook>>);

impl SharedBook {
    pub(super) fn new(book: LaneBook) -> Self {
        Self(Arc::new(Mutex::new(book)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LaneBook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a chain takes now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// The provider that is asked first.
    pub(super) provider: ProviderName,
    /// How many messages.
    pub(super) places: usize,
}

/// What is wanted of the lanes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Deal {
    /// How many messages in all.
    pub(super) messages: usize,
    pub(super) lanes: Vec<LaneClaim>,
    terms: Vec<Terms>,
}

/// Under which terms a lane is in a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    /// What each message costs it.
    stride: u64,
    /// Whether it is read back for as long as a commit may take.
    looks_back: bool,
}

impl LaneBook {
    /// Takes in every lane there is, as it was seen from its beginning at that time or later. Where something lies behind
    /// the position, the position moves back; it never lies ahead of the time.
    pub(super) fn learn(&mut self, seen: Vec<LaneSeen>, now: OffsetDateTime) {
        for LaneSeen { lane, earliest } in seen {
            let entry = self.lanes.entry(lane.id).or_insert_with(|| Entry::new(lane.clone()));
            entry.lane = lane;
            entry.looked = earliest.map_or(Looked::Nothing, Looked::At);
            entry.position = earliest.map(|earliest| earliest.min(entry.position.unwrap_or(now)));
        }
    }

    /// Something was accepted in a lane, or given back to it, due at that time. `false` if the lane is not known.
    pub(super) fn expect(&mut self, lane: LaneId, due_at: OffsetDateTime, now: OffsetDateTime) -> bool {
        let Some(entry) = self.lanes.get_mut(&lane) else { return false };
        if due_at <= now {
            entry.marked = true;
            entry.told_at.get_or_insert(now);
            // It may have been committed long after it was due.
            entry.position = entry.position.map(|position| position.min(due_at));
            return true;
        }
        entry.later.insert(due_at);
        if entry.later.len() > LATER_AT_MOST {
            entry.later.pop_last();
            entry.looked = Looked::Unknown;
        }
        true
    }

    /// Whether what comes to that lane now overtakes nobody who has been known to wait for so long. Nothing is let in
    /// where it is not known who waits.
    pub(super) fn lets_in(&self, lane: LaneId, now: OffsetDateTime, overtakes_at_most: Duration) -> bool {
        let is_open = |entry: &Entry| {
            let since = entry.waits_since(now);
            !entry.lane.paused && !entry.has_rest && since.is_none_or(|since| now - since < overtakes_at_most)
        };
        self.lanes.get(&lane).is_some_and(is_open)
    }

    /// Something may be due in any lane.
    pub(super) fn mark_all(&mut self) {
        self.lanes.values_mut().for_each(|entry| entry.marked = true);
    }

    /// Whether something may be due in a lane of those chains.
    pub(super) fn is_waiting<V>(&self, chains: &BTreeMap<String, V>, now: OffsetDateTime) -> bool {
        self.lanes
            .values()
            .any(|entry| chains.contains_key(&entry.lane.chain) && !entry.lane.paused && entry.is_waiting(now))
    }

    /// The earliest time to come at which something is due.
    pub(super) fn next_due(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        self.lanes.values().filter_map(|entry| entry.next_due()).filter(|due| *due > now).min()
    }

    /// The lanes of those chains of which has to be asked when something is due next, and since when.
    pub(super) fn unknown<V>(
        &self,
        chains: &BTreeMap<String, V>,
        now: OffsetDateTime,
    ) -> Vec<(LaneId, OffsetDateTime)> {
        let is_unknown = |entry: &&Entry| {
            entry.looked == Looked::Unknown
                && chains.contains_key(&entry.lane.chain)
                && !entry.lane.paused
                && !entry.is_waiting(now)
        };
        self.lanes
            .values()
            .filter(is_unknown)
            .map(|entry| (entry.lane.id, entry.position.unwrap_or(OffsetDateTime::UNIX_EPOCH)))
            .collect()
    }

    /// Takes in what was answered to that.
    pub(super) fn note_next_due(&mut self, asked: &[(LaneId, OffsetDateTime)], answer: Vec<(LaneId, OffsetDateTime)>) {
        for (lane, _) in asked {
            if let Some(entry) = self.lanes.get_mut(lane) {
                entry.looked = Looked::Nothing;
            }
        }
        for (lane, due_at) in answer {
            if let Some(entry) = self.lanes.get_mut(&lane) {
                entry.looked = Looked::At(due_at);
            }
        }
    }

    /// The lanes of those chains in which something may be due and that nothing is claimed from: paused, or without a
    /// provider that is ready.
    pub(super) fn closed<V, W>(
        &self,
        chains: &BTreeMap<String, V>,
        rooms: &BTreeMap<String, W>,
        now: OffsetDateTime,
    ) -> Vec<LaneId> {
        let is_closed = |lane: &Lane| lane.paused || !rooms.contains_key(&lane.chain);
        self.lanes
            .values()
            .filter(|entry| chains.contains_key(&entry.lane.chain) && is_closed(&entry.lane) && entry.is_waiting(now))
            .map(|entry| entry.lane.id)
            .collect()
    }

    /// Deals out so many messages to the lanes that wait, no more to those of a chain than it has room for: to a
    /// priority by its weight, and in it to each lane the same. What is dealt one at a time is fair over time.
    ///
    /// After them come the others that wait, for one message each: they are only looked at where the first have less
    /// than was dealt to them.
    pub(super) fn deal(&mut self, messages: usize, rooms: &BTreeMap<String, Room>, now: OffsetDateTime) -> Deal {
        let lanes = self.join(rooms, now);
        let strides = strides(&lanes);
        let mut left: BTreeMap<&str, usize> = rooms.iter().map(|(chain, room)| (chain.as_str(), room.places)).collect();
        let mut turns: BinaryHeap<_> = lanes.iter().map(|lane| Reverse((self.lanes[&lane.id].pass, lane.id))).collect();
        let by_id: BTreeMap<LaneId, &Lane> = lanes.iter().map(|lane| (lane.id, lane)).collect();
        let mut order: Vec<LaneId> = Vec::new();
        let mut shares: BTreeMap<LaneId, usize> = BTreeMap::new();
        let mut dealt = 0;
        while dealt < messages
            && let Some(Reverse((pass, id))) = turns.pop()
        {
            let lane = by_id[&id];
            let Some(places) = left.get_mut(lane.chain.as_str()).filter(|places| **places > 0) else { continue };
            *places -= 1;
            dealt += 1;
            let share = shares.entry(id).or_insert(0);
            if *share == 0 {
                order.push(id);
            }
            *share += 1;
            turns.push(Reverse((pass + strides[&lane.priority], id)));
        }
        let has_places = |lane: &&LaneId| left.get(by_id[lane].chain.as_str()).is_some_and(|places| *places > 0);
        let beside: Vec<LaneId> = turns.into_sorted_vec().into_iter().rev().map(|Reverse((_, id))| id).collect();
        let beside = beside.iter().filter(|id| !shares.contains_key(id)).filter(has_places).take(BESIDE_AT_MOST);
        let mut deal = Deal { messages: dealt, ..Deal::default() };
        for id in order.iter().chain(beside) {
            let (lane, entry) = (by_id[id], &self.lanes[id]);
            let looks_back = entry.looks_back(now);
            let look_back = if looks_back { LOOK_BACK } else { SHORT_LOOK_BACK };
            deal.terms.push(Terms { stride: strides[&lane.priority], looks_back });
            deal.lanes.push(LaneClaim {
                lane: *id,
                chain: lane.chain.clone(),
                provider: rooms[&lane.chain].provider.clone(),
                since: entry.position.map(|position| position - look_back),
                limit: shares.get(id).copied().unwrap_or(1),
            });
        }
        deal
    }

    /// Takes in what a claim came to. A lane in which less was found than was asked for has nothing more; what was
    /// accepted while the claim was under way has to be told afterwards.
    pub(super) fn note(&mut self, deal: &Deal, claims: &Claims) {
        for (found, terms) in claims.lanes.iter().zip(&deal.terms) {
            let Some(entry) = self.lanes.get_mut(&found.lane) else { continue };
            entry.pass += terms.stride * found.found as u64;
            if terms.looks_back {
                entry.looked_back_at = Some(claims.at);
            }
            match found.rest {
                Rest::From(position) => {
                    entry.marked = true;
                    entry.has_rest = true;
                    entry.position = Some(position);
                }
                Rest::Nothing => entry.note_nothing_left(claims.at, terms.looks_back),
            }
        }
    }

    /// The lanes that wait and whose chains have room. Those that come back begin where the others are.
    fn join(&mut self, rooms: &BTreeMap<String, Room>, now: OffsetDateTime) -> Vec<Lane> {
        let stays = |entry: &&Entry| entry.waits && entry.may_be_claimed(now);
        if let Some(lowest) = self.lanes.values().filter(stays).map(|entry| entry.pass).min() {
            self.pass = self.pass.max(lowest);
        }
        let mut lanes = Vec::new();
        for entry in self.lanes.values_mut() {
            let waits = entry.may_be_claimed(now);
            if waits && !entry.waits {
                entry.pass = entry.pass.max(self.pass);
            }
            entry.waits = waits;
            if waits && rooms.get(&entry.lane.chain).is_some_and(|room| room.places > 0) {
                lanes.push(entry.lane.clone());
            }
        }
        lanes
    }
}

/// What a message costs its lane: the less, the higher its priority's share (HIGH 8, NORMAL 4, BULK 1), and the more,
/// the more lanes share it.
fn strides(lanes: &[Lane]) -> BTreeMap<Priority, u64> {
    let mut strides = BTreeMap::new();
    for lane in lanes {
        *strides.entry(lane.priority).or_insert(0) += match lane.priority {
            Priority::High => 1,
            Priority::Normal => 2,
            Priority::Bulk => 8,
        };
    }
    strides
}

#[cfg(test)]
mod tests;
