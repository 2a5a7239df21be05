//! Rows in great numbers, made by the database itself: a backlog, and a day that is over.
//!
//! Owns what such rows look like. They are no messages that could be sent: a backlog has no content, and that of the day
//! tells nothing.

use sqlx::{AssertSqlSafe, Connection};

use crate::outbox::{
    Outbox, OutboxError,
    days::{Day, TABLES},
};

/// How many days ago the day was that is to be retired: well past what is kept by default.
const DAYS_AGO: i64 = 9;

/// One of so many messages of that day was finished only now, and has to be kept.
pub const SURVIVES_ONE_IN: u64 = 1000;

/// A day that is past retention.
#[derive(Clone, Copy, Debug)]
pub struct DayOver(Day);

impl Outbox {
    /// Lets so many more messages wait, all of them due, in so many lanes of that chain.
    pub async fn fill_waiting(&self, chain: &str, lanes: u32, messages: u64) -> Result<(), OutboxError> {
        self.refuse_others()?;
        sqlx::query!(
            r#"
            with made as (
                insert into lane (chain, priority, client)
                select $1, 'NORMAL', 'client-' || nth
                from generate_series(1, $2::bigint) as nth
                on conflict (chain, priority, client) do update set client = excluded.client
                returning id
            ),
            numbered as (
                select array_agg(id) as ids
                from made
            )
            insert into pending (id, lane, status, due_at, give_up_at, hold)
            select
                -- A UUID of version 7 whose time is when it was accepted.
                (
                    lpad(to_hex((extract(epoch from accepted.at) * 1000)::bigint), 12, '0')
                    || '7' || lpad(to_hex(message.nth & 4095), 3, '0')
                    || '8' || substr(md5(random()::text), 1, 15)
                )::uuid,
                numbered.ids[1 + message.nth % $2::bigint],
                'NOT_YET_SENT',
                accepted.at,
                accepted.at + interval '3 days',
                false
            from numbered
            cross join generate_series(0, $3::bigint - 1) as message (nth)
            cross join lateral (
                select now() - interval '1 hour' + message.nth * interval '1 hour' / $3::bigint as at
            ) as accepted
            "#,
            chain,
            i64::from(lanes),
            i64::try_from(messages).unwrap_or(i64::MAX)
        )
        .execute(&self.database)
        .await?;
        Ok(())
    }

    /// Cleans `pending` and collects its statistics, so that nothing of that is left to be done while it is measured.
    pub async fn vacuum_pending(&self) -> Result<(), OutboxError> {
        sqlx::query("vacuum analyze pending").execute(&self.database).await?;
        Ok(())
    }

    /// Makes the tables of a day that is past retention.
    pub async fn make_day_over(&self) -> Result<DayOver, OutboxError> {
        self.refuse_others()?;
        let mut connection = self.database.connection_apart().await?;
        let day = Day::of(self.clock.now()).plus(-DAYS_AGO);
        for (parent, settings) in TABLES {
            let table = day.table(parent);
            let (first, next) = (day.first_id(), day.plus(1).first_id());
            let sql = format!(
                "create table {table} partition of {parent} for values from ('{first}') to ('{next}') with ({settings})"
            );
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        }
        connection.close().await?;
        Ok(DayOver(day))
    }

    /// Lets so many more messages have been sent on that day, with a key and 1 KB of content each. One in
    /// [`SURVIVES_ONE_IN`] was finished just now.
    pub async fn fill_day_over(&self, day: DayOver, messages: u64) -> Result<(), OutboxError> {
        self.refuse_others()?;
        sqlx::query_file!(
            "src/outbox/floor/fill_day_over.sql",
            day.0.start(),
            i64::try_from(messages).unwrap_or(i64::MAX),
            i64::try_from(SURVIVES_ONE_IN).unwrap_or(i64::MAX)
        )
        .execute(&self.database)
        .await?;
        Ok(())
    }

    /// Whether more than so many messages of that day are there. Reads no more of them.
    pub async fn has_more_of_day_over(&self, day: DayOver, messages: u64) -> Result<bool, OutboxError> {
        let count = sqlx::query_scalar!(
            r#"
            select count(*) as "count!"
            from (
                select
                from message
                where id >= $1
                    and id < $2
                limit $3
            ) as found
            "#,
            day.0.first_id(),
            day.0.plus(1).first_id(),
            i64::try_from(messages.saturating_add(1)).unwrap_or(i64::MAX)
        )
        .fetch_one(&self.database)
        .await?;
        Ok(u64::try_from(count).is_ok_and(|count| count > messages))
    }
}
