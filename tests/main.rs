//! The integration tests, in one program so that they are linked once.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod api;
mod bad_input;
mod bench;
mod cli;
mod config;
mod dispatch;
mod endurance;
mod faults;
mod http;
mod map;
mod model;
mod outbox;
mod peers;
mod pooling;
mod providers;
mod readme;
mod routing;
mod sandbox;
mod smtp;
mod support;
mod telemetry;
