//! Claim: what is due is taken under a lease.
//!
//! Owns the reading of what was taken, and how far each lane was seen. Which lanes are asked, and for how many, is the
//! dispatcher's to say; what is found out of order is `recover`'s.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    ClaimRequest, Claimed, Claims, LaneClaim, LaneFound, Lease, Outbox, OutboxError, Rest, attempts::recipients,
    error::unreadable, interval::interval,
};
use crate::{
    delivery::ProviderName,
    message::{MessageId, UnknownOutcome},
};

/// What the statement answers.
struct Row {
    now: OffsetDateTime,
    nth: Option<i64>,
    place: Option<i64>,
    id: Option<Uuid>,
    due_at: Option<OffsetDateTime>,
    rounds: Option<i32>,
    attempts: Option<i32>,
    open_recipients: Option<Vec<i16>>,
    accepted_before: Option<bool>,
    unknown_since: Option<OffsetDateTime>,
    unknown_at: Option<String>,
    expire_at: Option<OffsetDateTime>,
    give_up_at: Option<OffsetDateTime>,
    hold: Option<bool>,
    ask_first: Option<bool>,
    provider: Option<String>,
    size_bytes: Option<i64>,
    out_of_order: Option<bool>,
    taken: bool,
}

impl Outbox {
    /// Takes messages that are due, at most as many as asked for, for the time of the lease.
    ///
    /// One statement; a second one for lanes in which something was out of order. Lanes after the one that gave the last
    /// of the messages wanted were not looked at and are not in the answer.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Claims, OutboxError> {
        // Chosen here and not in the statement: made again, it hands out the same leases.
        let tokens: Vec<i64> = (0..request.limit).map(|_| rand::random()).collect();
        let (rows, made_again) = self.look_at_lanes(request, &tokens).await?;
        let Some(at) = rows.first().map(|row| row.now) else {
            return Err(unreadable("a claim without an answer"));
        };
        let found: Vec<Found> = rows.into_iter().filter_map(|row| row.into_found(request, &tokens)).collect();
        let lanes = sum_up(request, &found);
        let out_of_order: Vec<LaneClaim> = lanes_out_of_order(request, &found);
        let taken = found.into_iter().filter(|found| found.taken);
        let mut messages = self.read_claimed(taken.map(|found| found.into_claimed(at, request))).await;
        if !out_of_order.is_empty() {
            let limit = request.limit.saturating_sub(messages.len());
            match self.recover(&out_of_order, limit, request).await {
                Ok(more) => messages.extend(more),
                Err(error) if messages.is_empty() => return Err(error),
                // What was taken is committed: it is to be sent.
                Err(error) => tracing::warn!(%error, "what is out of order could not be dealt with; it is tried again"),
            }
        }
        Ok(Claims { messages, lanes, at, made_again })
    }

    /// The rows that were met, and whether that took more than one try.
    async fn look_at_lanes(&self, request: &ClaimRequest, tokens: &[i64]) -> Result<(Vec<Row>, bool), OutboxError> {
        let ids: Vec<i32> = request.lanes.iter().map(|asked| asked.lane.as_i32()).collect();
        let since: Vec<OffsetDateTime> = request.lanes.iter().map(LaneClaim::begins).collect();
        let limits: Vec<i32> =
            request.lanes.iter().map(|asked| i32::try_from(asked.limit).unwrap_or(i32::MAX)).collect();
        let providers: Vec<&str> = request.lanes.iter().map(|asked| asked.provider.as_str()).collect();
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let mut tries = 0;
        let run = || {
            tries += 1;
            async {
                sqlx::query_file_as!(
                    Row,
                    "src/outbox/claim.sql",
                    &ids,
                    &since,
                    &limits,
                    &providers as _,
                    limit,
                    interval(request.lease),
                    tokens,
                    request.takes_over
                )
                .fetch_all(&self.hot)
                .await
            }
        };
        let rows = self.hot.repeat(run).await?;
        Ok((rows, tries > 1))
    }

    /// Reads what was claimed. The claim is committed by now, so a row that cannot be read must not take the others with
    /// it: it goes to a person.
    pub(super) async fn read_claimed(
        &self,
        rows: impl Iterator<Item = Result<Claimed, UnreadableClaim>>,
    ) -> Vec<Claimed> {
        let mut claimed = Vec::new();
        let mut unreadable = Vec::new();
        for row in rows {
            match row {
                Ok(one) => claimed.push(one),
                Err(UnreadableClaim { id, token, error }) => {
                    tracing::error!(message_id = %id, %error, "a row that was claimed cannot be read");
                    unreadable.push((id, token));
                }
            }
        }
        if !unreadable.is_empty()
            && let Err(error) = self.set_aside(&unreadable).await
        {
            tracing::error!(%error, messages = unreadable.len(), "rows that cannot be read stay until their leases run out");
        }
        claimed
    }

    /// Gives rows that this process has claimed to a person.
    async fn set_aside(&self, leases: &[(Uuid, i64)]) -> Result<(), OutboxError> {
        let (ids, tokens): (Vec<Uuid>, Vec<i64>) = leases.iter().copied().unzip();
        self.database
            .repeat(|| async {
                sqlx::query_file!("src/outbox/set_aside.sql", &ids, &tokens).execute(&self.database).await
            })
            .await?;
        Ok(())
    }
}

/// A row that was claimed and cannot be read.
pub(super) struct UnreadableClaim {
    pub(super) id: Uuid,
    pub(super) token: i64,
    pub(super) error: OutboxError,
}

/// A row that was met.
struct Found {
    /// The place of its lane among those asked.
    place: usize,
    token: i64,
    id: Uuid,
    due_at: OffsetDateTime,
    out_of_order: bool,
    taken: bool,
    rounds: i32,
    attempts: i32,
    open_recipients: Option<Vec<i16>>,
    accepted_before: bool,
    unknown_since: Option<OffsetDateTime>,
    unknown_at: Option<String>,
    expire_at: Option<OffsetDateTime>,
    give_up_at: OffsetDateTime,
    hold: bool,
    ask_first: bool,
    provider: String,
    size_bytes: i64,
}

impl Row {
    /// `None` for the row that only tells the time.
    fn into_found(self, request: &ClaimRequest, tokens: &[i64]) -> Option<Found> {
        let nth = usize::try_from(self.nth?).ok()?.checked_sub(1)?;
        let place = usize::try_from(self.place?).ok()?.checked_sub(1)?;
        Some(Found {
            place: (place < request.lanes.len()).then_some(place)?,
            token: *tokens.get(nth)?,
            id: self.id?,
            due_at: self.due_at?,
            out_of_order: self.out_of_order?,
            taken: self.taken,
            rounds: self.rounds?,
            attempts: self.attempts?,
            open_recipients: self.open_recipients,
            accepted_before: self.accepted_before?,
            unknown_since: self.unknown_since,
            unknown_at: self.unknown_at,
            expire_at: self.expire_at,
            give_up_at: self.give_up_at?,
            hold: self.hold?,
            ask_first: self.ask_first?,
            // The row of an IN_PROCESS message always names one, and one that waits is given the first.
            provider: self.provider.unwrap_or_default(),
            size_bytes: self.size_bytes?,
        })
    }
}

impl Found {
    fn into_claimed(self, at: OffsetDateTime, request: &ClaimRequest) -> Result<Claimed, UnreadableClaim> {
        let Self { id, token, .. } = self;
        let asked = &request.lanes[self.place];
        let id = MessageId::from_uuid(id).map_err(|error| UnreadableClaim { id, token, error: unreadable(error) })?;
        Ok(Claimed {
            lease: Lease { id, token },
            leased_until: at + request.lease,
            lane: asked.lane,
            chain: asked.chain.clone(),
            provider: ProviderName::new(&self.provider),
            ask_first: self.ask_first,
            is_begun: !self.hold,
            untried: self.attempts == 0,
            rounds: u32::try_from(self.rounds).unwrap_or(0),
            open: self.open_recipients.as_deref().map(recipients),
            accepted_before: self.accepted_before,
            unknown_since: self.unknown_since,
            unknown_at: self.unknown_at.as_deref().map(ProviderName::new),
            expire_at: self.expire_at,
            give_up_at: self.give_up_at,
            unknown_outcome: if self.hold { UnknownOutcome::Hold } else { UnknownOutcome::Resend },
            size_bytes: u64::try_from(self.size_bytes).unwrap_or(0),
        })
    }
}

/// How each lane was found. Where as many were met as were wanted in all, the lanes after the last of them were not
/// looked at, and that one perhaps not to its end.
fn sum_up(request: &ClaimRequest, found: &[Found]) -> Vec<LaneFound> {
    if request.limit == 0 {
        // Nothing was looked at.
        return Vec::new();
    }
    let cut_off = (found.len() >= request.limit).then(|| found.last().map_or(0, |last| last.place));
    let looked_at = cut_off.map_or(request.lanes.len(), |last| last + 1);
    let mut lanes: Vec<LaneFound> = request.lanes[..looked_at]
        .iter()
        .map(|asked| LaneFound { lane: asked.lane, found: 0, rest: Rest::Nothing })
        .collect();
    for one in found {
        let (lane, asked) = (&mut lanes[one.place], &request.lanes[one.place]);
        lane.found += 1;
        if lane.found >= asked.limit || cut_off == Some(one.place) {
            lane.rest = Rest::From(one.due_at);
        }
    }
    // Whatever becomes of what was not taken, the lane is looked at again from there.
    for one in found.iter().filter(|one| !one.taken).rev() {
        lanes[one.place].rest = Rest::From(one.due_at);
    }
    lanes
}

/// The lanes in which something is out of order, each from the first such row on.
fn lanes_out_of_order(request: &ClaimRequest, found: &[Found]) -> Vec<LaneClaim> {
    let mut lanes: Vec<(usize, LaneClaim)> = Vec::new();
    for one in found.iter().filter(|one| one.out_of_order) {
        if lanes.last().is_none_or(|(place, _)| *place != one.place) {
            lanes.push((one.place, LaneClaim { since: Some(one.due_at), ..request.lanes[one.place].clone() }));
        }
    }
    lanes.into_iter().map(|(_, lane)| lane).collect()
}
