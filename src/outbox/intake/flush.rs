//! One group on its way into the tables.
//!
//! Owns what is done when it does not go well: a row that is refused, a connection that is lost, a wrong clock. Which
//! messages make a group is decided by the queue.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::Instant;
use uuid::Uuid;

use super::{Entry, Held, Receipt, Shared};
use crate::{
    delivery::ProviderName,
    message::{MessageId, UnknownOutcome},
    outbox::{
        Accepted, Claimed, LaneId, Lease, NewMessage, OutboxError,
        accept::{Row, Terms},
        error::{is_collision, is_lost_connection},
        openings::Opening,
    },
};

/// How far the time of an id may be from the database's before the clock is taken for wrong.
const SLACK: Duration = Duration::from_secs(15 * 60);

/// How often a message is given another id, or the message of its key looked for.
const TRIES: u32 = 3;

/// The pauses between two tries to reach the database, and how long it is tried in all.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// A message of a group, with the place it may have been given.
struct Member {
    entry: Entry,
    lane: LaneId,
    claim: Option<Place>,
    tries: u32,
}

/// The place at this process's dispatcher, and the token under which the message is stored for it.
struct Place {
    opening: Opening,
    token: i64,
}

/// Why a group was not stored.
enum Failed {
    /// Something in it was refused, or the tables are not as they should be.
    For(OutboxError),
    /// It may have been stored, or not.
    Unknown(OutboxError),
}

impl Shared {
    /// Stores a group, answers each of its callers, and hands on what can be sent at once.
    pub(super) async fn flush(self: &Arc<Self>, group: Vec<Entry>) {
        let bytes = group.iter().map(|entry| entry.content.len()).sum();
        let _held = Held { shared: self.clone(), bytes };
        // Whoever has gone by now gets nothing stored.
        let group: Vec<Entry> = group.into_iter().filter(|entry| !entry.answer.is_closed()).collect();
        if !group.is_empty() {
            match self.lanes(&group).await {
                Ok(lanes) => self.store_all(self.members(group, &lanes)).await,
                Err(error) => answer_all(group, &error),
            }
        }
    }

    async fn lanes(&self, group: &[Entry]) -> Result<Vec<LaneId>, OutboxError> {
        self.outbox.lanes.of(&self.outbox.database, group.iter().map(|entry| &entry.new)).await
    }

    /// Gives those a place that the dispatcher of this process can take at once.
    fn members(&self, group: Vec<Entry>, lanes: &[LaneId]) -> Vec<Member> {
        let now = self.outbox.clock().now();
        let place = |lane: LaneId, new: &NewMessage| {
            let openings = self.openings.as_ref().filter(|_| new.send_at <= now)?;
            Some(Place { opening: openings.take(lane, new)?, token: rand::random() })
        };
        let member =
            |(entry, &lane): (Entry, &LaneId)| Member { claim: place(lane, &entry.new), lane, entry, tries: 0 };
        group.into_iter().zip(lanes).map(member).collect()
    }

    /// Stores the members together; where one is refused, in halves, until the bad one stands alone.
    async fn store_all(&self, members: Vec<Member>) {
        let mut groups = vec![members];
        while let Some(mut members) = groups.pop() {
            let began = self.outbox.clock().now();
            match self.store_persistently(&members).await {
                Ok(fresh) => groups.extend(self.settle(members, &fresh, began).await),
                Err(OutboxError::Refused(_)) if members.len() > 1 => {
                    let half = members.split_off(members.len() / 2);
                    groups.extend([half, members]);
                }
                Err(error) => answer_all(members.into_iter().map(|member| member.entry), &error),
            }
        }
    }

    /// Stores the members, and says which of them are stored now. A statement whose fate is unknown is made again, with
    /// the same ids and tokens, for as long as anybody waits for it, [`PATIENCE`] at most.
    async fn store_persistently(&self, members: &[Member]) -> Result<HashSet<Uuid>, OutboxError> {
        let began = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            match self.store(members).await {
                Ok(fresh) => return Ok(fresh),
                Err(Failed::For(error)) => return Err(error),
                Err(Failed::Unknown(error)) => {
                    let is_waited_for = members.iter().any(|member| !member.entry.answer.is_closed());
                    if !is_waited_for || began.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    tracing::debug!(%error, messages = members.len(), "messages are stored again: it is not known whether they are");
                }
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn store(&self, members: &[Member]) -> Result<HashSet<Uuid>, Failed> {
        let rows: Vec<Row<'_>> = members.iter().map(Member::row).collect();
        let lease = self.openings.as_ref().map_or(Duration::ZERO, |openings| openings.lease());
        self.outbox.store(&rows, Terms { lease, slack: SLACK }).await.map_err(|error| {
            let is_lost = is_lost_connection(&error);
            if is_lost {
                self.outbox.hot.doubt();
            }
            match is_lost || is_collision(&error) {
                true => Failed::Unknown(error.into()),
                false => Failed::For(error.into()),
            }
        })
    }

    /// Answers those who are stored, then those whose key was used before; gives back who has to be stored again, if
    /// there are any.
    async fn settle(
        &self,
        members: Vec<Member>,
        fresh: &HashSet<Uuid>,
        began: time::OffsetDateTime,
    ) -> Option<Vec<Member>> {
        let (stored, others): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| fresh.contains(&member.uuid()));
        self.hand_on_all(stored, began).await;
        let (keyed, mut again): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|member| member.entry.new.idempotency.is_some());
        if !keyed.is_empty() {
            again.extend(self.answer_losers(keyed, began).await);
        }
        if again.is_empty() { None } else { self.with_new_ids(again).await }
    }

    /// Answers the callers of messages that are stored now. What is claimed goes to the dispatcher, of the rest
    /// dispatchers are told.
    async fn hand_on_all(&self, stored: Vec<Member>, began: time::OffsetDateTime) {
        for member in stored {
            self.hand_on(member, began).await;
        }
    }

    /// Answers the caller of a message that is stored now, and hands it to the dispatcher if it is claimed; else
    /// rings for it.
    async fn hand_on(&self, member: Member, began: time::OffsetDateTime) {
        let Member { entry, lane, claim, .. } = member;
        let Entry { new, answer, content } = entry;
        let receipt = Receipt { id: new.message.id, accepted: Accepted::New };
        // Whoever has gone is not answered.
        drop(answer.send(Ok(receipt)));
        let Some(Place { opening, token }) = claim else {
            return self.wake.accepted(lane, new.send_at);
        };
        let lease = self.openings.as_ref().map_or(Duration::ZERO, |openings| openings.lease());
        // Counted from before the statement, so that we never believe in more than the database granted.
        let claimed = claimed(&new, lane, content.len(), token, &opening.provider, began + lease);
        if let Err(lease) = opening.deliver(claimed, new.message)
            && let Err(error) = self.outbox.release(&[lease]).await
        {
            tracing::warn!(message_id = %lease.id, %error, "it cannot be given back; its lease will run out");
        }
    }

    /// Answers those whose key was used before; gives back those whose key is free again.
    async fn answer_losers(&self, losers: Vec<Member>, began: time::OffsetDateTime) -> Vec<Member> {
        let news: Vec<&NewMessage> = losers.iter().map(|member| &member.entry.new).collect();
        let answers = match self.outbox.answers_to_losers(&news).await {
            Ok(answers) => answers,
            Err(error) => {
                answer_all(losers.into_iter().map(|member| member.entry), &error);
                return Vec::new();
            }
        };
        let (mut stored, mut again) = (Vec::new(), Vec::new());
        for (member, answer) in losers.into_iter().zip(answers) {
            match answer {
                // It lost to itself: it had been stored, and the answer was lost.
                Some(Accepted::New) => stored.push(member),
                Some(accepted) => {
                    let receipt = Receipt { id: member.entry.new.message.id, accepted };
                    drop(member.entry.answer.send(Ok(receipt)));
                }
                None => again.push(member),
            }
        }
        self.hand_on_all(stored, began).await;
        again
    }

    /// Those that were not stored though nothing stands against them: their ids were made by a wrong clock, or their key
    /// has just become free. They get ids of the database's time.
    async fn with_new_ids(&self, again: Vec<Member>) -> Option<Vec<Member>> {
        let (mut again, given_up): (Vec<_>, Vec<_>) = again.into_iter().partition(|member| member.tries < TRIES);
        let lasting = OutboxError::Unavailable("the clock, or an idempotency key, changes too quickly".to_owned());
        answer_all(given_up.into_iter().map(|member| member.entry), &lasting);
        if let Err(error) = self.outbox.measure_clock().await {
            answer_all(again.into_iter().map(|member| member.entry), &error);
            return None;
        }
        let now = self.outbox.clock().now();
        for member in &mut again {
            member.tries += 1;
            member.entry.new.set_accepted_at(now);
            // By the wrong clock it may have been due.
            if member.entry.new.send_at > now {
                member.claim = None;
            }
        }
        Some(again)
    }
}

impl Member {
    fn uuid(&self) -> Uuid {
        self.entry.new.message.id.as_uuid()
    }

    fn row(&self) -> Row<'_> {
        Row {
            new: &self.entry.new,
            content: &self.entry.content,
            lane: self.lane,
            claim: self.claim.as_ref().map(|place| (place.token, &place.opening.provider)),
        }
    }
}

impl NewMessage {
    /// Gives the message another time, and an id of that time.
    fn set_accepted_at(&mut self, now: time::OffsetDateTime) {
        let longest_wait = self.give_up_at - self.send_at;
        self.send_at = self.scheduled_for.map_or(now, |asked_for| asked_for.max(now));
        self.give_up_at = self.send_at.saturating_add(longest_wait);
        let message = Arc::make_mut(&mut self.message);
        let id = MessageId::new_at(now);
        if message.correlation_id == message.id.to_string() {
            // Without a word of the caller the id is what ties the message to its work.
            message.correlation_id = id.to_string();
        }
        message.id = id;
        message.accepted_at = now;
    }
}

/// The claim under which a message was stored.
fn claimed(
    new: &NewMessage,
    lane: LaneId,
    size_bytes: usize,
    token: i64,
    provider: &ProviderName,
    leased_until: time::OffsetDateTime,
) -> Claimed {
    Claimed {
        lease: Lease { id: new.message.id, token },
        leased_until,
        lane,
        chain: new.chain.clone(),
        provider: provider.clone(),
        ask_first: false,
        is_begun: new.message.unknown_outcome != UnknownOutcome::Hold,
        untried: true,
        rounds: 0,
        open: None,
        accepted_before: false,
        unknown_since: None,
        unknown_at: None,
        expire_at: new.expire_at,
        give_up_at: new.give_up_at,
        unknown_outcome: new.message.unknown_outcome,
        size_bytes: size_bytes as u64,
    }
}

/// Tells each of them what went wrong.
fn answer_all(entries: impl IntoIterator<Item = Entry>, error: &OutboxError) {
    for entry in entries {
        drop(entry.answer.send(Err(error.clone())));
    }
}
