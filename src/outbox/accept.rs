//! Accept: messages are stored, each at most once for its idempotency key.
//!
//! Owns the race of two calls with one key; whether a message may be sent at all was decided before.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Accepted, IdempotencyKey, LaneId, NewMessage, Outbox, OutboxError,
    content::{self, unknown_outcome_word},
    error::unreadable,
    interval::interval,
};
use crate::{
    delivery::{ProviderName, Status},
    message::{ClientId, MessageId},
};

/// How often the winner of a key is looked for: it can be removed between two statements, and then the key is free.
const TRIES: u32 = 3;

/// Terms for messages of any time, none of which is claimed.
const ANY_TIME: Terms = Terms { lease: Duration::ZERO, slack: Duration::from_secs(100 * 366 * 24 * 60 * 60) };

/// A message on its way into the tables.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) new: &'a NewMessage,
    /// Its content as bytes.
    pub(super) content: &'a [u8],
    pub(super) lane: LaneId,
    /// If it is stored already claimed: the token, and the provider that is asked first.
    pub(super) claim: Option<(i64, &'a ProviderName)>,
}

/// Under what conditions rows are stored.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// How long the leases of those last that are stored already claimed.
    pub(super) lease: Duration,
    /// How far the time of an id may be from the database's.
    pub(super) slack: Duration,
}

impl Outbox {
    /// Stores messages and says, in their order, what became of each. What is answered is committed.
    ///
    /// One statement; a second one where a key was used before; two more where a lane is met for the first time. Made
    /// again with the same ids it stores nothing twice. Whoever has single messages of many callers takes
    /// [`Intake`](super::Intake).
    pub async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, OutboxError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let contents: Vec<Vec<u8>> = messages.iter().map(|new| content::encode(&new.message.email)).collect();
        let lanes = self.lanes.of(&self.database, messages).await?;
        let row = |i: usize| Row { new: &messages[i], content: &contents[i], lane: lanes[i], claim: None };
        let mut answers: Vec<Option<Accepted>> = vec![None; messages.len()];
        for _ in 0..TRIES {
            let open: Vec<usize> = (0..messages.len()).filter(|&i| answers[i].is_none()).collect();
            let rows: Vec<Row<'_>> = open.iter().map(|&i| row(i)).collect();
            let fresh = self.hot.repeat(|| self.store(&rows, ANY_TIME)).await?;
            let (won, lost): (Vec<_>, Vec<_>) =
                open.into_iter().partition(|&i| fresh.contains(&messages[i].message.id.as_uuid()));
            for i in won {
                answers[i] = Some(Accepted::New);
            }
            if lost.is_empty() {
                break;
            }
            let keyed: Vec<&NewMessage> = lost.iter().map(|&i| &messages[i]).collect();
            for (i, answer) in lost.into_iter().zip(self.answers_to_losers(&keyed).await?) {
                answers[i] = answer;
            }
        }
        let answers: Option<Vec<_>> = answers.into_iter().collect();
        answers.ok_or_else(|| OutboxError::Unavailable("an idempotency key comes and goes too quickly".into()))
    }

    /// What to answer to messages whose keys were used before, in their order; `None` where the message of that key is
    /// gone meanwhile, so that the key is free again.
    pub(super) async fn answers_to_losers(&self, lost: &[&NewMessage]) -> Result<Vec<Option<Accepted>>, OutboxError> {
        let winners = self.winners(lost.iter().filter_map(|new| client_and_key(new))).await?;
        let answer = |new: &&NewMessage| {
            let winner = winners.get(&client_and_key(new)?)?;
            // This very call, made again after its answer was lost.
            let again = winner.id == new.message.id;
            Some(if again { Accepted::New } else { winner.answer(new.idempotency.as_ref()) })
        };
        Ok(lost.iter().map(answer).collect())
    }

    /// What became of the messages that have these keys, in their order; `None` where no message has it. Writes nothing.
    /// One statement.
    pub async fn recall(
        &self,
        client: &ClientId,
        keys: &[&IdempotencyKey],
    ) -> Result<Vec<Option<Accepted>>, OutboxError> {
        let client = client.as_str();
        let distinct: HashSet<&str> = keys.iter().map(|key| key.key.as_str()).collect();
        let winners = self.winners(distinct.into_iter().map(|key| (client, key))).await?;
        let answer = |key: &&IdempotencyKey| Some(winners.get(&(client, key.key.as_str()))?.answer(Some(*key)));
        Ok(keys.iter().map(answer).collect())
    }

    /// Stores those whose key is new, and says which they are. One statement; made again it stores nothing twice.
    pub(super) async fn store(&self, rows: &[Row<'_>], terms: Terms) -> sqlx::Result<HashSet<Uuid>> {
        if let [row] = rows
            && row.new.idempotency.is_none()
        {
            return Ok(self.store_one(row, terms).await?.into_iter().collect());
        }
        let mut columns = MessageColumns::default();
        for row in rows {
            columns.push(row);
        }
        let ids = sqlx::query_file_scalar!(
            "src/outbox/accept.sql",
            &columns.id,
            &columns.client as _,
            &columns.accepted_at,
            &columns.chain as _,
            &columns.priority as _,
            &columns.unknown_outcome as _,
            &columns.sender as _,
            &columns.recipients,
            &columns.tags,
            &columns.document_type as _,
            &columns.correlation_id as _,
            &columns.traceparent as _,
            &columns.tracestate as _,
            &columns.key as _,
            &columns.fingerprint as _,
            &columns.content as _,
            &columns.lane,
            &columns.send_at,
            &columns.expire_at as _,
            &columns.give_up_at,
            content::VERSION,
            &columns.token as _,
            &columns.provider as _,
            interval(terms.lease),
            interval(terms.slack)
        )
        .fetch_all(&self.hot)
        .await?;
        Ok(ids.into_iter().collect())
    }

    /// The messages that have these keys, and where they stand.
    async fn winners<'a>(
        &self,
        keys: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<HashMap<(&'a str, &'a str), Winner>, OutboxError> {
        let keys: Vec<(&str, &str)> = keys.collect();
        let (clients, names): (Vec<&str>, Vec<&str>) = keys.iter().copied().unzip();
        let statement = || async {
            sqlx::query!(
                r#"
            select
                wanted.nth as "nth!",
                idempotency.message_id as "message_id!",
                idempotency.fingerprint as "fingerprint!",
                coalesce(pending.status, final.status)::text as status
            from unnest($1::text[], $2::text[]) with ordinality as wanted (client, key, nth)
            join idempotency
                on idempotency.client = wanted.client
                and idempotency.key = wanted.key
            left join pending
                on pending.id = idempotency.message_id
            left join lateral (
                select event.status
                from event
                where event.message_id = idempotency.message_id
                    and event.status is not null
                limit 1
            ) as final on true
            "#,
                &clients as _,
                &names as _
            )
            .fetch_all(&self.database)
            .await
        };
        let rows = self.database.repeat(statement).await?;
        let mut winners = HashMap::new();
        for row in rows {
            let id = MessageId::from_uuid(row.message_id).map_err(unreadable)?;
            let status = row.status.as_deref().and_then(Status::parse);
            let nth = usize::try_from(row.nth - 1).unwrap_or(usize::MAX);
            if let Some(key) = keys.get(nth) {
                winners.insert(*key, Winner { id, fingerprint: row.fingerprint, status });
            }
        }
        Ok(winners)
    }
}

/// The message that has a key.
struct Winner {
    id: MessageId,
    fingerprint: Vec<u8>,
    status: Option<Status>,
}

impl Winner {
    /// What to answer to another message that came with the key of this one.
    fn answer(&self, key: Option<&IdempotencyKey>) -> Accepted {
        let is_same = key.is_some_and(|key| key.fingerprint == self.fingerprint);
        if is_same {
            Accepted::Duplicate { id: self.id, status: self.status }
        } else {
            Accepted::KeyReused { id: self.id }
        }
    }
}

fn client_and_key(new: &NewMessage) -> Option<(&str, &str)> {
    new.idempotency.as_ref().map(|key| (new.message.client.as_str(), key.key.as_str()))
}

/// The messages as columns, one array each.
#[derive(Default)]
struct MessageColumns<'a> {
    id: Vec<Uuid>,
    client: Vec<&'a str>,
    accepted_at: Vec<OffsetDateTime>,
    chain: Vec<&'a str>,
    priority: Vec<&'a str>,
    unknown_outcome: Vec<&'a str>,
    sender: Vec<&'a str>,
    recipients: Vec<String>,
    tags: Vec<String>,
    document_type: Vec<Option<&'a str>>,
    correlation_id: Vec<&'a str>,
    traceparent: Vec<&'a str>,
    tracestate: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    fingerprint: Vec<Option<&'a [u8]>>,
    content: Vec<&'a [u8]>,
    lane: Vec<i32>,
    send_at: Vec<OffsetDateTime>,
    expire_at: Vec<Option<OffsetDateTime>>,
    give_up_at: Vec<OffsetDateTime>,
    token: Vec<Option<i64>>,
    provider: Vec<Option<&'a str>>,
}

impl<'a> MessageColumns<'a> {
    fn push(&mut self, row: &Row<'a>) {
        let new = row.new;
        let message = &*new.message;
        self.id.push(message.id.as_uuid());
        self.client.push(message.client.as_str());
        self.accepted_at.push(message.accepted_at);
        self.chain.push(&new.chain);
        self.priority.push(message.priority.as_str());
        self.unknown_outcome.push(unknown_outcome_word(message.unknown_outcome));
        self.sender.push(message.email.from.address.as_str());
        self.recipients.push(lines(message.email.recipients().map(|(_, mailbox)| mailbox.address.as_str())));
        self.tags.push(lines(message.email.tags.iter().map(String::as_str)));
        self.document_type.push(message.email.document_type.as_deref());
        self.correlation_id.push(&message.correlation_id);
        self.traceparent.push(&message.trace.traceparent);
        self.tracestate.push(&message.trace.tracestate);
        self.key.push(new.idempotency.as_ref().map(|key| key.key.as_str()));
        self.fingerprint.push(new.idempotency.as_ref().map(|key| key.fingerprint.as_slice()));
        self.content.push(row.content);
        self.lane.push(row.lane.as_i32());
        self.send_at.push(new.send_at);
        self.expire_at.push(new.expire_at);
        self.give_up_at.push(new.give_up_at);
        self.token.push(row.claim.map(|(token, _)| token));
        self.provider.push(row.claim.map(|(_, provider)| provider.as_str()));
    }
}

/// A list in one text, a line each: Postgres has no arrays of arrays of different lengths. Neither addresses nor tags
/// contain control characters.
pub(super) fn lines<'a>(list: impl Iterator<Item = &'a str>) -> String {
    list.collect::<Vec<_>>().join("\n")
}
