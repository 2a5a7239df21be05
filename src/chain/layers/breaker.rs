//! Brings what a call told of the provider back to the gate, where the breaker is.
//!
//! Owns no rule of the breaker, and lets nobody in: that was decided at admission.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use tokio::time::sleep;
use tower::{Layer, Service};

use super::{Answer, Permitted};
use crate::{chain::gate, delivery::Outcome};

/// Spends the gate's permit with the outcome of the call, and tells it before if the call is slow. The call itself goes
/// on to its end however slow it is.
///
/// Nothing is asked here: admission did, before the message was touched. A call that is dropped drops the permit, which
/// tells the breaker nothing.
#[derive(Clone)]
pub(super) struct BreakerLayer;

impl<S> Layer<S> for BreakerLayer {
    type Service = Breaker<S>;

    fn layer(&self, inner: S) -> Breaker<S> {
        Breaker { inner }
    }
}

/// See [`BreakerLayer`].
#[derive(Clone)]
pub(super) struct Breaker<S> {
    inner: S,
}

impl<S, C> Service<Permitted<gate::Permit, C>> for Breaker<S>
where
    S: Service<C, Response = Outcome, Error = Infallible, Future = Answer>,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, Permitted { mut permit, call }: Permitted<gate::Permit, C>) -> Answer {
        let slow = sleep(permit.slow_after());
        let mut answer = self.inner.call(call);
        Box::pin(async move {
            let outcome = tokio::select! {
                biased;
                outcome = &mut answer => outcome?,
                () = slow => {
                    permit.is_slow();
                    answer.await?
                }
            };
            permit.end(&outcome);
            Ok(outcome)
        })
    }
}
