//! Integration tests, one program: a part a module.

mod outbox;
mod support;
