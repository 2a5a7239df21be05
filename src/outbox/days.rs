//! The days: content and history lie in a table for each, made ahead of time.
//!
//! Owns their names, bounds and making; what is in them is removed by `retention`.

use std::time::Duration;

use sqlx::AssertSqlSafe;
use time::{Date, OffsetDateTime, Time, macros::format_description};
use uuid::Uuid;

use super::{
    Outbox, OutboxError,
    database::{Begun, Database},
    error::has_code,
    locks,
};

/// The tables that are partitioned by day, and the settings of a day's table.
///
/// Rows are inserted once and dropped by the day, so a vacuum because of many inserts is of no use. Content goes out of
/// line only where a row would not fit a page: a message in one piece is written and read with less work.
pub(super) const TABLES: [(&str, &str); 2] = [
    (
        "message",
        "autovacuum_vacuum_insert_threshold = -1, toast.autovacuum_vacuum_insert_threshold = -1, \
         toast_tuple_target = 8160",
    ),
    ("event", "autovacuum_vacuum_insert_threshold = -1"),
];

/// How long a change of tables waits for a lock before it steps back and lets those behind it pass.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// How often it tries before it gives up.
const TRIES: u32 = 20;

/// A day in UTC, as far as ids are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(Date);

impl Day {
    /// The day of that time.
    pub(super) fn of(time: OffsetDateTime) -> Self {
        Self(time.to_utc().date())
    }

    /// That many days later.
    pub(super) fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(time::Duration::days(days)))
    }

    /// When it begins.
    pub(super) fn start(self) -> OffsetDateTime {
        self.0.with_time(Time::MIDNIGHT).assume_utc()
    }

    /// Below every id of the day and above every id of the day before: its first millisecond and zeros.
    pub(super) fn first_id(self) -> Uuid {
        let ms = u128::try_from(self.start().unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
        Uuid::from_u128(ms << 80)
    }

    /// Its first id, and the first that is not its own.
    pub(super) fn ids(self) -> (Uuid, Uuid) {
        (self.first_id(), self.plus(1).first_id())
    }

    /// As Postgres takes it.
    pub(super) fn date(self) -> Date {
        self.0
    }

    /// The name of the day's part of a table.
    pub(super) fn table(self, parent: &str) -> String {
        let day = self.0.format(format_description!("[year][month][day]"));
        format!("{parent}_{}", day.expect("a date has year, month and day"))
    }

    /// The day of a table's name; `None` if it is none.
    fn parse(parent: &str, table: &str) -> Option<Self> {
        let day = table.strip_prefix(parent)?.strip_prefix('_')?;
        Date::parse(day, format_description!("[year][month][day]")).ok().map(Self)
    }
}

impl From<Date> for Day {
    fn from(date: Date) -> Self {
        Self(date)
    }
}

/// A day's part of a table, as it is found in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DayTable {
    pub(super) parent: &'static str,
    pub(super) day: Day,
    pub(super) state: DayState,
}

/// How a day's table belongs to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayState {
    /// It is part of it.
    Attached,
    /// It is being taken out, and whoever did it was interrupted.
    Detaching,
    /// It is not part of it any more.
    Detached,
}

/// The least and the greatest of these ids. A statement that looks for each of them, and says that all are in between,
/// is planned for the tables of the days in between and opens no other.
pub(super) fn id_range(ids: &[Uuid]) -> (Uuid, Uuid) {
    let least = ids.iter().min().copied().unwrap_or(Uuid::max());
    let greatest = ids.iter().max().copied().unwrap_or(Uuid::nil());
    (least, greatest)
}

impl DayTable {
    /// Whether a day is all there, as part of the outbox.
    pub(super) fn are_attached(of_day: &[&Self]) -> bool {
        of_day.len() == TABLES.len() && of_day.iter().all(|table| table.state == DayState::Attached)
    }
}

/// Which days have their tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaysMade {
    /// Whether what is accepted now, or within the hour, has a table.
    pub is_enough: bool,
    /// For how many days after today there are tables, without a gap.
    pub ahead: u32,
}

impl Outbox {
    /// Which days have their tables. Any process may ask; it is cheap.
    pub async fn days_made(&self) -> Result<DaysMade, OutboxError> {
        let tables = self.day_tables().await?;
        let is_made = |day: Day| {
            let of_day: Vec<&DayTable> = tables.iter().filter(|table| table.day == day).collect();
            DayTable::are_attached(&of_day)
        };
        let now = self.clock.now();
        let ahead = (1..).take_while(|&n| is_made(Day::of(now).plus(n))).count();
        Ok(DaysMade {
            is_enough: is_made(Day::of(now)) && is_made(Day::of(now + time::Duration::HOUR)),
            ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
        })
    }

    /// Makes the tables for yesterday, today and that many days ahead, where they are missing; says for how many days
    /// it did. Any number of processes may do it at once.
    ///
    /// A table is created and then attached, which waits for no reader and lets nobody wait; `create table … partition
    /// of` would wait for every open transaction that has read the outbox, and everybody else behind it.
    pub async fn ensure_days(&self, days_ahead: u32) -> Result<usize, OutboxError> {
        let today = Day::of(self.clock.now());
        let present = self.day_tables().await?;
        let is_missing = |day: Day| {
            TABLES.iter().any(|&(parent, _)| {
                !present.iter().any(|t| t.parent == parent && t.day == day && t.state == DayState::Attached)
            })
        };
        let missing: Vec<Day> =
            (-1..=i64::from(days_ahead)).map(|n| today.plus(n)).filter(|&day| is_missing(day)).collect();
        if missing.is_empty() {
            return Ok(0);
        }
        let mut made = 0;
        for day in missing {
            made += usize::from(make_patiently(&self.database, day).await?);
        }
        Ok(made)
    }

    /// The days' tables there are, oldest first, and of a day first that of messages: what goes first is taken out first,
    /// and two half done days do not wait for each other.
    pub(super) async fn day_tables(&self) -> Result<Vec<DayTable>, OutboxError> {
        let rows = sqlx::query!(
            r#"
            select
                parent.relname as "parent!",
                day.relname as "name!",
                pg_inherits.inhdetachpending as "detaching?"
            from pg_class as parent
            join pg_class as day
                on day.relnamespace = parent.relnamespace
                and day.relkind = 'r'
                and day.relname ~ ('^' || parent.relname || '_[0-9]{8}$')
            left join pg_inherits
                on pg_inherits.inhrelid = day.oid
                and pg_inherits.inhparent = parent.oid
            where parent.oid in ('message'::regclass, 'event'::regclass)
            order by right(day.relname, 8), parent.relname desc
            "#
        )
        .fetch_all(&self.database)
        .await?;
        let tables = rows.into_iter().filter_map(|row| {
            let (parent, _) = TABLES.into_iter().find(|(parent, _)| *parent == row.parent)?;
            let state = match row.detaching {
                Some(false) => DayState::Attached,
                Some(true) => DayState::Detaching,
                None => DayState::Detached,
            };
            Some(DayTable { parent, day: Day::parse(parent, &row.name)?, state })
        });
        Ok(tables.collect())
    }
}

/// A transaction in which no change of tables waits for long.
pub(super) async fn begin(database: &Database) -> sqlx::Result<Begun> {
    database.begin(&format!("set local lock_timeout = {};", LOCK_TIMEOUT.as_millis())).await
}

/// Makes the tables of a day, stepping back for others as often as needed.
async fn make_patiently(database: &Database, day: Day) -> Result<bool, OutboxError> {
    let mut tries = 1;
    loop {
        match make(database, day).await {
            Err(error) if tries < TRIES && has_code(&error, &["55P03", "40P01"]) => tries += 1,
            result => return Ok(result?),
        }
        tokio::time::sleep(LOCK_TIMEOUT.mul_f64(rand::random_range(0.2..1.0))).await;
    }
}

/// Makes the tables of a day in one transaction; `false` if they were there.
async fn make(database: &Database, day: Day) -> sqlx::Result<bool> {
    let mut transaction = begin(database).await?;
    sqlx::query!("select pg_advisory_xact_lock($1)", locks::TABLES).execute(&mut transaction).await?;
    let mut made = false;
    for (parent, settings) in TABLES {
        let table = day.table(parent);
        let is_there = sqlx::query_scalar!(
            r#"
            select exists (
                select
                from pg_inherits
                where inhparent = to_regclass($1)
                    and inhrelid = to_regclass($2)
            ) as "is_there!"
            "#,
            parent,
            table
        )
        .fetch_one(&mut transaction)
        .await?;
        if is_there {
            continue;
        }
        let (from, to) = (day.first_id(), day.plus(1).first_id());
        let sql = format!(
            "create table {table} (like {parent} including all) with ({settings});
             alter table {parent} attach partition {table} for values from ('{from}') to ('{to}')"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut transaction).await?;
        made = true;
    }
    transaction.commit().await?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::message::MessageId;

    #[test]
    fn the_ids_of_a_day_lie_between_its_bounds() {
        let day = Day::of(datetime!(2026-12-01 11:38 UTC));
        let id_at = |time| MessageId::new_at(time).as_uuid();
        let first = id_at(datetime!(2026-12-01 00:00 UTC));
        let last = id_at(datetime!(2026-12-01 23:59:59.999 UTC));
        assert!(day.first_id() <= first && last < day.plus(1).first_id());
        assert!(id_at(datetime!(2026-11-30 23:59:59.999 UTC)) < day.first_id());
        assert!(id_at(datetime!(2026-12-02 00:00 UTC)) >= day.plus(1).first_id());
    }

    #[test]
    fn a_day_is_told_by_the_name_of_its_table() {
        let day = Day::of(datetime!(2026-12-01 11:38 UTC));
        assert_eq!(day.table("message"), "message_20261201");
        assert_eq!(Day::parse("message", "message_20261201"), Some(day));
        assert_eq!(Day::parse("message", "message_copy"), None);
        assert_eq!(Day::parse("event", "message_20261201"), None);
    }

    #[test]
    fn a_day_is_one_of_utc() {
        let evening = datetime!(2026-12-01 23:30 -02:00);
        assert_eq!(Day::of(evening), Day::of(datetime!(2026-12-02 01:30 UTC)));
    }
}
