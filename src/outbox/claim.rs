//! Claim: what is due is taken under a lease, and what is found out of order is dealt with.
//!
//! Owns the fairness among lanes and the fate of what was cut off or waited too long; sends nothing.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    ClaimRequest, Claimed, Lease, Outbox, OutboxError, attempts::recipients, error::unreadable, interval::interval,
};
use crate::{
    delivery::ProviderName,
    message::{MessageId, UnknownOutcome},
};

/// How many messages one statement of a sweep deals with at most.
const SWEEP_SIZE: usize = 1000;

/// What the statement is asked.
struct Look<'a> {
    chains: Vec<&'a str>,
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
    chain: String,
    provider: Option<String>,
    ask_first: bool,
    rounds: i32,
    attempts: i32,
    open_recipients: Option<Vec<i16>>,
    accepted_before: bool,
    unknown_since: Option<OffsetDateTime>,
    expire_at: Option<OffsetDateTime>,
    give_up_at: OffsetDateTime,
    hold: bool,
}

impl Outbox {
    /// Takes messages that are due, at most as many as asked for, for the time of the lease.
    ///
    /// One statement. Only where all it found had come to their end (expired, called off, given up) does it look again.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claimed>, OutboxError> {
        let look = Look {
            chains: request.chains.keys().map(String::as_str).collect(),
            providers: request.chains.values().map(ProviderName::as_str).collect(),
            limit: request.limit,
            lease: request.lease,
            max_rounds: request.max_rounds,
            idempotent: request.idempotent.iter().map(ProviderName::as_str).collect(),
            only_ended: false,
            takes_over: request.takes_over,
        };
        loop {
            let rows = self.look(&look).await?;
            let found_any = !rows.is_empty();
            let claimed = self.read_claimed(rows.into_iter().filter(|row| row.fate.is_none())).await;
            if !claimed.is_empty() || !found_any {
                return Ok(claimed);
            }
        }
    }

    /// Ends what must not wait any longer in chains that have no ready provider: messages that expired, were called
    /// off, or have waited the allowed time. Claims nothing; says how many it ended.
    pub async fn sweep(&self, chains: &[String]) -> Result<u64, OutboxError> {
        let look = Look {
            chains: chains.iter().map(String::as_str).collect(),
            providers: vec![""; chains.len()],
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
            let rows = self.look(&look).await?.len();
            ended += rows as u64;
            if rows < SWEEP_SIZE {
                return Ok(ended);
            }
        }
    }

    /// Reads what was claimed. The claim is committed by now, so a row that cannot be read must not take the others with
    /// it: it goes to a person.
    async fn read_claimed(&self, rows: impl Iterator<Item = Row>) -> Vec<Claimed> {
        let mut claimed = Vec::new();
        let mut unreadable = Vec::new();
        for row in rows {
            let (id, token) = (row.id, row.token);
            match row.into_claimed() {
                Ok(one) => claimed.push(one),
                Err(error) => {
                    tracing::error!(message_id = %id, %error, "a row that was claimed cannot be read");
                    unreadable.extend(token.map(|token| (id, token)));
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
                sqlx::query!(
                    r#"
                with failed as (
                    update pending
                    set
                        status = 'FAILED_NOT_RETRYABLE',
                        due_at = null,
                        failed_at = now(),
                        token = null,
                        begun_at = null,
                        provider = null,
                        ask_first = false
                    from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
                    where pending.id = lease.id
                        and pending.token = lease.token
                    returning pending.id, pending.status
                )
                insert into tally (day, status, n)
                select day_of(id), status, sum(n)
                from (
                    select id, 'IN_PROCESS'::status as status, -1 as n
                    from failed
                    union all
                    select id, status, 1
                    from failed
                ) as change
                group by day_of(id), status
                "#,
                    &ids,
                    &tokens
                )
                .execute(&self.database)
                .await
            })
            .await?;
        Ok(())
    }

    async fn look(&self, look: &Look<'_>) -> Result<Vec<Row>, OutboxError> {
        if look.chains.is_empty() || look.limit == 0 {
            return Ok(Vec::new());
        }
        // Chosen here and not in the statement: made again, it hands out the same leases.
        let tokens: Vec<i64> = (0..look.limit).map(|_| rand::random()).collect();
        let limit = i64::try_from(look.limit).unwrap_or(i64::MAX);
        let max_rounds = i32::try_from(look.max_rounds).unwrap_or(i32::MAX);
        self.database
            .repeat(|| async {
                sqlx::query_file_as!(
                    Row,
                    "src/outbox/claim.sql",
                    &look.chains as _,
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
            })
            .await
    }
}

impl Row {
    fn into_claimed(self) -> Result<Claimed, OutboxError> {
        let (Some(token), Some(leased_until), Some(provider)) = (self.token, self.leased_until, self.provider) else {
            return Err(unreadable("a row was claimed without a lease"));
        };
        Ok(Claimed {
            lease: Lease { id: MessageId::from_uuid(self.id).map_err(unreadable)?, token },
            leased_until,
            chain: self.chain,
            provider: ProviderName::new(&provider),
            ask_first: self.ask_first,
            untried: self.attempts == 0,
            rounds: u32::try_from(self.rounds).unwrap_or(0),
            open: self.open_recipients.as_deref().map(recipients),
            accepted_before: self.accepted_before,
            unknown_since: self.unknown_since,
            // What was called off is not claimed.
            expire_at: self.expire_at,
            give_up_at: self.give_up_at,
            unknown_outcome: if self.hold { UnknownOutcome::Hold } else { UnknownOutcome::Resend },
        })
    }
}
