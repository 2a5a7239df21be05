//! How many messages a second are handed to one provider.
//!
//! Owns the waiting for a turn. What the provider itself says about its rate is the gate's matter, and which part of
//! the account's rate is this process's is decided elsewhere.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep},
};

/// A limit on the rate, or none.
pub(super) struct RateLimit(Option<Limited>);

struct Limited {
    limiter: watch::Sender<Arc<Limiter>>,
    /// Held by the first of those who wait, so that they go in the order they came.
    head_of_line: Mutex<()>,
}

struct Limiter {
    governor: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>,
    clock: RuntimeClock,
    per_second: f64,
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
        Self(per_second.filter(|rate| *rate > 0).map(|rate| {
            let limiter = watch::Sender::new(Arc::new(Limiter::new(f64::from(rate))));
            Limited { limiter, head_of_line: Mutex::new(()) }
        }))
    }

    /// From now on that many a second, where there is a limit. Who waits does so no longer than under the new one, and
    /// none begins with a burst: it would come on top of that of the one before.
    pub(super) fn change(&self, per_second: f64) {
        let Some(limited) = &self.0 else { return };
        limited.limiter.send_if_modified(|limiter| {
            let is_other = limiter.per_second != per_second;
            if is_other {
                *limiter = Arc::new(Limiter::new(per_second).without_burst());
            }
            is_other
        });
    }

    /// How many calls may begin in that time; `None` if that is not bounded.
    pub(super) fn in_time(&self, time: Duration) -> Option<usize> {
        let limited = self.0.as_ref()?;
        let calls = limited.limiter.borrow().per_second * time.as_secs_f64();
        Some(calls.ceil() as usize)
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Permit {
        let Some(limited) = &self.0 else { return Permit(()) };
        let _first = limited.head_of_line.lock().await;
        let mut limiters = limited.limiter.subscribe();
        loop {
            let limiter = limiters.borrow_and_update().clone();
            let Err(not_until) = limiter.governor.check() else { return Permit(()) };
            tokio::select! {
                () = sleep(not_until.wait_time_from(limiter.clock.now())) => {}
                // The limit outlives the borrow, so its sender is there.
                _ = limiters.changed() => {}
            }
        }
    }
}

impl Limiter {
    fn new(per_second: f64) -> Self {
        let burst = NonZeroU32::new((per_second / 10.0) as u32).unwrap_or(NonZeroU32::MIN);
        // A rate so low that its period is no number of nanoseconds is none of a provider.
        let period = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX);
        let quota = governor::Quota::with_period(period.max(Duration::from_nanos(1)));
        let quota = quota.unwrap_or(governor::Quota::per_second(NonZeroU32::MIN)).allow_burst(burst);
        let clock = RuntimeClock { started: Instant::now() };
        Self { governor: RateLimiter::direct_with_clock(quota, clock.clone()), clock, per_second }
    }

    fn without_burst(self) -> Self {
        while self.governor.check().is_ok() {}
        self
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
    use futures_util::{FutureExt, poll};
    use tokio::time::advance;

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
            limit.change(0.5);
            limit.turn().await.spend();
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert_eq!(limit.in_time(Duration::from_secs(1)), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_one_a_second_is_kept_to() {
        let limit = RateLimit::new(Some(1));
        limit.change(0.25);
        let began = Instant::now();
        for _ in 0..5 {
            limit.turn().await.spend();
        }
        assert_eq!(began.elapsed().as_millis() / 100, 200);
        assert_eq!(limit.in_time(Duration::from_secs(2)), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_by_the_new_rate_and_a_change_is_worth_no_burst() {
        let limit = RateLimit::new(Some(1));
        limit.change(0.01);
        let mut waiting = Box::pin(limit.turn());
        assert!(poll!(&mut waiting).is_pending());
        limit.change(50.0);
        assert!(poll!(&mut waiting).is_pending());
        advance(Duration::from_millis(25)).await;
        waiting.now_or_never().expect("its turn has come").spend();
        for _ in 0..100 {
            limit.change(49.0);
            limit.change(50.0);
            assert!(limit.turn().now_or_never().is_none());
        }
    }
}
