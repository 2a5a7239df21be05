//! Who is asked, and when: admission, the circuit breaker, the layers round one provider, and the failover over them.
//!
//! Owns no byte on the wire and no row: what an adapter says is an [`crate::delivery::Outcome`], and what must be on
//! record before the next provider is asked goes through a [`Journal`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    delivery::{Attempt, ProviderName},
    message::{Message, RecipientIndex},
};

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
    /// open. When it answers [`Proceed::Stop`] the round ends without asking.
    fn before_attempt<'a>(
        &'a self,
        finished: &'a [Attempt],
        open: &'a [RecipientIndex],
        next: &'a ProviderName,
    ) -> BoxFuture<'a, Proceed>;
}

/// Whether the next provider may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proceed {
    /// It may.
    Go,
    /// It may not: the lease is lost, the message expired or was called off, the process stops.
    Stop,
}
