//! What can be seen of the lanes without taking anything: which there are, and when something is due in each.
//!
//! Owns statements that read the index of what is due alone. Says nothing of what a row waits for.

use time::OffsetDateTime;

use super::{Lane, LaneId, Outbox, OutboxError, error::read_priority};
use crate::message::ClientId;

/// A lane as it was seen from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSeen {
    /// The lane.
    pub lane: Lane,
    /// The earliest time at which something in it is due, be it past or to come; `None` if nothing is.
    pub earliest: Option<OffsetDateTime>,
}

impl Outbox {
    // Both among the statements whose plans are kept: one without a parameter is planned once in any session, and in
    // the others it could be planned for an empty table.

    /// Every lane there is, and when something is due in it. One statement; one step into the index for each lane, and
    /// over what vacuum has not been able to clean there.
    pub async fn look(&self) -> Result<Vec<LaneSeen>, OutboxError> {
        let statement = || async {
            sqlx::query!(
                r#"
            select
                lane.id as "id!",
                lane.chain as "chain!",
                lane.priority::text as "priority!",
                lane.client as "client!",
                lane.paused as "paused!",
                earliest.due_at as "due_at?"
            from lane
            left join lateral (
                select pending.due_at
                from pending
                where pending.lane = lane.id
                    and pending.due_at is not null
                order by pending.due_at
                limit 1
            ) as earliest on true
            "#
            )
            .fetch_all(&self.hot)
            .await
        };
        let rows = self.hot.repeat(statement).await?;
        let seen = rows.into_iter().map(|row| {
            let priority = read_priority(&row.priority)?;
            let id = LaneId::new(row.id);
            let lane = Lane { id, chain: row.chain, priority, client: ClientId::new(&row.client), paused: row.paused };
            Ok(LaneSeen { lane, earliest: row.due_at })
        });
        seen.collect()
    }

    /// When something is due next in each of these lanes, after the time given for it. One statement.
    pub async fn next_due(
        &self,
        lanes: &[(LaneId, OffsetDateTime)],
    ) -> Result<Vec<(LaneId, OffsetDateTime)>, OutboxError> {
        let ids: Vec<i32> = lanes.iter().map(|(lane, _)| lane.as_i32()).collect();
        let after: Vec<OffsetDateTime> = lanes.iter().map(|(_, after)| *after).collect();
        let statement = || async {
            sqlx::query!(
                r#"
            select asked.lane as "lane!", next.due_at as "due_at!"
            from unnest($1::integer[], $2::timestamptz[]) as asked (lane, after)
            cross join lateral (
                select pending.due_at
                from pending
                where pending.lane = asked.lane
                    and pending.due_at > asked.after
                order by pending.due_at
                limit 1
            ) as next
            "#,
                &ids,
                &after
            )
            .fetch_all(&self.hot)
            .await
        };
        let rows = self.hot.repeat(statement).await?;
        Ok(rows.into_iter().map(|row| (LaneId::new(row.lane), row.due_at)).collect())
    }
}
