//! What is found out of order in a lane: a lease that ran out, a time that passed, a message that was called off.
//!
//! Owns the fate of what was cut off or waited too long, as [`crate::delivery::next`] decides it; sends nothing.

use std::{collections::BTreeMap, time::Duration};

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    ClaimRequest, Claimed, LaneClaim, LaneId, Lease, Outbox, OutboxError, attempts::recipients, claim::UnreadableClaim,
    error::unreadable, interval::interval,
};
use crate::{
    delivery::ProviderName,
    message::{MessageId, UnknownOutcome},
};

/// How many messages one statement of a sweep deals with at most.
const SWEEP_SIZE: usize = 1000;

/// What the statement is asked.
struct Look<'a> {
    lanes: Vec<i32>,
    since: Vec<OffsetDateTime>,
    providers: Vec<&'a str>,
    limit: usize,
    lease: Duration,
    max_rounds: u32,
    idempotent: Vec<&'a str>,
    only_ended: bool,
    takes_over: bool,
}

/// What the statement answers.
struct Row {
    id: Uuid,
    fate: Option<String>,
    token: Option<i64>,
    leased_until: Option<OffsetDateTime>,
    lane: i32,
    provider: Option<String>,
    ask_first: bool,
    rounds: i32,
    attempts: i32,
    open_recipients: Option<Vec<i16>>,
    accepted_before: bool,
    unknown_since: Option<OffsetDateTime>,
    unknown_at: Option<String>,
    expire_at: Option<OffsetDateTime>,
    give_up_at: OffsetDateTime,
    hold: bool,
    size_bytes: i64,
}

impl Outbox {
    /// Takes what is due in those lanes, whatever its state, and ends what has come to its end. Gives what was taken. One
    /// statement.
    pub(super) async fn recover(
        &self,
        lanes: &[LaneClaim],
        limit: usize,
        request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, OutboxError> {
        let look = Look {
            lanes: lanes.iter().map(|asked| asked.lane.as_i32()).collect(),
            since: lanes.iter().map(LaneClaim::begins).collect(),
            providers: lanes.iter().map(|asked| asked.provider.as_str()).collect(),
            limit,
            lease: request.lease,
            max_rounds: request.max_rounds,
            idempotent: request.idempotent.iter().map(ProviderName::as_str).collect(),
            only_ended: false,
            takes_over: request.takes_over,
        };
        let chains: BTreeMap<i32, &str> =
            lanes.iter().map(|asked| (asked.lane.as_i32(), asked.chain.as_str())).collect();
        let rows = self.deal_with(&look).await?;
        let taken = rows.into_iter().filter(|row| row.fate.is_none());
        Ok(self.read_claimed(taken.map(|row| row.into_claimed(&chains))).await)
    }

    /// Ends what must not wait any longer in lanes that nothing is claimed from, since they are paused or their chains
    /// have no ready provider: messages that expired, were called off, or have waited the allowed time. Claims nothing;
    /// says how many it ended.
    pub async fn sweep(&self, lanes: &[LaneId]) -> Result<u64, OutboxError> {
        let look = Look {
            lanes: lanes.iter().map(|lane| lane.as_i32()).collect(),
            since: vec![OffsetDateTime::UNIX_EPOCH; lanes.len()],
            providers: vec![""; lanes.len()],
            limit: SWEEP_SIZE,
            lease: Duration::ZERO,
            // What is over is over, whatever was tried: neither of the two changes its fate.
            max_rounds: u32::MAX,
            idempotent: Vec::new(),
            only_ended: true,
            takes_over: true,
        };
        let mut ended = 0;
        loop {
            let rows = self.deal_with(&look).await?.len();
            ended += rows as u64;
            if rows < SWEEP_SIZE {
                return Ok(ended);
            }
        }
    }

    async fn deal_with(&self, look: &Look<'_>) -> Result<Vec<Row>, OutboxError> {
        if look.lanes.is_empty() || look.limit == 0 {
            return Ok(Vec::new());
        }
        // Chosen here and not in the statement: made again, it hands out the same leases.
        let tokens: Vec<i64> = (0..look.limit).map(|_| rand::random()).collect();
        let limit = i64::try_from(look.limit).unwrap_or(i64::MAX);
        let max_rounds = i32::try_from(look.max_rounds).unwrap_or(i32::MAX);
        let statement = || async {
            sqlx::query_file_as!(
                Row,
                "src/outbox/recover.sql",
                &look.lanes,
                &look.since,
                &look.providers as _,
                limit,
                interval(look.lease),
                &tokens,
                max_rounds,
                &look.idempotent as _,
                look.only_ended,
                look.takes_over
            )
            .fetch_all(&self.database)
            .await
        };
        self.database.repeat(statement).await
    }
}

impl Row {
    fn into_claimed(self, chains: &BTreeMap<i32, &str>) -> Result<Claimed, UnreadableClaim> {
        let (id, token) = (self.id, self.token.unwrap_or_default());
        let read = || {
            let (Some(token), Some(leased_until), Some(provider)) = (self.token, self.leased_until, &self.provider)
            else {
                return Err(unreadable("a row was claimed without a lease"));
            };
            Ok(Claimed {
                lease: Lease { id: MessageId::from_uuid(self.id).map_err(unreadable)?, token },
                leased_until,
                lane: LaneId::new(self.lane),
                chain: chains.get(&self.lane).copied().unwrap_or_default().to_owned(),
                provider: ProviderName::new(provider),
                ask_first: self.ask_first,
                is_begun: false,
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
        };
        read().map_err(|error| UnreadableClaim { id, token, error })
    }
}
