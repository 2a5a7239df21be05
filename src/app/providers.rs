//! The providers and chains of the settings, and the routes that lead to them.
//!
//! Owns their number: each provider is built once, so that the chains that name it share its breaker and its limits.
//! Knows no kind of provider; the registry does.

use std::collections::BTreeMap;

use crate::{
    chain::{Chain, Links, Unfit, UnknownProvider},
    config::{self, Settings},
    delivery::ProviderName,
    health::Board,
    message::{Clock, Email},
    policy::{Routes, Violation},
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
    let chain = |(name, chain): (&String, &config::Chain)| Ok((name.clone(), Chain::new(name, chain, &links)?));
    let chains = settings.chains.iter().map(chain).collect::<Result<_, ProviderError>>()?;
    Ok((links, chains))
}

/// The routes of the settings. What no provider of its chain can carry is refused; of a chain that this process does not
/// have nothing is known.
pub(super) fn routes(settings: &Settings, chains: BTreeMap<String, Chain>) -> Routes {
    Routes::new(&settings.routes, move |chain, email| {
        chains.get(chain).map(|chain| violations(chain, email)).unwrap_or_default()
    })
}

/// What each provider of the chain lacks to carry the email; empty if one of them can.
fn violations(chain: &Chain, email: &Email) -> Vec<Violation> {
    let violation = |(provider, unfit): (ProviderName, Unfit)| {
        let chain = chain.name();
        let description =
            format!("cannot be carried by provider {provider} ({unfit}), nor by any other of chain {chain}");
        Violation { field: unfit.field(email), description }
    };
    chain.lacks(email).into_iter().map(violation).collect()
}
