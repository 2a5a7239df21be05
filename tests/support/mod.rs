//! What the tests of every part need: peers, a database, the program itself, counts of statements.

pub mod aiosmtpd;
pub mod http_peer;
pub mod postgres;
pub mod program;
pub mod python;
pub mod service;
pub mod smtp_peer;
pub mod statements;
