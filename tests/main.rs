//! Integration tests, in one binary.

mod http;
mod support;
