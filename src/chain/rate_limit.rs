//! How many messages a second are handed to one provider.
//!
//! Owns the waiting for a turn. What the provider itself says about its rate is the gate's matter.

use std::{num::NonZeroU32, time::Duration};

use governor::{
    RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

/// A limit on the rate, or none.
pub(super) struct RateLimit(Option<Limited>);

struct Limited {
    limiter: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>,
    clock: RuntimeClock,
    /// Held by the first of those who wait, so that they go in the order they came.
    head_of_line: Mutex<()>,
}

/// The right to begin one call now. If the call is not made its place is lost: the rate is a ceiling, not a promise.
#[must_use]
#[derive(Debug)]
pub(super) struct Permit(());

impl RateLimit {
    /// That many a second, at most a tenth of it at once; `None` or 0: no limit.
    ///
    /// A burst of a whole second's worth would hand over twice the rate in the first second.
    pub(super) fn new(per_second: Option<u32>) -> Self {
        Self(per_second.and_then(NonZeroU32::new).map(|rate| {
            let burst = NonZeroU32::new(rate.get() / 10).unwrap_or(NonZeroU32::MIN);
            let quota = governor::Quota::per_second(rate).allow_burst(burst);
            let clock = RuntimeClock { started: Instant::now() };
            let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
            Limited { limiter, clock, head_of_line: Mutex::new(()) }
        }))
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Permit {
        if let Some(limited) = &self.0 {
            let _first = limited.head_of_line.lock().await;
            while let Err(not_until) = limited.limiter.check() {
                sleep(not_until.wait_time_from(limited.clock.now())).await;
            }
        }
        Permit(())
    }
}

impl Permit {
    /// Spends the permit: the call begins.
    pub(super) fn spend(self) {}
}

/// The runtime's clock, which tests can pause.
#[derive(Clone)]
struct RuntimeClock {
    started: Instant,
}

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_second_sees_more_than_the_rate_and_a_tenth() {
        let limit = RateLimit::new(Some(20));
        let began = Instant::now();
        let mut turns = Vec::new();
        for _ in 0..60 {
            limit.turn().await.spend();
            turns.push(began.elapsed());
        }
        let within = |from: Duration| turns.iter().filter(|&&t| t >= from && t < from + Duration::from_secs(1)).count();
        for &turn in &turns {
            assert!(within(turn) <= 22, "{} from {turn:?}", within(turn));
        }
        assert!(began.elapsed() < Duration::from_secs(3), "slower than the rate: {:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nobody_waits() {
        for limit in [RateLimit::new(None), RateLimit::new(Some(0))] {
            let began = Instant::now();
            for _ in 0..1000 {
                limit.turn().await.spend();
            }
            assert_eq!(began.elapsed(), Duration::ZERO);
        }
    }
}
