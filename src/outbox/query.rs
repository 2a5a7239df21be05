//! Questions: where messages stand, and how they came there.
//!
//! Owns the reading of history; changes nothing.

use std::{sync::Arc, time::Duration};

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Event, EventKind, MessageStatus, Outbox, OutboxError,
    attempts::{from_json, parse_class, parse_scope, recipients},
    days::id_range,
    error::{read_priority, unreadable},
    skips,
};
use crate::{
    delivery::{ProviderName, Status, Verdict},
    message::{ClientId, EmailAddress, MessageId, RecipientIndex},
};

/// What a message was seen as: another one where it has changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusVersion(Arc<str>);

/// A message with one line of its history; the message's own columns are the same in each.
struct Row {
    id: Uuid,
    version: String,
    client: String,
    status: String,
    accepted_at: OffsetDateTime,
    due_at: Option<OffsetDateTime>,
    finished_at: Option<OffsetDateTime>,
    rounds: i32,
    chain: String,
    priority: Option<String>,
    is_paused: bool,
    provider: Option<String>,
    correlation_id: String,
    document_type: Option<String>,
    recipient_count: i32,
    /// Only in the first line.
    recipients: Option<Vec<String>>,
    kind: Option<String>,
    at: Option<OffsetDateTime>,
    round: Option<i32>,
    event_provider: Option<String>,
    class: Option<String>,
    scope: Option<String>,
    code: Option<String>,
    detail: Option<String>,
    provider_message_id: Option<String>,
    duration_us: Option<i64>,
    offered: Option<Vec<i16>>,
    verdicts: Option<serde_json::Value>,
    event_skipped: Option<serde_json::Value>,
    skipped: Option<serde_json::Value>,
    bound_to: Option<String>,
}

impl Outbox {
    /// Where messages stand and how they came there, in the order of the ids. Those that are unknown, or another
    /// client's if one is given, are left out. One statement, so that each is seen in one state.
    pub async fn status(
        &self,
        ids: &[MessageId],
        client: Option<&ClientId>,
    ) -> Result<Vec<MessageStatus>, OutboxError> {
        let unseen = ids.iter().map(|id| (*id, None)).collect::<Vec<_>>();
        let told = self.told(&unseen, client).await?;
        Ok(told.into_iter().map(|(status, _)| status).collect())
    }

    /// Where those of these messages stand that are not as they were seen, each with what it is seen as now. What was
    /// never seen is told in any case, if it is there. One statement, whoever changed what and wherever.
    pub async fn changes(
        &self,
        watched: &[(MessageId, Option<StatusVersion>)],
    ) -> Result<Vec<(MessageStatus, StatusVersion)>, OutboxError> {
        self.told(watched, None).await
    }

    async fn told(
        &self,
        watched: &[(MessageId, Option<StatusVersion>)],
        client: Option<&ClientId>,
    ) -> Result<Vec<(MessageStatus, StatusVersion)>, OutboxError> {
        let uuids: Vec<Uuid> = watched.iter().map(|(id, _)| id.as_uuid()).collect();
        let seen: Vec<Option<&str>> = watched.iter().map(|(_, seen)| seen.as_ref().map(|seen| &*seen.0)).collect();
        let (least, greatest) = id_range(&uuids);
        let client = client.map(ClientId::as_str);
        let statement = || async {
            sqlx::query_file_as!(Row, "src/outbox/status.sql", &uuids, client, least, greatest, &seen as _)
                .fetch_all(&self.database)
                .await
        };
        let rows = self.database.repeat(statement).await?;
        let mut statuses: Vec<(MessageStatus, StatusVersion)> = Vec::new();
        for row in rows {
            let event = row.event()?;
            match statuses.last_mut() {
                Some((last, _)) if last.id.as_uuid() == row.id => last.events.extend(event),
                _ => {
                    let version = StatusVersion(row.version.as_str().into());
                    statuses.push((row.into_status(event)?, version));
                }
            }
        }
        Ok(statuses)
    }
}

impl Row {
    fn into_status(self, event: Option<Event>) -> Result<MessageStatus, OutboxError> {
        let recipients = self.recipients.unwrap_or_default();
        Ok(MessageStatus {
            id: MessageId::from_uuid(self.id).map_err(unreadable)?,
            client: ClientId::new(&self.client),
            status: Status::parse(&self.status)
                .ok_or_else(|| unreadable(format_args!("unknown status {}", self.status)))?,
            accepted_at: self.accepted_at,
            due_at: self.due_at,
            finished_at: self.finished_at,
            rounds: u32::try_from(self.rounds).unwrap_or(0),
            chain: self.chain,
            priority: self.priority.as_deref().map(read_priority).transpose()?,
            is_paused: self.is_paused,
            skipped: skips::from_json(self.skipped)?,
            bound_to: self.bound_to.as_deref().map(ProviderName::new),
            provider: self.provider.as_deref().map(ProviderName::new),
            correlation_id: self.correlation_id,
            document_type: self.document_type,
            recipients: recipients
                .iter()
                .map(|address| EmailAddress::parse(address))
                .collect::<Result<_, _>>()
                .map_err(|error| unreadable(format_args!("an address {error}")))?,
            events: event.into_iter().collect(),
        })
    }

    /// The line of the history; `None` for a message that has none yet.
    fn event(&self) -> Result<Option<Event>, OutboxError> {
        let (Some(kind), Some(at)) = (&self.kind, self.at) else { return Ok(None) };
        Ok(Some(Event {
            kind: EventKind::parse(kind).ok_or_else(|| unreadable(format_args!("unknown event {kind}")))?,
            at,
            duration: self.duration_us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))),
            round: self.round.and_then(|round| u32::try_from(round).ok()),
            provider: self.event_provider.as_deref().map(ProviderName::new),
            class: self.class.as_deref().map(parse_class).transpose()?,
            scope: self.scope.as_deref().map(parse_scope).transpose()?,
            code: self.code.clone(),
            detail: self.detail.clone(),
            provider_message_id: self.provider_message_id.clone(),
            verdicts: self.verdicts()?,
            skipped: skips::from_json(self.event_skipped.clone())?,
        }))
    }

    fn verdicts(&self) -> Result<Vec<(RecipientIndex, Verdict)>, OutboxError> {
        if let Some(json) = &self.verdicts {
            return from_json(json.clone());
        }
        let (Some(class), Some(scope)) = (&self.class, &self.scope) else { return Ok(Vec::new()) };
        let verdict = Verdict {
            class: parse_class(class)?,
            scope: parse_scope(scope)?,
            code: self.code.clone().unwrap_or_default(),
            detail: self.detail.clone().unwrap_or_default(),
        };
        let offered = match &self.offered {
            Some(offered) => recipients(offered),
            None => (0..u16::try_from(self.recipient_count).unwrap_or(0)).map(RecipientIndex).collect(),
        };
        Ok(offered.into_iter().map(|recipient| (recipient, verdict.clone())).collect())
    }
}
