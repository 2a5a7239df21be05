//! Hand-over: what is written down before the next provider is asked.
//!
//! Owns the record that sending has begun, and with whom; asks nobody.

use super::{
    Holding, Lease, Outbox, OutboxError,
    attempts::{self, Columns},
    error::repeat,
};
use crate::{
    delivery::{Attempt, ProviderName},
    message::RecipientIndex,
};

impl Outbox {
    /// Writes down the attempts of a round finished so far, the recipients still open and the provider that is asked
    /// next, and that sending may have begun: from here on a takeover is an attempt of unknown outcome.
    ///
    /// If the lease is lost nothing is written. If the message was called off the attempts are, and nobody may be
    /// asked. One statement; made again it writes nothing twice.
    pub async fn hand_over(
        &self,
        lease: &Lease,
        round: u32,
        finished: &[Attempt],
        open: &[RecipientIndex],
        to: &ProviderName,
    ) -> Result<Holding, OutboxError> {
        let mut columns = Columns::default();
        columns.push_all(*lease, round, finished);
        let open = attempts::list(open.iter().copied());
        let accepted = attempts::accepted(finished).next().is_some();
        let unknown_since = attempts::unknown_since(finished);
        let canceled = repeat(|| async {
            sqlx::query_file_scalar!(
                "src/outbox/hand_over.sql",
                lease.id.as_uuid(),
                lease.token,
                to.as_str(),
                &open,
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
                &columns.verdicts as _
            )
            .fetch_optional(&self.pool)
            .await
        })
        .await?;
        Ok(canceled.map_or(Holding::Lost, |cancel_requested| Holding::Held { cancel_requested }))
    }
}
