//! Hand-over: what is written down before the next provider is asked.
//!
//! Owns the record that sending has begun, and with whom; asks nobody.

use time::OffsetDateTime;

use super::{
    Holding, Lease, Outbox, OutboxError, Settlement,
    attempts::{self, AttemptColumns},
};
use crate::{
    delivery::{Attempt, Next, ProviderName, Status},
    message::RecipientIndex,
};

impl Outbox {
    /// Writes down the attempts of a round finished so far, the recipients still open and the provider that is asked
    /// next, and that sending may have begun: from here on a takeover is an attempt of unknown outcome.
    ///
    /// If the lease is lost nothing is written. If the message was called off the attempts are, and nobody may be
    /// asked. One transaction; made again it writes nothing twice.
    ///
    /// Where a late outcome has told meanwhile that one of the recipients was accepted, the round ends here and the
    /// lease with it: the attempts are settled, in another transaction, and the others are due at once.
    pub async fn hand_over(
        &self,
        lease: &Lease,
        round: u32,
        finished: &[Attempt],
        open: &[RecipientIndex],
        to: &ProviderName,
    ) -> Result<Holding, OutboxError> {
        let mut columns = AttemptColumns::default();
        columns.push_all(*lease, round, finished);
        let listed = attempts::list(open.iter().copied());
        let accepted = attempts::accepted(finished).next().is_some();
        let unknown_since = attempts::unknown_since(finished);
        let held = self
            .database
            .repeat(|| async {
                let mut begun = self.begin_on(&[lease.id.as_uuid()]).await?;
                let held = sqlx::query_file!(
                    "src/outbox/hand_over.sql",
                    lease.id.as_uuid(),
                    lease.token,
                    to.as_str(),
                    &listed,
                    accepted,
                    unknown_since,
                    &columns.nth,
                    &columns.round,
                    &columns.provider as _,
                    &columns.started_at,
                    &columns.duration_us,
                    &columns.class as _,
                    &columns.scope as _,
                    &columns.code,
                    &columns.detail,
                    &columns.provider_message_id as _,
                    &columns.offered as _,
                    &columns.verdicts as _,
                    &columns.skipped as _
                )
                .fetch_optional(&mut begun)
                .await?;
                begun.commit().await?;
                Ok(held)
            })
            .await?;
        match held {
            Some(row) if row.is_narrowed => {
                self.settle(&[cut_short(*lease, round, finished, open, to, self.clock.now())]).await?;
                Ok(Holding::Lost)
            }
            Some(row) => Ok(Holding::Held { cancel_requested: row.cancel_requested }),
            None => Ok(Holding::Lost),
        }
    }
}

/// What a round came to that goes on, at once, with the provider that was about to be asked.
fn cut_short(
    lease: Lease,
    round: u32,
    finished: &[Attempt],
    open: &[RecipientIndex],
    to: &ProviderName,
    now: OffsetDateTime,
) -> Settlement {
    Settlement {
        lease,
        round,
        attempts: finished.to_vec(),
        skipped: Vec::new(),
        accepted: attempts::accepted(finished).next().is_some(),
        unknown_since: attempts::unknown_since(finished),
        // The round goes on: what comes next is still part of it.
        round_spent: false,
        next: Next::Again {
            status: Status::RequiredResend,
            due_at: now,
            open: open.to_vec(),
            round_spent: false,
            ask_first: Some(to.clone()),
        },
    }
}
