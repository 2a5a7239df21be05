//! Holds a slot for as long as the adapter is busy.
//!
//! Owns no limit: the slot was taken at admission, and all that happens here is that it is let go when the call has
//! ended and not before.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use tower::{Layer, Service};

use super::{Answer, Permitted};
use crate::{chain::slots::Slot, delivery::Outcome};

/// Spends the concurrency limit's permit: the slot is given back when the call has ended, or is dropped.
///
/// tower's own layer of that name takes the slot in `poll_ready`, when the message has long been chosen for this
/// provider; ours was taken at admission.
#[derive(Clone)]
pub(super) struct ConcurrencyLimitLayer;

impl<S> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> ConcurrencyLimit<S> {
        ConcurrencyLimit { inner }
    }
}

/// See [`ConcurrencyLimitLayer`].
#[derive(Clone)]
pub(super) struct ConcurrencyLimit<S> {
    inner: S,
}

impl<S, C> Service<Permitted<Slot, C>> for ConcurrencyLimit<S>
where
    S: Service<C, Response = Outcome, Error = Infallible, Future = Answer>,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, Permitted { permit, call }: Permitted<Slot, C>) -> Answer {
        let answer = self.inner.call(call);
        Box::pin(async move {
            let outcome = answer.await;
            drop(permit);
            outcome
        })
    }
}
