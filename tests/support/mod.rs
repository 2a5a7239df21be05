//! Peers that the tests speak to.

pub mod http_peer;
pub mod smtp_peer;
