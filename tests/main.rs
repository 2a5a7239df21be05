//! The integration tests, in one program so that they are linked once.

mod config;
mod http;
mod map;
mod support;
mod telemetry;
//! The tests that need something outside this process: sockets, programs, a database.
mod smtp;
