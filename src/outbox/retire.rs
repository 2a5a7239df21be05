//! The end of a day: its tables are emptied at once, and what is not over is put back.
//!
//! Owns the one transaction that does it; which days are over is decided by `retention`.

use sqlx::{AssertSqlSafe, Row as _, postgres::PgRow};

use super::{
    Outbox,
    database::Begun,
    days::{Day, TABLES},
    error::has_code,
    locks,
};

/// What the transaction begins with. Those who come after it for the same lock wait for it, so it steps back soon. And
/// nothing but the indexes is worth reading: what the planner knows of a day's table that was emptied is not true any
/// more.
const SETTINGS: &str = "set local lock_timeout = '200ms'; set local enable_seqscan = off; \
                        set local enable_hashjoin = off; set local enable_mergejoin = off;";

/// The longest that one step may take while everybody who wants the day has to wait.
const STEP_TIMEOUT: &str = "set local statement_timeout = '5s'";

/// What became of a day that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retired {
    /// So many messages are gone.
    Dropped(u64),
    /// There was nothing in it that is over.
    Nothing,
    /// Another process is at it.
    Busy,
    /// Somebody reads it, or has it in some other way, for longer than others can be made to wait.
    HeldUp,
    /// Most of it is not over, or so much that putting it back would keep others waiting for too long.
    Postponed {
        /// How many are not over, as far as they were counted.
        staying: i64,
        /// How many there are.
        all: i64,
    },
}

impl Outbox {
    /// Drops what was finished before `kept_since` of a day that is over, if more than half of the day goes, or no more
    /// than `few` messages stay. One transaction; nobody who wants the day waits for it longer than its lock timeout.
    pub(super) async fn retire(&self, day: Day, kept_since: Day, few: u32) -> sqlx::Result<Retired> {
        let mut begun = self.database.begin(SETTINGS).await?;
        match retire(&mut begun, day, kept_since, few).await {
            Ok(retired) => {
                begun.commit().await?;
                Ok(retired)
            }
            // Lock not available, a deadlock.
            Err(error) if has_code(&error, &["55P03", "40P01"]) => Ok(Retired::HeldUp),
            // Another process has dropped the tables.
            Err(error) if has_code(&error, &["42P01"]) => Ok(Retired::Nothing),
            Err(error) => Err(error),
        }
    }
}

async fn retire(begun: &mut Begun, day: Day, kept_since: Day, few: u32) -> sqlx::Result<Retired> {
    let is_ours = sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock($1) as "is_ours!""#, locks::RETIRE)
        .fetch_one(&mut *begun)
        .await?;
    if !is_ours {
        return Ok(Retired::Busy);
    }
    if !has_any_over(begun, day, kept_since).await? {
        return Ok(Retired::Nothing);
    }
    let (all, staying) = count(begun, day, kept_since).await?;
    if staying > i64::from(few) && staying > all / 2 {
        return Ok(Retired::Postponed { staying, all });
    }
    run(begun, day, kept_since, include_str!("copy.sql")).await?;
    match empty(begun, day, kept_since).await {
        Ok(dropped) => Ok(Retired::Dropped(dropped)),
        // It took too long: there was more to put back than it looked like.
        Err(error) if has_code(&error, &["57014"]) => Ok(Retired::Postponed { staying, all }),
        Err(error) => Err(error),
    }
}

/// Keeps everybody out of the day and empties it; says how many messages were dropped.
async fn empty(begun: &mut Begun, day: Day, kept_since: Day) -> sqlx::Result<u64> {
    let [(messages, _), (events, _)] = TABLES;
    let (messages, events) = (day.table(messages), day.table(events));
    let lock = format!("lock table only {messages}, only {events} in access exclusive mode; {STEP_TIMEOUT}");
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *begun).await?;
    let rows = run(begun, day, kept_since, include_str!("retire.sql")).await?;
    let dropped: i64 = rows.last().ok_or(sqlx::Error::RowNotFound)?.try_get("dropped")?;
    Ok(u64::try_from(dropped).unwrap_or(0))
}

/// Whether anything of the day was finished before that.
async fn has_any_over(begun: &mut Begun, day: Day, kept_since: Day) -> sqlx::Result<bool> {
    let sql = format!("select exists (select from {} where finished_at < $1)", day.table("event"));
    sqlx::query_scalar(AssertSqlSafe(sql)).bind(kept_since.start()).persistent(false).fetch_one(begun).await
}

/// How many messages of the day there are, and how many of them are not over; of the latter only as many are counted as
/// it takes to know that they are most.
async fn count(begun: &mut Begun, day: Day, kept_since: Day) -> sqlx::Result<(i64, i64)> {
    let counts = sqlx::query!(
        r#"
        select
            coalesce(sum(n), 0)::bigint as "all!",
            coalesce(
                sum(n) filter (where status not in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT')),
                0
            )::bigint as "pending!"
        from tally_sum()
        where day = $1
        "#,
        day.date()
    )
    .fetch_one(&mut *begun)
    .await?;
    let sql =
        format!("select count(*) from (select from {} where finished_at >= $1 limit $2) as recent", day.table("event"));
    let recent: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(kept_since.start())
        .bind(counts.all.max(0) + 1)
        .persistent(false)
        .fetch_one(begun)
        .await?;
    Ok((counts.all, counts.pending + recent))
}

/// Runs statements on the tables of the day.
async fn run(begun: &mut Begun, day: Day, kept_since: Day, statements: &str) -> sqlx::Result<Vec<PgRow>> {
    let (first, next) = day.ids();
    let sql = [
        ("MESSAGES", day.table("message")),
        ("EVENTS", day.table("event")),
        ("FIRST", first.to_string()),
        ("NEXT", next.to_string()),
        ("DAY", day.date().to_string()),
        ("KEPT_SINCE", format!("{} 00:00+00", kept_since.date())),
    ]
    .into_iter()
    .fold(statements.to_owned(), |sql, (name, value)| sql.replace(name, &value));
    sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(begun).await
}
