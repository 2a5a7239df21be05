//! Whether there is somebody to send through: a provider of each chain that would be asked now.
//!
//! Owns the looking, which asks nobody; what follows from it is said by `readiness`.

use std::{collections::BTreeMap, time::Duration};

use tokio::sync::watch;

use crate::chain::{Chain, Readiness};

/// How often it is looked. What ends by itself with time tells nobody.
const EVERY: Duration = Duration::from_secs(1);

/// Looks for as long as it is polled.
pub(super) async fn watch(chains: BTreeMap<String, Chain>, providers: watch::Sender<bool>) {
    loop {
        let is_ready = |chain: &Chain| matches!(chain.readiness(), Readiness::Ready { .. });
        let are_ready = chains.values().all(is_ready);
        providers.send_if_modified(|were| std::mem::replace(were, are_ready) != are_ready);
        tokio::time::sleep(EVERY).await;
    }
}
