//! The layers round one adapter, and their order.
//!
//! Owns no decision whether the adapter is asked: a call comes with the permits that its admission took, and each layer
//! spends its own. A call without them cannot be made, and layers in another order do not compile.

mod adapter;
mod breaker;
mod concurrency_limit;
mod rate_limit;
mod trace;

use std::{convert::Infallible, sync::Arc};

use futures_util::future::BoxFuture;
use tower::{Service, ServiceBuilder, util::BoxCloneSyncService};

use self::{
    adapter::Adapter, breaker::BreakerLayer, concurrency_limit::ConcurrencyLimitLayer, rate_limit::RateLimitLayer,
    trace::TraceLayer,
};
use super::{admission::Permits, gate, rate_limit as rate, slots::Slot};
use crate::{
    delivery::{Outcome, Skip},
    provider::{Provider, Submission},
};

/// A call with the permit that the next layer spends.
pub(super) struct Permitted<P, C> {
    permit: P,
    call: C,
}

/// A call with the providers that were considered before this one and passed over.
pub(super) struct Considered<C> {
    skipped: Vec<Skip>,
    call: C,
}

/// A call as the outermost layer takes it.
pub(super) type Call = Considered<Permitted<gate::Permit, Permitted<rate::Permit, Permitted<Slot, Submission>>>>;

/// An adapter with its layers. It has no error: whatever happens is an outcome.
pub(super) type Stack = BoxCloneSyncService<Call, Outcome, Infallible>;

/// What every layer answers with. No layer ends it early: a future dropped while it sends would leave behind it a
/// message of which nobody knows how far it came, so deadlines are the adapter's to keep.
type Answer = BoxFuture<'static, Result<Outcome, Infallible>>;

impl Call {
    /// The call that was admitted.
    pub(super) fn new(permits: Permits, submission: Submission, skipped: Vec<Skip>) -> Self {
        let call = Permitted { permit: permits.slot, call: submission };
        let call = Permitted { permit: permits.rate, call };
        Considered { skipped, call: Permitted { permit: permits.gate, call } }
    }
}

/// Puts the layers round an adapter.
pub(super) fn stack(provider: Arc<dyn Provider>) -> Stack {
    BoxCloneSyncService::new(layered(provider))
}

fn layered(
    provider: Arc<dyn Provider>,
) -> impl Service<Call, Response = Outcome, Error = Infallible, Future = Answer> + Clone + Send + Sync + 'static {
    ServiceBuilder::new()
        // Outermost, so that the span of the attempt is there for whatever the layers below have to say, and covers all
        // of it.
        .layer(TraceLayer::new(provider.name().clone()))
        // Outside the limits, so that a call that the breaker would count is over, its slot given back, before the
        // breaker hears of it and lets the next one in.
        .layer(BreakerLayer)
        // Between them, since a turn is for the beginning of a call: it is spent before the slot is put to use.
        .layer(RateLimitLayer)
        // Innermost, so that a slot is held for exactly as long as the adapter is busy.
        .layer(ConcurrencyLimitLayer)
        .service(Adapter::new(provider))
}

/// What has a submission somewhere inside its permits.
trait Carries {
    fn submission(&mut self) -> &mut Submission;
}

impl Carries for Submission {
    fn submission(&mut self) -> &mut Submission {
        self
    }
}

impl<P, C: Carries> Carries for Permitted<P, C> {
    fn submission(&mut self) -> &mut Submission {
        self.call.submission()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
