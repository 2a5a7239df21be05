//! What the tests of every part need: peers, a database, counts of statements.

pub mod http_peer;
pub mod postgres;
pub mod service;
pub mod smtp_peer;
pub mod statements;
