//! Who is asked, and when: admission, the circuit breaker, the layers round one provider, and the failover over them.
//!
//! Owns no byte on the wire and no row: what an adapter says is an [`crate::delivery::Outcome`], and what must be on
//! record before the next provider is asked goes through a [`Journal`].

mod admission;
mod breaker;
mod capability;
mod exchange;
mod failover;
mod gate;
mod layers;
mod link;
mod probing;
mod rate_limit;
mod room;
mod rotation;
mod slots;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing;
mod window;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

pub use link::Links;
pub use room::{Counted, Readiness};

use self::link::Link;
use crate::{
    delivery::{Attempt, ProviderName},
    message::{Message, RecipientIndex},
};

/// The named, ordered providers that a message is offered to. Clones are the same chain.
///
/// A provider that is not well is passed over. A provider that is busy with as many messages as our own limits allow is
/// waited for, until the deadline of the offer: our limits say nothing against it, and mail that went to the next
/// provider for them would surprise whoever set them.
///
/// As a [`tower::Service`] it takes an [`Offer`] and answers with the [`crate::delivery::Round`] that came of it. It
/// has no error and is always ready. Whoever drops its future while a provider is asked
/// cuts that send off, and has to take its outcome for unknown.
#[derive(Clone)]
pub struct Chain {
    name: Arc<str>,
    links: Arc<[Arc<Link>]>,
}

/// A chain names a provider that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chain {chain} names the provider {provider}, which is not set up")]
pub struct UnknownProvider {
    /// The chain.
    pub chain: String,
    /// The provider.
    pub provider: ProviderName,
}

impl Chain {
    /// The chain of those providers, in their order; one named twice stands at its first place.
    pub fn new(name: &str, providers: &[ProviderName], links: &Links) -> Result<Self, UnknownProvider> {
        let mut chain: Vec<Arc<Link>> = Vec::new();
        for provider in providers {
            let unknown = || UnknownProvider { chain: name.to_owned(), provider: provider.clone() };
            let link = links.get(provider).ok_or_else(unknown)?;
            if chain.iter().all(|present| present.name() != provider) {
                chain.push(link);
            }
        }
        links.board.set_chain(name, chain.iter().map(|link| link.name().clone()).collect());
        Ok(Self { name: name.into(), links: chain.into() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long a provider of it recognises a message by its idempotency key; `None` if it has no key.
    pub fn recognises_key_for(&self, provider: &ProviderName) -> Option<Duration> {
        self.links.iter().find(|link| link.name() == provider).and_then(|link| link.capabilities().idempotency)
    }

    /// Its providers that recognise a message by an idempotency key.
    pub fn idempotent(&self) -> Vec<ProviderName> {
        let recognises = |link: &&Arc<Link>| link.capabilities().idempotency.is_some();
        self.links.iter().filter(recognises).map(|link| link.name().clone()).collect()
    }
}

/// A message that is offered to a chain.
#[derive(Clone)]
pub struct Offer {
    /// The message.
    pub message: Arc<Message>,
    /// The recipients that are still open, at least one.
    pub open: Vec<RecipientIndex>,
    /// The provider to ask before the others, if it is ready: it deferred the message, or may have it.
    pub ask_first: Option<ProviderName>,
    /// Whether no other than `ask_first` may be asked: it may have the message, and the caller asked not to risk a
    /// duplicate.
    pub only_first: bool,
    /// When the round must have ended.
    pub deadline: Instant,
    /// Where the steps of the round are written down.
    pub journal: Arc<dyn Journal>,
}

/// Where the steps of a round are written down before they are taken.
pub trait Journal: Send + Sync {
    /// Called before each provider is asked, with the attempts finished in this round so far and the recipients still
    /// open: also those that this provider is not offered, since another deferred them or may have them. When it
    /// answers [`Proceed::Stop`] the round ends without asking.
    fn before_attempt<'a>(
        &'a self,
        finished: &'a [Attempt],
        open: &'a [RecipientIndex],
        next: &'a ProviderName,
    ) -> BoxFuture<'a, Proceed>;

    /// Called when the provider has answered, with the attempts finished in this round.
    fn after_attempt(&self, finished: &[Attempt]);
}

/// Whether the next provider may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proceed {
    /// It may.
    Go,
    /// It may not: the lease is lost, the message expired or was called off, the process stops.
    Stop,
}
