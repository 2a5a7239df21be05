//! Lets a call begin that had its turn.
//!
//! Owns no waiting: the turn was taken at admission, and nothing is left to do at run time. The layer holds by its type
//! that no call begins without a turn, and that the turn is spent before the slot is put to use.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use tower::{Layer, Service};

use super::{Answer, Permitted};
use crate::{chain::rate_limit, delivery::Outcome};

/// Spends the rate limit's permit when the call begins: the turn was waited for at admission.
#[derive(Clone)]
pub(super) struct RateLimitLayer;

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner }
    }
}

/// See [`RateLimitLayer`].
#[derive(Clone)]
pub(super) struct RateLimit<S> {
    inner: S,
}

impl<S, C> Service<Permitted<rate_limit::Permit, C>> for RateLimit<S>
where
    S: Service<C, Response = Outcome, Error = Infallible, Future = Answer>,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, Permitted { permit, call }: Permitted<rate_limit::Permit, C>) -> Answer {
        permit.spend();
        self.inner.call(call)
    }
}
