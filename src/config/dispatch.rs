//! How messages are claimed and sent: the settings.
//!
//! Owns the figures of the dispatcher.

use std::time::Duration;

use super::section::{Section, Visitor};

/// How messages are claimed and sent.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// How many messages are sent at once by one process, 128 by default. More: a slow provider holds up less, and more
    /// memory and connections are used.
    pub concurrency: usize,
    /// How many messages one claim takes at most, 100 by default. More: fewer statements a message, and more that
    /// another process has to take over when this one dies.
    pub claim_size: usize,
    /// How many bytes of content, with their MIME form, are held in memory at once, 64 MiB by default; a message that is
    /// larger goes alone. More: more large messages at once.
    pub content_bytes: usize,
    /// Whether a message that this process accepts goes straight to a provider where nothing waits before it, on by
    /// default. Off: each is claimed first, which takes longer and shares the work among processes more evenly.
    pub express: bool,
    /// The shortest pause between two looks of a process that does not hear others (`database.pooling`), and after a
    /// statement that failed, 50 ms by default. Shorter: more statements.
    pub poll_shortest: Duration,
    /// How long it waits when nobody tells of anything, 5 s by default. A message accepted by this process is seen at
    /// once, and one accepted by another too, if processes hear each other (`database.pooling`); else after about this
    /// time, later where many processes share the outbox. Longer: fewer statements of an idle process.
    pub poll_longest: Duration,
    /// How long a message belongs to a dispatcher that says nothing, 30 s by default. Longer: a crashed process's
    /// messages wait longer. Shorter: a process that hesitates loses its messages, and they may be sent twice.
    pub lease: Duration,
    /// How often a lease is renewed while a send lasts, 10 s by default; less than half the lease, so that one renewal
    /// may fail.
    pub lease_renewal: Duration,
    /// The time in which the attempts of one round must end, 20 min by default; waiting for a turn at a provider counts.
    /// It must hold each provider's own timeouts, which tell better how far an attempt came.
    pub attempt_timeout: Duration,
    /// How many outcomes one settle writes at most, 100 by default. More: fewer statements, larger transactions.
    pub settle_size: usize,
    /// How long an outcome waits for others to be written together, 2 ms by default. Longer: fewer statements, and more
    /// messages whose outcome is unknown when the process is killed.
    pub settle_delay: Duration,
    /// How long a process that is told to stop lets sends finish, 30 s by default. Longer: fewer unknown outcomes, a
    /// slower stop. It must end before the supervisor kills the process, which may have to wait as long again, at least
    /// 5 s, where the database is away and the last outcomes cannot be written.
    pub drain_limit: Duration,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            concurrency: 128,
            claim_size: 100,
            content_bytes: 64 * 1024 * 1024,
            express: true,
            poll_shortest: Duration::from_millis(50),
            poll_longest: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            lease_renewal: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(20 * 60),
            settle_size: 100,
            settle_delay: Duration::from_millis(2),
            drain_limit: Duration::from_secs(30),
        }
    }
}

impl Section for Dispatch {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let (minute, hour, day) = (s(60), s(60 * 60), s(24 * 60 * 60));
        Self {
            concurrency: v.within("concurrency", self.concurrency, 1..=10_000),
            express: v.any("express", self.express),
            claim_size: v.within("claim_size", self.claim_size, 1..=1000),
            content_bytes: v.within("content_bytes", self.content_bytes, 1024 * 1024..=1 << 36),
            poll_shortest: v.within("poll_shortest", self.poll_shortest, ms(1)..=minute),
            poll_longest: v.within("poll_longest", self.poll_longest, ms(1)..=hour),
            lease: v.within("lease", self.lease, ms(500)..=hour),
            lease_renewal: v.within("lease_renewal", self.lease_renewal, ms(50)..=hour),
            attempt_timeout: v.within("attempt_timeout", self.attempt_timeout, ms(100)..=day),
            settle_size: v.within("settle_size", self.settle_size, 1..=1000),
            settle_delay: v.within("settle_delay", self.settle_delay, ms(0)..=s(1)),
            drain_limit: v.within("drain_limit", self.drain_limit, ms(0)..=hour),
        }
    }
}
