//! The tally: how many messages there are in each status, kept as differences.
//!
//! Owns the folding of differences into their sums; each is written by whoever changes a status, in the same statement.

use super::{Outbox, OutboxError, database::Database, locks};

/// How many differences are worth folding: so many are summed by whoever asks for counts, in less than a millisecond.
const WORTH_IT: i64 = 1000;

/// How many one transaction takes in at most.
const BATCH: i64 = 10_000;

impl Outbox {
    /// Replaces differences by their sums, if there are many; says how many it took in. Any number of processes may do
    /// it at once: one does.
    ///
    /// What a count reads is bounded by this: the last sums, of each day and status, and what was written since. A
    /// snapshot that somebody holds keeps the replaced rows on disk, but they lie before the last sums in the index and
    /// are not read again: those written since the oldest transaction began that writes and has not ended are.
    pub async fn fold_tally(&self) -> Result<u64, OutboxError> {
        let mut folded = 0;
        while is_worth_folding(&self.database).await? {
            let taken = fold(&self.database).await?;
            folded += taken;
            if taken == 0 {
                break;
            }
        }
        Ok(folded)
    }
}

/// A transaction in which the tally is read by its index, however small or unknown to the planner it is.
const BY_INDEX: &str = "set local enable_seqscan = off;";

async fn is_worth_folding(database: &Database) -> sqlx::Result<bool> {
    let mut begun = database.begin(BY_INDEX).await?;
    let is_worth_it = sqlx::query_scalar!(
        r#"
        select
            (
                select count(*)
                from (
                    select
                    from tally
                    where xact >= (select tally_from())
                        and not is_opening
                    limit $1
                ) as differences
            ) = $1
            or exists (
                select
                from tally
                where xact >= pg_snapshot_xmax(pg_current_snapshot())
            ) as "is_worth_it!"
        "#,
        WORTH_IT
    )
    .fetch_one(&mut begun)
    .await?;
    begun.commit().await?;
    Ok(is_worth_it)
}

/// One transaction of it; nothing where another process is at it.
async fn fold(database: &Database) -> sqlx::Result<u64> {
    let mut begun = database.begin(BY_INDEX).await?;
    let is_ours = sqlx::query_scalar!(r#"select pg_try_advisory_xact_lock($1) as "is_ours!""#, locks::FOLD)
        .fetch_one(&mut begun)
        .await?;
    if !is_ours {
        return Ok(0);
    }
    let folded = sqlx::query_file_scalar!("src/outbox/fold.sql", BATCH).fetch_one(&mut begun).await?;
    begun.commit().await?;
    Ok(u64::try_from(folded).unwrap_or(0))
}
