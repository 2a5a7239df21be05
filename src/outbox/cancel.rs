//! Cancel: messages are called off.
//!
//! Owns what that means for a message that waits. One that is being sent stays with whoever has it: what comes of it then
//! is decided by [`crate::delivery::next`].

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::{Outbox, OutboxError, days::id_range, error::unreadable};
use crate::{
    delivery::Status,
    message::{ClientId, MessageId},
};

/// How often it is looked again for a message that was stored while it was looked for.
const TRIES: u32 = 3;

impl Outbox {
    /// Calls messages off, and says in their order where each stands now: finished or with a person if it waited,
    /// IN_PROCESS if somebody has it, who asks no further provider. `None` for those that are unknown, or another
    /// client's if one is given.
    ///
    /// One statement; a second where a message was finished before, which changes nothing. It may be made again.
    pub async fn cancel(
        &self,
        ids: &[MessageId],
        client: Option<&ClientId>,
    ) -> Result<Vec<Option<Status>>, OutboxError> {
        let mut standings: HashMap<MessageId, Status> = HashMap::new();
        let mut open: BTreeSet<MessageId> = ids.iter().copied().collect();
        for _ in 0..TRIES {
            if open.is_empty() {
                break;
            }
            let asked: Vec<MessageId> = open.iter().copied().collect();
            standings.extend(self.cancel_unfinished(&asked, client).await?);
            open.retain(|id| !standings.contains_key(id));
            if open.is_empty() {
                break;
            }
            // In a statement of its own, since what was finished a moment ago is no row any more and not yet an event to
            // the one before.
            let rest: Vec<MessageId> = open.into_iter().collect();
            let told = self.status(&rest, client).await?;
            let (finished, new): (Vec<_>, Vec<_>) = told.into_iter().partition(|told| told.status.is_finished());
            standings.extend(finished.into_iter().map(|told| (told.id, told.status)));
            open = new.into_iter().map(|told| told.id).collect();
        }
        if !open.is_empty() {
            return Err(OutboxError::Unavailable("a message comes and goes too quickly".to_owned()));
        }
        Ok(ids.iter().map(|id| standings.get(id).copied()).collect())
    }

    /// Calls off those that are not finished, and says where they stand.
    async fn cancel_unfinished(
        &self,
        ids: &[MessageId],
        client: Option<&ClientId>,
    ) -> Result<Vec<(MessageId, Status)>, OutboxError> {
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let (least, greatest) = id_range(&uuids);
        let client = client.map(ClientId::as_str);
        let statement = || async {
            sqlx::query_file!("src/outbox/cancel.sql", &uuids, client, least, greatest).fetch_all(&self.database).await
        };
        let rows = self.database.repeat(statement).await?;
        let read = |id: Uuid, status: &str| {
            let status = Status::parse(status).ok_or_else(|| unreadable(format_args!("unknown status {status}")))?;
            Ok((MessageId::from_uuid(id).map_err(unreadable)?, status))
        };
        rows.into_iter().map(|row| read(row.id, &row.status)).collect()
    }
}
