//! What is logged of a panic: where it was, not what it said.
//!
//! Owns the hook. The words of a panic may quote the value that it was about, and that may be a message's content.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic,
};

/// From now on a panic is one line of the log, with a backtrace where `RUST_BACKTRACE` asks for it.
pub(super) fn log_without_words() {
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => tracing::error!(%location, %backtrace, "panicked"),
            _ => tracing::error!(%location, "panicked"),
        }
    }));
}
