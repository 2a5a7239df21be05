//! What the tests of every part need: peers, a database, a service, counts of statements.

pub mod app;
pub mod caller;
pub mod http_peer;
pub mod postgres;
pub mod process;
pub mod service;
pub mod setup;
pub mod smtp_peer;
pub mod statements;
