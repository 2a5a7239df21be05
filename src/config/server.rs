//! The gRPC server.

use std::{net::SocketAddr, time::Duration};

use serde::Deserialize;

/// Where and how the gRPC server listens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// The address it listens on. Calls are not authenticated: anything but loopback is refused.
    pub listen: SocketAddr,
    /// The largest request, in bytes. Larger calls are refused before they are read.
    pub max_request_bytes: usize,
    /// The longest time a call may take; a caller's shorter deadline holds.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 50051)),
            max_request_bytes: 40 * 1024 * 1024,
            call_timeout: Duration::from_secs(30),
        }
    }
}
