//! Faults as people and the console write them, and the switch that every provider of the sandbox has.
//!
//! Owns the shared notation; each provider owns the faults it has.

use std::{fmt, time::Duration};

use super::SandboxError;

/// What the console needs of a provider of the sandbox.
pub trait FaultSwitch: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Where it listens.
    fn url(&self) -> String;

    /// The faults worth a button, as [`FaultSwitch::switch_to`] takes them.
    fn offered(&self) -> &'static [&'static str];

    /// The fault that is on.
    fn current(&self) -> String;

    /// Switches to the fault of that text.
    fn switch_to(&self, fault: &str) -> Result<(), SwitchError>;
}

/// Why a fault was not switched on.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is none of that text.
    #[error(transparent)]
    Syntax(#[from] FaultSyntaxError),
    /// The provider could not listen again.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such fault: {text:?}; there are {known}")]
pub struct FaultSyntaxError {
    /// The text.
    pub text: String,
    /// What is known, by example.
    pub known: &'static str,
}

/// A duration as `1500ms` or `2s`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return milliseconds.parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

/// Writes a duration as [`parse_duration`] reads it.
pub(super) struct Written(pub(super) Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis();
        if milliseconds.is_multiple_of(1_000) {
            write!(f, "{}s", milliseconds / 1_000)
        } else {
            write!(f, "{milliseconds}ms")
        }
    }
}
