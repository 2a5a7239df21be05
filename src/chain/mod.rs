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
mod line;
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

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

pub use capability::Unfit;
pub use link::Links;
pub use room::{Counted, Readiness};

use self::{line::Place, link::Link};
use crate::{
    config,
    delivery::{Attempt, ProviderName, Skip},
    message::{Email, Message, MessageId, RecipientIndex},
};

/// The named, ordered providers that a message is offered to. Clones are the same chain.
///
/// Providers that share a place are asked as a lot falls that is cast by the message: each as often first as its weight
/// says, the others after it.
///
/// A provider that is not well is passed over. A provider that is busy with as many messages as our own limits allow is
/// waited for, until the deadline of the offer: our limits say nothing against it, and mail that went to the next
/// provider for them would surprise whoever set them. Where its settings say so (`when_busy`) the message goes to the
/// next nonetheless; if none of them takes it, the first of the busy ones that has room does.
///
/// As a [`tower::Service`] it takes an [`Offer`] and answers with the [`crate::delivery::Round`] that came of it. It
/// has no error and is always ready. Whoever drops its future while a provider is asked
/// cuts that send off, and has to take its outcome for unknown.
#[derive(Clone)]
pub struct Chain {
    name: Arc<str>,
    places: Arc<[Place]>,
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
    /// The chain of those settings; a provider named twice stands at its first place.
    pub fn new(name: &str, settings: &config::Chain, links: &Links) -> Result<Self, UnknownProvider> {
        let mut seen = BTreeSet::new();
        let mut places = Vec::new();
        for position in settings.positions() {
            let mut shares = Vec::new();
            for share in position.shares() {
                let provider = ProviderName::new(&share.provider);
                let unknown = || UnknownProvider { chain: name.to_owned(), provider: provider.clone() };
                let link = links.get(&provider).ok_or_else(unknown)?;
                if seen.insert(provider) {
                    shares.push((link, share.weight));
                }
            }
            if !shares.is_empty() {
                places.push(Place::new(shares));
            }
        }
        let chain = Self { name: name.into(), places: places.into() };
        links.board.set_chain(name, chain.links().map(|link| link.name().clone()).collect());
        Ok(chain)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long a provider of it recognises a message by its idempotency key; `None` if it has no key.
    pub fn recognises_key_for(&self, provider: &ProviderName) -> Option<Duration> {
        self.links().find(|link| link.name() == provider).and_then(|link| link.capabilities().idempotency)
    }

    /// Its providers that recognise a message by an idempotency key.
    pub fn idempotent(&self) -> Vec<ProviderName> {
        let recognises = |link: &&Arc<Link>| link.capabilities().idempotency.is_some();
        self.links().filter(recognises).map(|link| link.name().clone()).collect()
    }

    /// What each of its providers lacks to carry an email to all of its recipients; empty as soon as one of them can.
    pub fn lacks(&self, email: &Email) -> Vec<(ProviderName, Unfit)> {
        let all: Vec<RecipientIndex> = email.recipients().map(|(recipient, _)| recipient).collect();
        let unfit = |link: &Arc<Link>| {
            let unfit = capability::check(link.capabilities(), email, &all).err()?;
            Some((link.name().clone(), unfit))
        };
        self.links().map(unfit).collect::<Option<_>>().unwrap_or_default()
    }

    /// Its providers, in their order.
    fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.places.iter().flat_map(Place::links)
    }

    /// Its providers in the order in which they stand for a message.
    fn line_for(&self, id: MessageId) -> impl Iterator<Item = &Arc<Link>> {
        self.places.iter().flat_map(move |place| match place.shares() {
            [(only, _)] => vec![only],
            _ => place.line_for(id),
        })
    }
}

/// A message that is offered to a chain.
#[derive(Clone)]
pub struct Offer {
    /// The message.
    pub message: Arc<Message>,
    /// The recipients that are still open, at least one.
    pub open: Vec<RecipientIndex>,
    /// The provider to ask before the others, if it is ready: it deferred the message, or may have it. It is waited for
    /// while it is busy, whatever its settings say.
    pub ask_first: Option<ProviderName>,
    /// The provider to ask after the others: it may have the message, and did not tell when it was asked again.
    pub ask_last: Option<ProviderName>,
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
    /// answers [`Proceed::Stop`] the round ends without asking. `skipped` were passed over since the last attempt.
    fn before_attempt<'a>(
        &'a self,
        finished: &'a [Attempt],
        open: &'a [RecipientIndex],
        next: &'a ProviderName,
        skipped: &'a [Skip],
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
