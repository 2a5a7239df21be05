//! The lanes: messages of one chain, priority and client wait in one line.
//!
//! Owns the numbers that `pending` knows them by, remembered by every process; who goes next is decided by a claim.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{PoisonError, RwLock},
};

use super::{NewMessage, OutboxError, database::Database};
use crate::message::{ClientId, Priority};

/// What tells a lane from another.
type Key = (String, Priority, ClientId);

/// The lanes that this process has met. A lane is never removed, so what is remembered stays true.
#[derive(Default)]
pub(super) struct Lanes {
    known: RwLock<BTreeMap<Key, i32>>,
}

impl Lanes {
    /// The lane of each message, in their order. A lane met for the first time costs two statements.
    pub(super) async fn of<'a>(
        &self,
        database: &Database,
        messages: impl IntoIterator<Item = &'a NewMessage>,
    ) -> Result<Vec<i32>, OutboxError> {
        let keys: Vec<Key> = messages.into_iter().map(key).collect();
        if let Some(lanes) = self.recall(&keys) {
            return Ok(lanes);
        }
        let wanted: BTreeSet<&Key> = keys.iter().collect();
        let found = find_or_make(database, &wanted).await?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).extend(found);
        self.recall(&keys).ok_or_else(|| OutboxError::Unreadable("a lane that was made is not there".into()))
    }

    fn recall(&self, keys: &[Key]) -> Option<Vec<i32>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| known.get(key).copied()).collect()
    }
}

fn key(new: &NewMessage) -> Key {
    (new.chain.clone(), new.message.priority, new.message.client.clone())
}

/// Sorted, so that two processes that meet the same lanes do not wait for each other in a circle.
async fn find_or_make(database: &Database, wanted: &BTreeSet<&Key>) -> Result<Vec<(Key, i32)>, OutboxError> {
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
            let priority = Priority::parse(&row.priority)
                .ok_or_else(|| OutboxError::Unreadable(format!("unknown priority {}", row.priority)))?;
            Ok(((row.chain, priority, ClientId::new(&row.client)), row.id))
        })
        .collect()
}
