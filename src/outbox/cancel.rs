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

/// Whether it is only said what would become of messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    Yes,
    No,
}

/// A message that was not finished.
struct Met {
    id: MessageId,
    /// Where it stands now.
    status: Status,
    /// Whether that changed anything for it.
    is_called_off: bool,
}

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
            let met = self.cancel_unfinished(&asked, client, Trial::No).await?;
            standings.extend(met.into_iter().map(|met| (met.id, met.status)));
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

    /// Calls messages off, whoever's they are, and says of those that this changes where they stand then. One statement;
    /// where its answer was lost it is made again, and tells only of what was left.
    pub async fn call_off(&self, ids: &[MessageId]) -> Result<Vec<Status>, OutboxError> {
        let met = self.cancel_unfinished(ids, None, Trial::No).await?;
        Ok(met.into_iter().filter(|met| met.is_called_off).map(|met| met.status).collect())
    }

    /// What [`call_off`](Self::call_off) would say, without doing it. One statement.
    pub async fn would_call_off(&self, ids: &[MessageId]) -> Result<Vec<Status>, OutboxError> {
        let met = self.cancel_unfinished(ids, None, Trial::Yes).await?;
        Ok(met.into_iter().filter(|met| met.is_called_off).map(|met| met.status).collect())
    }

    /// Calls off those that are not finished, unless it is a trial, and says where they stand.
    async fn cancel_unfinished(
        &self,
        ids: &[MessageId],
        client: Option<&ClientId>,
        trial: Trial,
    ) -> Result<Vec<Met>, OutboxError> {
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let (least, greatest) = id_range(&uuids);
        let client = client.map(ClientId::as_str);
        let is_trial = trial == Trial::Yes;
        let statement = || async {
            sqlx::query_file!("src/outbox/cancel.sql", &uuids, client, least, greatest, is_trial)
                .fetch_all(&self.database)
                .await
        };
        let rows = self.database.repeat(statement).await?;
        let read = |id: Uuid, status: &str, is_called_off: bool| {
            let status = Status::parse(status).ok_or_else(|| unreadable(format_args!("unknown status {status}")))?;
            Ok(Met { id: MessageId::from_uuid(id).map_err(unreadable)?, status, is_called_off })
        };
        rows.into_iter().map(|row| read(row.id, &row.status, row.is_called_off)).collect()
    }
}
