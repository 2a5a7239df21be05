//! Why a scenario came to no figures.
//!
//! Owns the words; a goal that is missed is no error.

use std::{io, time::Duration};

use crate::{app::StartError, outbox::OutboxError, sandbox::SandboxError};

/// Why a scenario came to no figures. A goal that was missed is none: it stands in the table.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Postrider did not start.
    #[error("Postrider did not start: {0}")]
    Start(#[from] StartError),
    /// The sandbox did not start.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The database did not do it.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// A server of the benchmark's own could not be reached.
    #[error("no connection to {what}: {reason}")]
    Connect {
        /// Which.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A call was not answered with OK.
    #[error("a call failed: {0}")]
    Call(String),
    /// A provider did not take a message that it had every reason to take.
    #[error("a message was not taken by the sink: {0}")]
    Send(String),
    /// What was waited for did not come.
    #[error("{what} did not come about within {} s", longest.as_secs())]
    Stalled {
        /// What was waited for.
        what: String,
        /// How long.
        longest: Duration,
    },
    /// What arrived is not what was sent.
    #[error("{sent} messages were sent, {arrived} arrived, {repeats} of them again, {settled} are SUCCESS_SENT")]
    Miscounted {
        /// How many were sent.
        sent: u64,
        /// How many arrived.
        arrived: u64,
        /// How often one arrived again.
        repeats: u64,
        /// How many are settled as sent.
        settled: u64,
    },
    /// A process of its own was of no use.
    #[error("the process {what}: {reason}")]
    Process {
        /// Which.
        what: String,
        /// What is wrong.
        reason: io::Error,
    },
    /// The table of results is of no use without a figure.
    #[error("{0} were too few to tell anything")]
    TooFew(&'static str),
}
