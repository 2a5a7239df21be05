//! The gRPC server's settings.
//!
//! Owns its address and its limits on calls.

use std::{net::SocketAddr, time::Duration};

use super::section::{Section, Visitor};

/// Where and how the gRPC server listens.
#[derive(Clone, Debug)]
pub struct Server {
    /// The address it listens on, `127.0.0.1:50051` by default; port 0 takes any free one. Calls are not
    /// authenticated: anything but loopback is refused.
    pub listen: SocketAddr,
    /// The largest request in bytes, 40 MiB by default. Larger calls are refused before they are read. Higher: bigger
    /// messages, and more memory for each call under way.
    pub max_request_bytes: usize,
    /// The most bytes of content that wait to be stored, 64 MiB by default; calls beyond it are answered
    /// RESOURCE_EXHAUSTED. Higher: more callers wait out a database that is slow, and more memory is used meanwhile.
    pub waiting_bytes: usize,
    /// The longest time a call may take, 30 s by default; a caller's shorter deadline holds. Longer: callers wait
    /// longer before they learn that the database is away.
    pub call_timeout: Duration,
    /// How many calls of WatchStatus one process answers at once, 10,000 by default; others get RESOURCE_EXHAUSTED. Higher:
    /// more memory, and a longer statement four times a second.
    pub max_watchers: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 50051)),
            max_request_bytes: 40 * 1024 * 1024,
            waiting_bytes: 64 * 1024 * 1024,
            call_timeout: Duration::from_secs(30),
            max_watchers: 10_000,
        }
    }
}

impl Section for Server {
    fn visit(self, v: &mut impl Visitor) -> Self {
        Self {
            listen: v.any("listen", self.listen),
            max_request_bytes: v.within("max_request_bytes", self.max_request_bytes, 64 * 1024..=1024 * 1024 * 1024),
            waiting_bytes: v.within("waiting_bytes", self.waiting_bytes, 1024 * 1024..=64 * 1024 * 1024 * 1024),
            call_timeout: v.within(
                "call_timeout",
                self.call_timeout,
                Duration::from_millis(100)..=Duration::from_secs(600),
            ),
            max_watchers: v.within("max_watchers", self.max_watchers, 1..=1_000_000),
        }
    }
}
