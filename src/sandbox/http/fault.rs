//! What can be wrong with an HTTP provider.
//!
//! Owns the list and its notation; the provider acts it out.

use std::{fmt, str::FromStr, time::Duration};

use crate::sandbox::{
    AddressPattern, FaultSyntaxError,
    fault::{Written, parse_duration},
};

/// What is wrong with an HTTP provider, until another fault is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Nobody listens: open connections are cut, new ones refused.
    Refuse,
    /// Every request gets this status; nothing is kept.
    Status {
        /// The status code.
        code: u16,
        /// The seconds of a header Retry-After.
        retry_after: Option<u64>,
    },
    /// Every request gets 429 and a Retry-After of one second; nothing is kept.
    Throttle,
    /// Mails are kept at once and answered that much later.
    Delay(Duration),
    /// Requests are read and never answered; nothing is kept.
    Silent,
    /// Mails are kept, then the connection is closed without an answer.
    DropAfterAccept,
    /// Mails are kept and answered with 200 and a body that tells nothing.
    Garble,
    /// The recipients that match are rejected; the others get their mail.
    RejectRecipient(AddressPattern),
    /// The recipients that match are to be offered again later; the others get their mail.
    DeferRecipient(AddressPattern),
}

/// The faults worth a button.
pub(super) const OFFERED: &[&str] = &[
    "none",
    "refuse",
    "status:503",
    "status:503:5",
    "status:500",
    "status:401",
    "throttle",
    "delay:5s",
    "silent",
    "drop",
    "garble",
    "reject:*@bad.example",
    "defer:*@slow.example",
];

const KNOWN: &str = "none, refuse, status:503, status:503:30 (with Retry-After), throttle, delay:2s, silent, drop, \
                     garble, reject:*@bad.example, defer:*@slow.example";

impl FromStr for Fault {
    type Err = FaultSyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| FaultSyntaxError { text: text.to_owned(), known: KNOWN })
    }
}

fn parse(text: &str) -> Option<Fault> {
    let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
    Some(match (word, rest) {
        ("none", None) => Fault::None,
        ("refuse", None) => Fault::Refuse,
        ("throttle", None) => Fault::Throttle,
        ("silent", None) => Fault::Silent,
        ("drop", None) => Fault::DropAfterAccept,
        ("garble", None) => Fault::Garble,
        ("delay", Some(time)) => Fault::Delay(parse_duration(time)?),
        ("reject", Some(pattern)) => Fault::RejectRecipient(AddressPattern::new(pattern)),
        ("defer", Some(pattern)) => Fault::DeferRecipient(AddressPattern::new(pattern)),
        ("status", Some(rest)) => {
            let (code, retry_after) = rest.split_once(':').map_or((rest, None), |(code, after)| (code, Some(after)));
            let code = code.parse().ok().filter(|code| (200..=599).contains(code))?;
            let retry_after = retry_after.map(str::parse).transpose().ok()?;
            Fault::Status { code, retry_after }
        }
        _ => return None,
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::None => f.write_str("none"),
            Fault::Refuse => f.write_str("refuse"),
            Fault::Status { code, retry_after: None } => write!(f, "status:{code}"),
            Fault::Status { code, retry_after: Some(seconds) } => write!(f, "status:{code}:{seconds}"),
            Fault::Throttle => f.write_str("throttle"),
            Fault::Delay(time) => write!(f, "delay:{}", Written(*time)),
            Fault::Silent => f.write_str("silent"),
            Fault::DropAfterAccept => f.write_str("drop"),
            Fault::Garble => f.write_str("garble"),
            Fault::RejectRecipient(pattern) => write!(f, "reject:{pattern}"),
            Fault::DeferRecipient(pattern) => write!(f, "defer:{pattern}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offered_fault_is_read_and_written_back() {
        for text in OFFERED {
            let fault: Fault = text.parse().expect(text);
            assert_eq!(fault.to_string(), *text);
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_there_is() {
        for text in ["", "nonsense", "status", "status:99", "status:503:soon", "delay:5", "reject", "none:1"] {
            let error = text.parse::<Fault>().expect_err(text);
            assert!(error.to_string().contains("throttle"), "{error}");
        }
    }
}
