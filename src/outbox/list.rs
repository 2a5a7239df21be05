//! Lists of messages, newest first, by what they have to match.
//!
//! Owns how far is looked: a day at a time, and no further in one page than a page is worth. Changes nothing.

use time::{Date, OffsetDateTime};
use uuid::Uuid;

use super::{Outbox, OutboxError, attempts::parse_class, days::Day, error::unreadable};
use crate::{
    delivery::{Class, ProviderName, Status},
    message::{ClientId, MessageId},
};

/// How many messages one statement examines at most.
const WINDOW: usize = 2_000;

/// How many messages are examined for one page. Where few of them match, the page is short.
const EXAMINED: usize = 20_000;

/// A transaction in which messages are read in the order of their ids, whatever Postgres believes of the size of a table:
/// the bounds alone look to it as if they left a few, and it would read and sort the whole day.
const BY_INDEX: &str = "set local enable_seqscan = off;";

/// What messages have to match: everything that is set. No `Debug`, since it may hold an address.
#[derive(Clone, Default)]
pub struct Filter {
    /// Any of these; empty: any at all.
    pub statuses: Vec<Status>,
    /// Who sent it.
    pub client: Option<ClientId>,
    /// The provider asked last.
    pub provider: Option<ProviderName>,
    /// An address among its recipients, in upper or lower case.
    pub recipient: Option<String>,
    /// One of its tags.
    pub tag: Option<String>,
    /// Its correlation id.
    pub correlation_id: Option<String>,
    /// Its document type.
    pub document_type: Option<String>,
    /// Accepted at that time or later.
    pub accepted_after: Option<OffsetDateTime>,
    /// Accepted before that time.
    pub accepted_before: Option<OffsetDateTime>,
    /// What the last attempt told.
    pub last_outcome: Option<Class>,
}

/// How far a list has come: what is below is still to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Uuid);

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first. Fewer than were asked for where few match, perhaps none, also where others follow.
    pub messages: Vec<Summary>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<Cursor>,
}

/// A message as a line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The message.
    pub id: MessageId,
    /// Who sent it.
    pub client: ClientId,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub accepted_at: OffsetDateTime,
    /// When a dispatcher looks at it next.
    pub due_at: Option<OffsetDateTime>,
    /// When it was finished.
    pub finished_at: Option<OffsetDateTime>,
    /// The attempts in its history.
    pub attempts: u32,
    /// The rounds spent.
    pub rounds: u32,
    /// The provider asked last.
    pub last_provider: Option<ProviderName>,
    /// What it told.
    pub last_outcome: Option<Class>,
    /// The code it gave.
    pub last_code: Option<String>,
    /// What ties it to the caller's own work.
    pub correlation_id: String,
    /// What it carries, in the caller's word.
    pub document_type: Option<String>,
}

/// How much was examined, with one of the messages that match. The first two are the same in each.
struct Row {
    examined: i64,
    last: Option<Uuid>,
    id: Option<Uuid>,
    client: Option<String>,
    accepted_at: Option<OffsetDateTime>,
    correlation_id: Option<String>,
    document_type: Option<String>,
    status: Option<String>,
    due_at: Option<OffsetDateTime>,
    finished_at: Option<OffsetDateTime>,
    attempts: Option<i32>,
    rounds: Option<i32>,
    last_provider: Option<String>,
    last_class: Option<String>,
    last_code: Option<String>,
}

/// The ids that a statement looks at, all of one day, and how many of them.
#[derive(Clone, Copy)]
struct Window {
    least: Uuid,
    below: Uuid,
    size: usize,
}

/// What a statement found.
struct Found {
    examined: usize,
    last: Option<Uuid>,
    messages: Vec<Summary>,
}

impl Cursor {
    /// Its bytes.
    pub fn into_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The cursor of those bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl From<MessageId> for Cursor {
    fn from(id: MessageId) -> Self {
        Self(id.as_uuid())
    }
}

impl Outbox {
    /// Up to that many of the messages that match, newest first, from where the list has come.
    ///
    /// One statement for the days that hold such messages, then at least one for each day that is looked into, each in a
    /// transaction. Messages that come meanwhile are newer, so they move nothing.
    pub async fn list(&self, filter: &Filter, from: Option<Cursor>, limit: usize) -> Result<Page, OutboxError> {
        let mut messages: Vec<Summary> = Vec::new();
        let mut left = EXAMINED;
        for (first, next) in self.days_holding(&filter.statuses).await? {
            let least = filter.accepted_after.map_or(first, |time| first.max(first_id_at(time, 0)));
            let below = filter.accepted_before.map_or(next, |time| next.min(first_id_at(time, 1)));
            let mut below = from.map_or(below, |from| below.min(from.0));
            // At first as many as would do if each of them matched.
            let mut size = limit + 1;
            while least < below {
                // One more, to know whether there is one.
                let wanted = limit + 1 - messages.len();
                let window = Window { least, below, size: size.min(WINDOW).min(left) };
                let found = self.examine(filter, window, wanted).await?;
                messages.extend(found.messages);
                if messages.len() > limit {
                    messages.truncate(limit);
                    return Ok(Page { next: messages.last().map(|last| last.id.into()), messages });
                }
                left -= found.examined.min(left);
                let (Some(last), true) = (found.last, found.examined == window.size) else { break };
                if left == 0 {
                    return Ok(Page { messages, next: Some(Cursor(last)) });
                }
                below = last;
                size = size.saturating_mul(4);
            }
        }
        Ok(Page { messages, next: None })
    }

    /// The ids of the days with messages in one of these states, the newest first. The counts tell.
    async fn days_holding(&self, statuses: &[Status]) -> Result<Vec<(Uuid, Uuid)>, OutboxError> {
        let words = words(statuses);
        let statement = || async {
            sqlx::query_scalar!(
                r#"
                select distinct day as "day!"
                from tally_sum()
                where $1::text[] is null
                    or status = any ($1::status[])
                order by day desc
                "#,
                words.as_deref() as _
            )
            .fetch_all(&self.database)
            .await
        };
        let days: Vec<Date> = self.database.repeat(statement).await?;
        Ok(days.into_iter().map(|day| Day::from(day).ids()).collect())
    }

    async fn examine(&self, filter: &Filter, window: Window, wanted: usize) -> Result<Found, OutboxError> {
        let is = |status: fn(Status) -> bool| {
            !filter.statuses.is_empty() && filter.statuses.iter().all(|&each| status(each))
        };
        let rows = if is(|status| !status.is_finished()) {
            let only_failed = is(Status::is_failed);
            self.database.repeat(|| self.examine_pending(filter, window, wanted, only_failed)).await?
        } else {
            self.database.repeat(|| self.examine_all(filter, window, wanted)).await?
        };
        let (examined, last) = rows.first().map_or((0, None), |row| (row.examined, row.last));
        let messages = rows.into_iter().filter_map(Row::into_summary).collect::<Result<_, _>>()?;
        Ok(Found { examined: usize::try_from(examined).unwrap_or(0), last, messages })
    }

    async fn examine_all(&self, filter: &Filter, window: Window, wanted: usize) -> sqlx::Result<Vec<Row>> {
        let words = words(&filter.statuses);
        let mut begun = self.database.begin(BY_INDEX).await?;
        let rows = sqlx::query_file_as!(
            Row,
            "src/outbox/list.sql",
            window.least,
            window.below,
            count(window.size),
            count(wanted),
            filter.client.as_ref().map(ClientId::as_str),
            filter.correlation_id.as_deref(),
            filter.document_type.as_deref(),
            filter.tag.as_deref(),
            filter.recipient.as_deref(),
            filter.accepted_after,
            filter.accepted_before,
            words.as_deref() as _,
            filter.provider.as_ref().map(ProviderName::as_str),
            filter.last_outcome.map(Class::as_str)
        )
        .fetch_all(&mut begun)
        .await?;
        begun.commit().await?;
        Ok(rows)
    }

    async fn examine_pending(
        &self,
        filter: &Filter,
        window: Window,
        wanted: usize,
        only_failed: bool,
    ) -> sqlx::Result<Vec<Row>> {
        let words = words(&filter.statuses);
        let mut begun = self.database.begin(BY_INDEX).await?;
        let rows = sqlx::query_file_as!(
            Row,
            "src/outbox/list_pending.sql",
            window.least,
            window.below,
            count(window.size),
            count(wanted),
            filter.client.as_ref().map(ClientId::as_str),
            filter.correlation_id.as_deref(),
            filter.document_type.as_deref(),
            filter.tag.as_deref(),
            filter.recipient.as_deref(),
            filter.accepted_after,
            filter.accepted_before,
            words.as_deref() as _,
            filter.provider.as_ref().map(ProviderName::as_str),
            filter.last_outcome.map(Class::as_str),
            only_failed
        )
        .fetch_all(&mut begun)
        .await?;
        begun.commit().await?;
        Ok(rows)
    }
}

impl Row {
    /// The message; `None` where none matches.
    fn into_summary(self) -> Option<Result<Summary, OutboxError>> {
        Some(self.id?).map(|id| {
            let missing = || unreadable("a message in a list is not whole");
            let status = self.status.as_deref().ok_or_else(missing)?;
            let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
            Ok(Summary {
                id: MessageId::from_uuid(id).map_err(unreadable)?,
                client: ClientId::new(&self.client.ok_or_else(missing)?),
                status: Status::parse(status).ok_or_else(|| unreadable(format_args!("unknown status {status}")))?,
                accepted_at: self.accepted_at.ok_or_else(missing)?,
                due_at: self.due_at,
                finished_at: self.finished_at,
                attempts: number(self.attempts),
                rounds: number(self.rounds),
                last_provider: self.last_provider.as_deref().map(ProviderName::new),
                last_outcome: self.last_class.as_deref().map(parse_class).transpose()?,
                last_code: self.last_code,
                correlation_id: self.correlation_id.ok_or_else(missing)?,
                document_type: self.document_type,
            })
        })
    }
}

/// The words of the statuses; `None` for any.
fn words(statuses: &[Status]) -> Option<Vec<String>> {
    (!statuses.is_empty()).then(|| statuses.iter().map(|status| status.as_str().to_owned()).collect())
}

/// Below every id of that many milliseconds after that time.
fn first_id_at(time: OffsetDateTime, later_ms: i128) -> Uuid {
    let ms = time.unix_timestamp_nanos().div_euclid(1_000_000) + later_ms;
    Uuid::from_u128(u128::try_from(ms).unwrap_or(0) << 80)
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
