//! Leases: the right of one dispatcher to one message until a time.
//!
//! Owns their renewal and their return; they are given out by a claim and end with a settle.

use std::{collections::HashMap, time::Duration};

use uuid::Uuid;

use super::{Holding, Lease, Outbox, OutboxError, interval::interval};

impl Outbox {
    /// Lets leases last that long from now, and says of each, in their order, whether it holds. One statement.
    pub async fn renew(&self, leases: &[Lease], length: Duration) -> Result<Vec<(Lease, Holding)>, OutboxError> {
        let (ids, tokens) = columns(leases);
        let rows = self
            .database
            .repeat(|| async {
                sqlx::query!(
                    r#"
                with held as materialized (
                    select pending.id
                    from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
                    join pending
                        on pending.id = lease.id
                        and pending.token = lease.token
                    order by pending.id
                    for update of pending
                )
                update pending
                set due_at = now() + $3::interval
                from held
                where pending.id = held.id
                returning pending.id, pending.token as "token!", pending.cancel_requested
                "#,
                    &ids,
                    &tokens,
                    interval(length)
                )
                .fetch_all(&self.database)
                .await
            })
            .await?;
        let held: HashMap<(Uuid, i64), bool> =
            rows.into_iter().map(|row| ((row.id, row.token), row.cancel_requested)).collect();
        let holding = |lease: &Lease| match held.get(&(lease.id.as_uuid(), lease.token)) {
            Some(&cancel_requested) => (*lease, Holding::Held { cancel_requested }),
            None => (*lease, Holding::Lost),
        };
        Ok(leases.iter().map(holding).collect())
    }

    /// Gives back messages whose sending the holder has not begun: they are due at once, as they were before the
    /// claim, and no round is spent. Says how many it gave back; for the others the lease was lost. One statement.
    pub async fn release(&self, leases: &[Lease]) -> Result<u64, OutboxError> {
        self.postpone(leases, Duration::ZERO).await
    }

    /// Gives back like [`release`](Self::release), but the messages are due only after a pause, or when they have to end
    /// if that is earlier: for what this process cannot send and another may.
    pub async fn postpone(&self, leases: &[Lease], pause: Duration) -> Result<u64, OutboxError> {
        let (ids, tokens) = columns(leases);
        let released = self
            .database
            .repeat(|| async {
                sqlx::query_scalar!(
                    r#"
                with held as materialized (
                    select pending.id
                    from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
                    join pending
                        on pending.id = lease.id
                        and pending.token = lease.token
                    order by pending.id
                    for update of pending
                ),
                released as (
                    update pending
                    set
                        status = case when pending.attempts = 0 then 'NOT_YET_SENT' else 'REQUIRED_RESEND' end::status,
                        -- Called off in the meantime: the next claim sees to it at once.
                        due_at = case
                            when pending.cancel_requested then now()
                            else least(now() + $3::interval, pending.expire_at, pending.give_up_at)
                        end,
                        token = null,
                        begun_at = null,
                        provider = case when pending.ask_first then pending.provider end
                    from held
                    where pending.id = held.id
                    returning pending.id, pending.status
                ),
                tallied as (
                    insert into tally (day, status, n)
                    select day_of(id), status, sum(n)
                    from (
                        select id, 'IN_PROCESS'::status as status, -1 as n
                        from released
                        union all
                        select id, status, 1
                        from released
                    ) as change
                    group by day_of(id), status
                )
                select count(*) as "count!"
                from released
                "#,
                    &ids,
                    &tokens,
                    interval(pause)
                )
                .fetch_one(&self.database)
                .await
            })
            .await?;
        Ok(u64::try_from(released).unwrap_or(0))
    }
}

fn columns(leases: &[Lease]) -> (Vec<Uuid>, Vec<i64>) {
    leases.iter().map(|lease| (lease.id.as_uuid(), lease.token)).unzip()
}
