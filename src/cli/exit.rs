//! How a command ends, for scripts.
//!
//! Owns the exit codes, which scripts rely on; prints nothing.

use std::process::ExitCode;

use tonic::Code;

/// What the exit codes mean, for `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  0  done; for `status`, `watch` and `send --wait`: sent; for `cancel`: called off
  1  something failed that is not listed here
  2  wrong arguments or settings
  3  the service or the database cannot be reached, or is too busy: worth another try
  4  no such message
  5  the request was refused: something in it is wrong
  10 the message is still on its way
  11 the message waits for a person (FAILED_…)
  12 the message was not sent and will not be (EXPIRED, CANCELED)
  13 `cancel` came too late: the message was sent";

/// How a command that did what it was told ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done; a message that was asked about is sent.
    Done,
    /// The message is still on its way.
    Waiting,
    /// The message waits for a person.
    Failed,
    /// The message was not sent and will not be.
    NotSent,
    /// The message that was to be called off was sent.
    TooLate,
}

/// Why a command did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Wrong arguments or settings: to be corrected by whoever called.
    #[error("{0}")]
    Usage(String),
    /// Worth another try.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such message.
    #[error("{0}")]
    NotFound(String),
    /// The request was refused.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Waiting => 10,
            Exit::Failed => 11,
            Exit::NotSent => 12,
            Exit::TooLate => 13,
        })
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        Self::from(match failure {
            Failure::Other(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unavailable(_) => 3,
            Failure::NotFound(_) => 4,
            Failure::Refused(_) => 5,
        })
    }
}

impl Failure {
    /// The failure that a gRPC status means, with the fields that it names.
    pub(super) fn from_status(status: &tonic::Status) -> Self {
        let mut text = format!("{:?}: {}", status.code(), status.message());
        for violation in
            tonic_types::StatusExt::get_details_bad_request(status).into_iter().flat_map(|d| d.field_violations)
        {
            text.push_str(&format!("\n  {}: {}", violation.field, violation.description));
        }
        // What tonic calls a connection that was lost in the middle of a call.
        let is_cut_off = status.code() == Code::Unknown && std::error::Error::source(status).is_some();
        match status.code() {
            _ if is_cut_off => Self::Unavailable(text),
            Code::InvalidArgument | Code::AlreadyExists | Code::OutOfRange | Code::FailedPrecondition => {
                Self::Refused(text)
            }
            Code::NotFound => Self::NotFound(text),
            Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled => {
                Self::Unavailable(text)
            }
            _ => Self::Other(text),
        }
    }
}
