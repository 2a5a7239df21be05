//! What can be wrong with an SMTP provider.
//!
//! Owns the list, its notation and the stages of a session; the session acts it out.

use std::{fmt, str::FromStr, time::Duration};

use crate::sandbox::{
    AddressPattern, FaultSyntaxError,
    fault::{Written, parse_duration},
};

/// A point of the session at which the server has to reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The greeting.
    Banner,
    /// EHLO or HELO.
    Hello,
    /// STARTTLS.
    StartTls,
    /// AUTH.
    Auth,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA.
    Data,
    /// The dot that ends the data.
    Dot,
}

impl Stage {
    const ALL: [(Stage, &str); 8] = [
        (Stage::Banner, "banner"),
        (Stage::Hello, "hello"),
        (Stage::StartTls, "starttls"),
        (Stage::Auth, "auth"),
        (Stage::Mail, "mail"),
        (Stage::Rcpt, "rcpt"),
        (Stage::Data, "data"),
        (Stage::Dot, "dot"),
    ];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, name)| *name == word).map(|(stage, _)| stage)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(stage, _)| stage == self).map_or("", |(_, name)| *name);
        f.write_str(name)
    }
}

/// A reply of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The three digits.
    pub code: u16,
    /// What follows them, an enhanced status code first where there is one.
    pub text: String,
}

impl Reply {
    /// A reply. Line breaks in the text become spaces.
    pub fn new(code: u16, text: &str) -> Self {
        Self { code, text: text.replace(['\r', '\n'], " ") }
    }

    fn parse(text: &str) -> Option<Self> {
        let (code, text) = text.split_once(' ').unwrap_or((text, "a fault is switched on"));
        let code = code.parse().ok().filter(|code| (200..=599).contains(code))?;
        Some(Self::new(code, text))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

/// What is wrong with an SMTP provider, until another fault is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Nobody listens: open connections are cut, new ones refused.
    Refuse,
    /// Everything is read and from that stage on nothing is replied; nothing is kept.
    Silent {
        /// The first reply that does not come.
        stage: Stage,
    },
    /// At that stage the server always gives this reply; after 421 it closes the connection. At [`Stage::Dot`] the
    /// mail is read first and not kept.
    Status {
        /// Where.
        stage: Stage,
        /// The reply.
        reply: Reply,
    },
    /// The reply at that stage comes that much later; at [`Stage::Dot`] the mail is kept at once.
    Delay {
        /// Where.
        stage: Stage,
        /// How much later.
        by: Duration,
    },
    /// The connection is closed in place of the reply at that stage.
    Drop {
        /// Where.
        stage: Stage,
    },
    /// The connection is closed in place of the reply to the dot.
    DropAfterDot {
        /// Whether the mail is kept.
        stored: bool,
    },
    /// The recipients that match are rejected with 550 5.1.1.
    RejectRecipient(AddressPattern),
    /// The recipients that match are put off with 450 4.2.0.
    DeferRecipient(AddressPattern),
}

/// The faults worth a button.
pub(super) const OFFERED: &[&str] = &[
    "none",
    "refuse",
    "silent:banner",
    "silent:dot",
    "status:banner:554 5.7.1 go away",
    "status:mail:451 4.3.0 mail system full",
    "status:dot:451 4.3.0 try later",
    "status:dot:421 4.3.2 shutting down",
    "status:dot:554 5.6.0 not wanted",
    "delay:dot:5s",
    "drop:mail",
    "drop-after-dot",
    "drop-after-dot:stored",
    "reject:*@bad.example",
    "defer:*@slow.example",
];

const KNOWN: &str = "none, refuse, silent:STAGE, status:STAGE:451 4.3.0 text, delay:STAGE:2s, drop:STAGE, \
                     drop-after-dot, drop-after-dot:stored, reject:*@bad.example, defer:*@slow.example; stages are \
                     banner, hello, starttls, auth, mail, rcpt, data, dot";

impl FromStr for Fault {
    type Err = FaultSyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| FaultSyntaxError { text: text.to_owned(), known: KNOWN })
    }
}

fn parse(text: &str) -> Option<Fault> {
    let (word, rest) = text.split_once(':').map_or((text, None), |(word, rest)| (word, Some(rest)));
    let staged = || rest?.split_once(':').and_then(|(stage, rest)| Some((Stage::parse(stage)?, rest)));
    Some(match (word, rest) {
        ("none", None) => Fault::None,
        ("refuse", None) => Fault::Refuse,
        ("silent", Some(stage)) => Fault::Silent { stage: Stage::parse(stage)? },
        ("drop", Some(stage)) => Fault::Drop { stage: Stage::parse(stage)? },
        ("drop-after-dot", None) => Fault::DropAfterDot { stored: false },
        ("drop-after-dot", Some("stored")) => Fault::DropAfterDot { stored: true },
        ("reject", Some(pattern)) => Fault::RejectRecipient(AddressPattern::new(pattern)),
        ("defer", Some(pattern)) => Fault::DeferRecipient(AddressPattern::new(pattern)),
        ("status", _) => {
            let (stage, reply) = staged()?;
            Fault::Status { stage, reply: Reply::parse(reply)? }
        }
        ("delay", _) => {
            let (stage, by) = staged()?;
            Fault::Delay { stage, by: parse_duration(by)? }
        }
        _ => return None,
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::None => f.write_str("none"),
            Fault::Refuse => f.write_str("refuse"),
            Fault::Silent { stage } => write!(f, "silent:{stage}"),
            Fault::Status { stage, reply } => write!(f, "status:{stage}:{reply}"),
            Fault::Delay { stage, by } => write!(f, "delay:{stage}:{}", Written(*by)),
            Fault::Drop { stage } => write!(f, "drop:{stage}"),
            Fault::DropAfterDot { stored: false } => f.write_str("drop-after-dot"),
            Fault::DropAfterDot { stored: true } => f.write_str("drop-after-dot:stored"),
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
        for (stage, name) in Stage::ALL {
            assert_eq!(format!("silent:{name}").parse(), Ok(Fault::Silent { stage }));
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_there_is() {
        for text in ["", "silent", "silent:late", "status:mail", "status:mail:99 x", "delay:dot:5", "drop-after-dot:x"]
        {
            let error = text.parse::<Fault>().expect_err(text);
            assert!(error.to_string().contains("drop-after-dot"), "{error}");
        }
    }

    #[test]
    fn a_reply_stays_on_one_line() {
        assert_eq!(Reply::new(451, "a\r\n250 ok").to_string(), "451 a  250 ok");
    }
}
