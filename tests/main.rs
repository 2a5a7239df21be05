//! Integration tests, in one binary.

mod config;
mod telemetry;
