//! A snapshot of every provider's state, for those who ask: what a message waits for, who is in rotation.
//!
//! Owns no decision: the chain publishes here, readers never block it.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use time::OffsetDateTime;

use crate::delivery::ProviderName;

/// A circuit breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Calls pass.
    Closed,
    /// No call passes.
    Open,
    /// A bounded number of calls passes, to see whether it is well again.
    HalfOpen,
}

/// What is known of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderState {
    /// Its circuit breaker.
    pub circuit: Circuit,
    /// Until when it is not asked, where that is known.
    pub until: Option<OffsetDateTime>,
    /// Why it is not asked, in words; `None` while it is.
    pub reason: Option<String>,
}

/// Every provider's state, shared by those who publish and those who read.
#[derive(Clone, Debug, Default)]
pub struct Board {
    states: Arc<RwLock<BTreeMap<ProviderName, ProviderState>>>,
    chains: Arc<RwLock<BTreeMap<String, Vec<ProviderName>>>>,
}

impl Board {
    /// Says which providers a chain has, in their order.
    pub fn set_chain(&self, chain: &str, providers: Vec<ProviderName>) {
        self.chains.write().unwrap_or_else(PoisonError::into_inner).insert(chain.to_owned(), providers);
    }

    /// Publishes the state of a provider.
    pub fn publish(&self, provider: &ProviderName, state: ProviderState) {
        self.states.write().unwrap_or_else(PoisonError::into_inner).insert(provider.clone(), state);
    }

    /// The state of a provider.
    pub fn provider(&self, provider: &ProviderName) -> Option<ProviderState> {
        self.states.read().unwrap_or_else(PoisonError::into_inner).get(provider).cloned()
    }

    /// What a message of that chain waits for, in words; `None` if a provider of the chain would take it.
    pub fn waiting_for(&self, chain: &str) -> Option<String> {
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let providers = chains.get(chain)?;
        let reasons: Vec<String> = providers
            .iter()
            .map(|provider| Some(format!("{} of provider {provider}", states.get(provider)?.reason.as_ref()?)))
            .collect::<Option<_>>()?;
        Some(reasons.join("; "))
    }
}
