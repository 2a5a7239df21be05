//! One lane as the book knows it.
//!
//! Owns what follows from what was told of it; its turn is the book's.

use std::{collections::BTreeSet, time::Duration};

use time::OffsetDateTime;

use crate::outbox::Lane;

/// How far it is read back by claims that follow each other more quickly than this. While vacuum is held back, each of
/// them reads again what was claimed in that time.
pub(super) const SHORT_LOOK_BACK: Duration = Duration::from_millis(100);

/// A lane, and what is known of it.
pub(super) struct Entry {
    pub(super) lane: Lane,
    /// What was due before was seen; `None`: nothing was.
    pub(super) position: Option<OffsetDateTime>,
    /// When it was last read back for as long as a commit may take.
    pub(super) looked_back_at: Option<OffsetDateTime>,
    /// Whether something was accepted, or left behind by a claim, since a claim found all there was.
    pub(super) marked: bool,
    /// Since when something is known to be due that no claim has looked for yet.
    pub(super) told_at: Option<OffsetDateTime>,
    /// Whether the last claim left something behind.
    pub(super) has_rest: bool,
    /// Due times to come that this process knows of.
    pub(super) later: BTreeSet<OffsetDateTime>,
    /// What the outbox said of due times to come.
    pub(super) looked: Looked,
    /// Grows with each message by the lane's stride: the lane with the lowest is next.
    pub(super) pass: u64,
    /// Whether it took part in the last deal.
    pub(super) waits: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// It has to be asked.
    Unknown,
    /// The earliest.
    At(OffsetDateTime),
    /// None but those that this process is told of.
    Nothing,
}

impl Entry {
    pub(super) fn new(lane: Lane) -> Self {
        let later = BTreeSet::new();
        Self {
            lane,
            position: None,
            looked_back_at: None,
            marked: false,
            told_at: None,
            has_rest: false,
            later,
            looked: Looked::Nothing,
            pass: 0,
            waits: false,
        }
    }

    pub(super) fn is_waiting(&self, now: OffsetDateTime) -> bool {
        self.marked || self.next_due().is_some_and(|due| due <= now)
    }

    /// Since when something has waited in it, if something is known to.
    pub(super) fn waits_since(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        self.told_at.into_iter().chain(self.next_due().filter(|due| *due <= now)).min()
    }

    pub(super) fn may_be_claimed(&self, now: OffsetDateTime) -> bool {
        !self.lane.paused && self.is_waiting(now)
    }

    pub(super) fn next_due(&self) -> Option<OffsetDateTime> {
        let looked = match self.looked {
            Looked::At(due) => Some(due),
            Looked::Unknown | Looked::Nothing => None,
        };
        self.later.first().copied().into_iter().chain(looked).min()
    }

    /// Whether it is time to read it back for as long as a commit may take.
    pub(super) fn looks_back(&self, now: OffsetDateTime) -> bool {
        self.looked_back_at.is_none_or(|last| now - last >= SHORT_LOOK_BACK)
    }

    /// Nothing is left that was due by then, but for what is committed late: where it was not read back for long, it will
    /// be in a moment.
    pub(super) fn note_nothing_left(&mut self, at: OffsetDateTime, looked_back: bool) {
        self.marked = false;
        self.told_at = None;
        self.has_rest = false;
        self.position = Some(at);
        self.later = self.later.split_off(&(at + Duration::from_nanos(1)));
        if !looked_back {
            self.later.insert(at + SHORT_LOOK_BACK);
        }
        if matches!(self.looked, Looked::At(due) if due <= at) {
            self.looked = Looked::Unknown;
        }
    }
}
