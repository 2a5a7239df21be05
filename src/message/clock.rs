//! The database's time, as this process knows it.
//!
//! Owns the offset; measuring it is the outbox's. Spans of time within the process go by the runtime's own clock.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use time::{Duration, OffsetDateTime};

/// The database's time: the local clock, corrected by an offset that the outbox measures. Ids and times that are
/// stored come from here, so that no machine's wrong clock decides in which day a message lies.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_us: Arc<AtomicI64>,
}

impl Clock {
    /// The time now.
    pub fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc() + Duration::microseconds(self.offset_us.load(Ordering::Relaxed))
    }

    /// Takes over a newly measured offset: the database's time less the local one.
    pub fn correct(&self, offset: Duration) {
        let us = i64::try_from(offset.whole_microseconds()).unwrap_or(0);
        self.offset_us.store(us, Ordering::Relaxed);
    }
}
