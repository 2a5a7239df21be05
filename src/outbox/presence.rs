//! Who is there: the processes that share this outbox.
//!
//! Owns how long a word of theirs counts. What follows from being alone or not is decided elsewhere.

use std::time::Duration;

use uuid::Uuid;

use super::{Outbox, OutboxError, interval::interval};
use crate::config::{Role, Roles};

/// Who has said nothing for so long is taken for gone.
pub(super) const LIVES_FOR: Duration = Duration::from_secs(30);

/// For so long its chains are still somebody's.
pub(super) const CHAINS_LIVE_FOR: Duration = Duration::from_secs(10 * 60);

/// And after so long for gone for good.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);

/// A process, as it presents itself.
#[derive(Clone, Debug)]
pub struct Presence {
    id: Uuid,
    roles: Vec<&'static str>,
    chains: Vec<String>,
}

impl Presence {
    /// This process, in those roles, with the chains of its settings.
    pub fn new(roles: &Roles, chains: impl IntoIterator<Item = String>) -> Self {
        let roles = roles.iter().map(Role::as_str).collect();
        Self { id: Uuid::now_v7(), roles, chains: chains.into_iter().collect() }
    }
}

impl Outbox {
    /// Says that this process is there, and tells how many others send. Has to be said again in less than half a minute.
    /// One statement.
    pub async fn say_present(&self, presence: &Presence) -> Result<usize, OutboxError> {
        let statement = || async {
            sqlx::query_file_scalar!(
                "src/outbox/present.sql",
                presence.id,
                env!("CARGO_PKG_VERSION"),
                &presence.roles as _,
                &presence.chains,
                interval(LIVES_FOR),
                interval(FORGOTTEN_AFTER)
            )
            .fetch_one(&self.database)
            .await
        };
        let others = self.database.repeat(statement).await?;
        Ok(usize::try_from(others).unwrap_or(0))
    }

    /// Says that this process is gone. That it was there is remembered for a while: its chains are not given up because
    /// it is started anew. One statement.
    pub async fn say_gone(&self, presence: &Presence) -> Result<(), OutboxError> {
        sqlx::query!(
            "update dispatcher set seen_at = least(seen_at, now() - $2::interval) where id = $1",
            presence.id,
            interval(LIVES_FOR)
        )
        .execute(&self.database)
        .await?;
        Ok(())
    }
}
