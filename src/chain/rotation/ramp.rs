//! The ramp: how a provider that has rested is asked again, by one call at first and by more with each that does well.
//!
//! Owns the count. Hundreds of messages may have waited for the end of a short rest; all at once they would earn the
//! next one.

/// With so many at once it is over.
const ENOUGH: u32 = 32;

/// How many calls may be under way.
#[derive(Debug)]
pub(super) struct Ramp {
    id: Id,
    allowed: u32,
    under_way: u32,
    follows_a_probe: bool,
}

/// Tells one ramp from another: calls of the one before are not this one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Id(u64);

impl Id {
    /// That of the next ramp.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Ramp {
    /// The ramp after a rest, or after it was found out without a message that the account is set up again.
    pub(super) fn new(id: Id, follows_a_probe: bool) -> Self {
        Self { id, allowed: 1, under_way: 0, follows_a_probe }
    }

    pub(super) fn follows_a_probe(&self) -> bool {
        self.follows_a_probe
    }

    /// How many more calls may begin.
    pub(super) fn room(&self) -> u32 {
        self.allowed.saturating_sub(self.under_way)
    }

    /// Whether it bounds nothing any more.
    pub(super) fn is_over(&self) -> bool {
        self.allowed >= ENOUGH
    }

    pub(super) fn begin(&mut self) -> Id {
        self.under_way += 1;
        self.id
    }

    /// A call has ended, that of another ramp perhaps.
    pub(super) fn end(&mut self, id: Id, is_well: bool) {
        if id != self.id {
            return;
        }
        self.under_way = self.under_way.saturating_sub(1);
        if is_well {
            self.allowed = self.allowed.saturating_mul(2);
        }
    }
}
