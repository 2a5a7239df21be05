//! Who is there: the processes that share this outbox, and the accounts of their providers.
//!
//! Owns how long a word of theirs counts. What follows from being alone or not is decided elsewhere.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::{Outbox, OutboxError, interval::interval};
use crate::{
    config::{Role, Roles},
    delivery::ProviderName,
    health::Share,
};

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
    providers: Vec<String>,
    kinds: Vec<String>,
}

/// Who else is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Company {
    /// How many others send.
    pub others: usize,
    /// This process's share of each of its providers' accounts.
    pub shares: BTreeMap<ProviderName, Share>,
    /// Differs when something is known of a provider that was not before: see [`Outbox::provider_states`].
    pub states: i64,
}

impl Presence {
    /// This process, in those roles, with the chains of its settings.
    pub fn new(roles: &Roles, chains: impl IntoIterator<Item = String>) -> Self {
        let roles = roles.iter().map(Role::as_str).collect();
        let chains = chains.into_iter().collect();
        Self { id: Uuid::now_v7(), roles, chains, providers: Vec::new(), kinds: Vec::new() }
    }

    /// The same, which sends through these providers, each with the word for its kind.
    pub fn with_providers(self, providers: impl IntoIterator<Item = (String, String)>) -> Self {
        let (providers, kinds) = providers.into_iter().unzip();
        Self { providers, kinds, ..self }
    }
}

impl Outbox {
    /// Says that this process is there, and tells who else is. Has to be said again in less than half a minute. One
    /// statement.
    pub async fn say_present(&self, presence: &Presence) -> Result<Company, OutboxError> {
        let statement = || async {
            sqlx::query_file!(
                "src/outbox/present.sql",
                presence.id,
                env!("CARGO_PKG_VERSION"),
                &presence.roles as _,
                &presence.chains,
                &presence.providers,
                &presence.kinds,
                interval(LIVES_FOR),
                interval(FORGOTTEN_AFTER)
            )
            .fetch_one(&self.database)
            .await
        };
        let row = self.database.repeat(statement).await?;
        let count = |n: &i64| usize::try_from(*n).unwrap_or(0);
        let shares =
            row.before.iter().zip(&row.rivals).map(|(before, rivals)| Share::new(count(before), count(rivals)));
        let providers = presence.providers.iter().map(|provider| ProviderName::new(provider));
        Ok(Company { others: count(&row.others), shares: providers.zip(shares).collect(), states: row.states })
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
