//! The providers and chains of the settings.

use std::collections::BTreeMap;

use crate::{
    chain::{Chain, Link},
    config::Settings,
    health::Board,
    message::Clock,
    provider::registry,
};

/// A provider that cannot be built from its settings.
#[derive(Debug, thiserror::Error)]
#[error("provider {name}: {reason}")]
pub struct ProviderError {
    name: String,
    reason: String,
}

/// Builds every provider once, and the chains that share them.
pub(super) fn build_chains(
    settings: &Settings,
    board: &Board,
    clock: &Clock,
) -> Result<BTreeMap<String, Chain>, ProviderError> {
    let mut links = BTreeMap::new();
    for (name, provider) in &settings.providers {
        let adapter = registry::build(name, provider)
            .map_err(|error| ProviderError { name: name.clone(), reason: error.to_string() })?;
        links.insert(name.clone(), Link::new(adapter, provider, board.clone(), clock.clone()));
    }
    settings
        .chains
        .iter()
        .map(|(name, providers)| {
            let links = providers
                .iter()
                .map(|provider| {
                    links.get(provider).cloned().ok_or_else(|| ProviderError {
                        name: provider.clone(),
                        reason: format!("named by chain {name}, but not configured"),
                    })
                })
                .collect::<Result<Vec<Link>, _>>()?;
            Ok((name.clone(), Chain::new(name, links, board, clock.clone())))
        })
        .collect()
}
