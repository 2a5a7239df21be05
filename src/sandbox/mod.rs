//! A private Postgres, and an HTTP and an SMTP provider that keep what they receive and have faults to switch on.
//!
//! Owns what stands in for the world round Postrider; knows nothing of Postrider itself, and everything listens on
//! loopback only.
//!
//! All of it stops with the program: each part when it is dropped, Postgres also when the program is killed.

mod connection;
pub mod console;
mod error;
mod fault;
mod gate;
pub mod http;
pub mod inbox;
mod pattern;
pub mod postgres;
pub mod smtp;

pub use error::SandboxError;
pub use fault::{FaultSwitch, FaultSyntaxError, SwitchError};
pub use inbox::Inbox;
pub use pattern::AddressPattern;
