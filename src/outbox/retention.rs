//! Retention: what was kept long enough goes, by whole days.
//!
//! Owns the order in which it goes: what nobody looked at for too long, then the days that are over, then their keys,
//! then their tables. How each of it goes is in the files beside.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Outbox, OutboxError,
    days::{Day, DayTable},
    retire::Retired,
};
use crate::{config, message::MessageId};

/// Removes what is over, a turn at a time. Any number of processes may do it at once: one empties days, any trims keys.
pub struct Retirement {
    outbox: Outbox,
    settings: config::Retention,
    /// The days that were ended as far as they were over, and since when what was finished is kept of them.
    ended: BTreeMap<Day, Day>,
    /// What was told in the log, so that it is told once.
    postponed: BTreeSet<Day>,
    held_up: BTreeSet<Day>,
}

/// What one turn of the retention did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many messages went because they were finished long enough ago.
    pub finished: u64,
    /// How many went because they had waited too long for a person.
    pub unresolved: u64,
    /// How many days are put off, because most of them is not over.
    pub days_postponed: usize,
    /// How many days are put off, because somebody holds them.
    pub days_held_up: usize,
}

impl Outbox {
    /// Whether a message of that id, were it finished at once, could be gone by now: an unknown id that old may have
    /// been a message.
    pub fn retention_passed(&self, id: MessageId, retention: &config::Retention) -> bool {
        id.time() + retention.finished < self.clock.now()
    }
}

impl Retirement {
    /// By those settings.
    pub fn new(outbox: Outbox, settings: config::Retention) -> Self {
        let (ended, postponed, held_up) = Default::default();
        Self { outbox, settings, ended, postponed, held_up }
    }

    /// Removes what is over by now. What somebody holds is left to the next turn.
    ///
    /// A day goes once it has been over for as long as finished messages are kept, and with it every message of it that
    /// was finished before another such day began.
    pub async fn turn(&mut self) -> Result<Removed, OutboxError> {
        let mut removed = Removed { unresolved: self.remove_unresolved().await?, ..Removed::default() };
        let kept_since = Day::of(self.outbox.clock.now() - self.settings.finished);
        let mut days: BTreeMap<Day, Vec<DayTable>> = BTreeMap::new();
        for table in self.outbox.day_tables().await?.into_iter().filter(|table| table.day < kept_since) {
            days.entry(table.day).or_default().push(table);
        }
        for set in [&mut self.postponed, &mut self.held_up] {
            set.retain(|day| days.contains_key(day));
        }
        // Until midnight nothing more of a day will be over, whoever ended it; but it may have lost the last that it had.
        self.ended.retain(|_, until| *until == kept_since && removed.unresolved == 0);
        for (day, tables) in days.into_iter().filter(|(day, _)| !self.ended.contains_key(day)).collect::<Vec<_>>() {
            let tables: Vec<&DayTable> = tables.iter().collect();
            removed.finished += self.end(day, kept_since, &tables).await?;
        }
        Ok(Removed { days_postponed: self.postponed.len(), days_held_up: self.held_up.len(), ..removed })
    }

    async fn remove_unresolved(&self) -> Result<u64, OutboxError> {
        let removed = self.outbox.remove_unresolved(self.settings.unresolved, self.settings.batch).await?;
        if removed > 0 {
            tracing::warn!(messages = removed, "removed messages that nobody had looked at for too long");
        }
        Ok(removed)
    }

    /// Ends a day as far as it is over; says how many messages went.
    async fn end(&mut self, day: Day, kept_since: Day, tables: &[&DayTable]) -> Result<u64, OutboxError> {
        let retired = match DayTable::are_attached(tables) {
            true => self.outbox.retire(day, kept_since, self.settings.batch).await?,
            false => Retired::Nothing,
        };
        self.tell(day, retired);
        let dropped = match retired {
            Retired::Dropped(dropped) => dropped,
            Retired::Nothing => 0,
            Retired::Busy | Retired::HeldUp | Retired::Postponed { .. } => return Ok(0),
        };
        // Also where another process dropped them: it may not have come to the keys.
        self.outbox.trim_keys(day, self.settings.batch).await?;
        if !self.outbox.drop_if_empty(day, tables).await? {
            self.ended.insert(day, kept_since);
        }
        Ok(dropped)
    }

    /// Tells in the log what keeps a day, when it begins.
    fn tell(&mut self, day: Day, retired: Retired) {
        let table = day.table("message");
        let told = |days: &mut BTreeSet<Day>, is_so: bool| match is_so {
            true => days.insert(day),
            false => {
                days.remove(&day);
                false
            }
        };
        if told(&mut self.held_up, retired == Retired::HeldUp) {
            tracing::warn!(table, "somebody holds a day that is over; it is dropped later");
        }
        let postponed = matches!(retired, Retired::Postponed { .. });
        if told(&mut self.postponed, postponed)
            && let Retired::Postponed { staying, all } = retired
        {
            tracing::warn!(table, staying, all, "most messages of a day that is over are not; it is dropped later");
        }
    }
}
