//! The lanes: messages of one chain, priority and client wait in one line.
//!
//! Owns the numbers that `pending` knows them by, remembered by every process, and whether a lane is paused. Who goes
//! next is the dispatcher's to say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{PoisonError, RwLock},
};

use super::{NewMessage, Outbox, OutboxError, database::Database, error::read_priority};
use crate::message::{ClientId, Priority};

/// The number of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(i32);

impl LaneId {
    /// The lane of that number.
    pub(crate) fn new(id: i32) -> Self {
        Self(id)
    }

    /// Its number, as the tables have it.
    pub(crate) fn as_i32(self) -> i32 {
        self.0
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Messages of one chain, priority and client: they wait in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// The chain its messages are offered to.
    pub chain: String,
    /// Their priority.
    pub priority: Priority,
    /// Who sent them.
    pub client: ClientId,
    /// Whether an operator has paused it: nothing is claimed from it.
    pub paused: bool,
}

/// What tells a lane from another.
pub(super) type Key = (String, Priority, ClientId);

/// The lanes that this process has met. A lane is never removed, so what is remembered stays true.
#[derive(Default)]
pub(super) struct Lanes {
    known: RwLock<BTreeMap<Key, LaneId>>,
}

impl Lanes {
    /// The lane of each message, in their order. A lane met for the first time costs two statements.
    pub(super) async fn of<'a>(
        &self,
        database: &Database,
        messages: impl IntoIterator<Item = &'a NewMessage>,
    ) -> Result<Vec<LaneId>, OutboxError> {
        let keys: Vec<Key> = messages.into_iter().map(key).collect();
        if let Some(lanes) = self.recall(&keys) {
            return Ok(lanes);
        }
        let wanted: BTreeSet<&Key> = keys.iter().collect();
        let found = find_or_make(database, &wanted).await?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).extend(found);
        self.recall(&keys).ok_or_else(|| OutboxError::Unreadable("a lane that was made is not there".into()))
    }

    fn recall(&self, keys: &[Key]) -> Option<Vec<LaneId>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| known.get(key).copied()).collect()
    }
}

impl Outbox {
    /// Pauses a lane, or lets it go on; one that nothing was accepted in yet is made. No claim takes anything from it
    /// from then on; a process that has not looked since may still send at once what it accepts itself. `false` if no
    /// message and no process knows the chain, and nothing was done. One statement.
    pub async fn set_lane_mode(
        &self,
        chain: &str,
        priority: Priority,
        client: &ClientId,
        paused: bool,
    ) -> Result<bool, OutboxError> {
        let statement = || async {
            sqlx::query!(
                r#"
                insert into lane (chain, priority, client, paused)
                select $1, $2::text::priority, $3, $4
                where exists (select from lane where chain = $1)
                    or exists (select from dispatcher where $1 = any (chains))
                on conflict (chain, priority, client) do update
                set paused = excluded.paused
                "#,
                chain,
                priority.as_str(),
                client.as_str(),
                paused
            )
            .execute(&self.database)
            .await
        };
        Ok(self.database.repeat(statement).await?.rows_affected() > 0)
    }
}

fn key(new: &NewMessage) -> Key {
    (new.chain.clone(), new.message.priority, new.message.client.clone())
}

/// Sorted, so that two processes that meet the same lanes do not wait for each other in a circle.
pub(super) async fn find_or_make(
    database: &Database,
    wanted: &BTreeSet<&Key>,
) -> Result<Vec<(Key, LaneId)>, OutboxError> {
    let chains: Vec<&str> = wanted.iter().map(|(chain, ..)| chain.as_str()).collect();
    let priorities: Vec<&str> = wanted.iter().map(|(_, priority, _)| priority.as_str()).collect();
    let clients: Vec<&str> = wanted.iter().map(|(.., client)| client.as_str()).collect();
    database
        .repeat(|| async {
            sqlx::query!(
                r#"
            insert into lane (chain, priority, client)
            select chain, priority::priority, client
            from unnest($1::text[], $2::text[], $3::text[]) as wanted (chain, priority, client)
            where not exists (
                select
                from lane
                where lane.chain = wanted.chain
                    and lane.priority = wanted.priority::priority
                    and lane.client = wanted.client
            )
            on conflict do nothing
            "#,
                &chains as _,
                &priorities as _,
                &clients as _
            )
            .execute(database)
            .await
        })
        .await?;
    let rows = sqlx::query!(
        r#"
        select lane.id, lane.chain, lane.priority::text as "priority!", lane.client
        from unnest($1::text[], $2::text[], $3::text[]) as wanted (chain, priority, client)
        join lane
            on lane.chain = wanted.chain
            and lane.priority = wanted.priority::priority
            and lane.client = wanted.client
        "#,
        &chains as _,
        &priorities as _,
        &clients as _
    )
    .fetch_all(database)
    .await?;
    rows.into_iter()
        .map(|row| {
            let priority = read_priority(&row.priority)?;
            Ok(((row.chain, priority, ClientId::new(&row.client)), LaneId(row.id)))
        })
        .collect()
}
