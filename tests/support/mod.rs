//! What the tests of every part need: peers, a database, a service, the program itself, counts of statements.

pub mod aiosmtpd;
pub mod app;
pub mod caller;
pub mod certificates;
pub mod http_peer;
pub mod pgbouncer;
pub mod postfix;
pub mod postfix_daemons;
pub mod postgres;
pub mod process;
pub mod program;
pub mod python;
pub mod service;
pub mod setup;
pub mod slow_provider;
pub mod slow_relay;
pub mod smtp_peer;
pub mod smtp_sink;
pub mod specimen;
pub mod statements;
