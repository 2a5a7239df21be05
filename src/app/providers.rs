//! The providers and chains of the settings.
//!
//! Owns their number: each provider is built once, so that the chains that name it share its breaker and its limits.
//! Knows no kind of provider; the registry does.

use std::collections::BTreeMap;

use crate::{
    chain::{Chain, Links, UnknownProvider},
    config::Settings,
    delivery::ProviderName,
    health::Board,
    message::Clock,
    provider::registry::{self, BuildError},
};

/// Why providers and chains cannot be built from the settings.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// A provider.
    #[error(transparent)]
    Provider(#[from] BuildError),
    /// A chain.
    #[error(transparent)]
    Chain(#[from] UnknownProvider),
}

/// Builds every provider once, and the chains that share them.
pub(super) fn build_chains(
    settings: &Settings,
    board: &Board,
    clock: &Clock,
) -> Result<(Links, BTreeMap<String, Chain>), ProviderError> {
    let adapters = settings
        .providers
        .iter()
        .map(|(name, provider)| Ok((registry::build(name, provider)?, provider.clone())))
        .collect::<Result<Vec<_>, BuildError>>()?;
    let links = Links::new(adapters, board, clock);
    let chain = |(name, providers): (&String, &Vec<String>)| {
        let providers: Vec<ProviderName> = providers.iter().map(|provider| ProviderName::new(provider)).collect();
        Ok((name.clone(), Chain::new(name, &providers, &links)?))
    };
    let chains = settings.chains.iter().map(chain).collect::<Result<_, ProviderError>>()?;
    Ok((links, chains))
}
