//! How a conversation can end early: at which stage, by what.
//!
//! Owns no judgement: what a fault means for message and provider is in [`super::classify`].

use std::io;

use super::reply::Reply;

/// How far a conversation had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Name resolution and the connection.
    Connect,
    /// The server's greeting.
    Banner,
    /// EHLO.
    Hello,
    /// STARTTLS and the handshake.
    Tls,
    /// AUTH.
    Auth,
    /// MAIL, and the RSET that may precede it.
    Mail,
    /// RCPT.
    Rcpt,
    /// The command DATA.
    Data,
    /// The content is on its way; the final dot has not left.
    Body,
    /// The final dot may have left.
    FinalDot,
}

impl Stage {
    /// The words that go on record.
    fn words(self) -> &'static str {
        match self {
            Stage::Connect => "the connection",
            Stage::Banner => "the greeting",
            Stage::Hello => "EHLO",
            Stage::Tls => "STARTTLS",
            Stage::Auth => "AUTH",
            Stage::Mail => "MAIL",
            Stage::Rcpt => "RCPT",
            Stage::Data => "DATA",
            Stage::Body => "the content",
            Stage::FinalDot => "the final dot",
        }
    }
}

/// What ended a conversation early.
#[derive(Clone)]
pub(super) enum Cause {
    /// The server refused.
    Reply(Reply),
    /// No reply that can be read came.
    Lost(Loss),
    /// We went no further of our own accord.
    Declined(Decline),
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The host name has no address.
    Resolve,
    /// No connection.
    Connect(io::ErrorKind),
    /// TLS failed by the server's doing.
    Tls,
    /// The server broke TLS off over our certificate, or for want of one.
    Credentials,
    /// The server kept silent.
    Timeout,
    /// The server closed the connection.
    Eof,
    /// The connection broke.
    Reset,
    /// What the server said is no reply to what it was asked.
    Garbled,
}

/// Why we went no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decline {
    /// STARTTLS is required and not offered.
    NoStartTls,
    /// The certificate or the TLS of the server is not acceptable, and why.
    BadTls(String),
    /// The server said something in clear text after it agreed to STARTTLS: somebody may have put it in.
    Injected,
    /// No mechanism that we may use is offered.
    NoMechanism,
    /// The credentials would go over the network in clear text.
    ClearText,
    /// The message is larger than the server's SIZE.
    TooLarge,
    /// The message or an address needs SMTPUTF8 and it is not offered.
    NeedsSmtpUtf8,
    /// An address that cannot be written in a command.
    UnsafeAddress,
    /// The message cannot be rendered or signed, or has a line end that is not CRLF.
    UnsafeContent,
    /// There was no time left to begin.
    TooLate,
}

/// An early end.
#[derive(Clone)]
pub(super) struct Fault {
    /// How far it had come.
    pub(super) stage: Stage,
    /// What ended it.
    pub(super) cause: Cause,
}

impl Fault {
    /// The server refused.
    pub(super) fn reply(stage: Stage, reply: Reply) -> Self {
        Self { stage, cause: Cause::Reply(reply) }
    }

    /// No reply came.
    pub(super) fn lost(stage: Stage, loss: Loss) -> Self {
        Self { stage, cause: Cause::Lost(loss) }
    }

    /// We went no further.
    pub(super) fn declined(stage: Stage, decline: Decline) -> Self {
        Self { stage, cause: Cause::Declined(decline) }
    }

    /// Whether what was said is no reply to what was asked.
    pub(super) fn is_garbled(&self) -> bool {
        matches!(self.cause, Cause::Lost(Loss::Garbled))
    }

    /// Whether on a connection that was used before it tells only that this connection had come to its end: nothing
    /// was handed over, and a fresh one may do.
    pub(super) fn is_stale(&self) -> bool {
        self.stage == Stage::Mail
            && match &self.cause {
                Cause::Reply(reply) => matches!(reply.code, 421 | 503),
                Cause::Lost(loss) => matches!(loss, Loss::Eof | Loss::Reset | Loss::Garbled),
                Cause::Declined(_) => false,
            }
    }
}

impl Loss {
    /// The word that goes on record.
    pub(super) fn code(self) -> &'static str {
        match self {
            Loss::Resolve | Loss::Connect(_) => "connect",
            Loss::Tls | Loss::Credentials => "tls",
            Loss::Timeout => "timeout",
            Loss::Eof => "eof",
            Loss::Reset => "reset",
            Loss::Garbled => "garbled",
        }
    }

    /// The words that go on record.
    pub(super) fn words(self, stage: Stage) -> String {
        let at = stage.words();
        match self {
            Loss::Resolve => "the host name could not be resolved".to_owned(),
            Loss::Connect(kind) => format!("no connection: {kind}"),
            Loss::Tls => format!("the server broke off TLS at {at}"),
            Loss::Credentials => "the server refused our certificate, or wants one".to_owned(),
            Loss::Timeout => format!("no reply in time at {at}"),
            Loss::Eof => format!("the server closed the connection at {at}"),
            Loss::Reset => format!("the connection broke at {at}"),
            Loss::Garbled => format!("the server's words at {at} are no reply"),
        }
    }

    /// What an error of the socket, or of TLS over it, tells.
    pub(super) fn of_io(error: &io::Error) -> Self {
        if let Some(reason) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::of_tls(reason);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Loss::Eof,
            io::ErrorKind::TimedOut => Loss::Timeout,
            _ => Loss::Reset,
        }
    }

    /// What an error of TLS tells. A server that refuses our certificate, or misses it, says so only once the handshake
    /// is over (RFC 8446, section 4.4.2.4), and older ones speak of a failed handshake.
    fn of_tls(reason: &rustls::Error) -> Self {
        use rustls::AlertDescription as Alert;
        match reason {
            rustls::Error::AlertReceived(
                Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::DecryptError
                | Alert::HandshakeFailure,
            ) => Loss::Credentials,
            _ => Loss::Tls,
        }
    }
}

impl Decline {
    /// The word that goes on record.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Decline::NoStartTls | Decline::BadTls(_) | Decline::Injected => "tls",
            Decline::NoMechanism | Decline::ClearText => "auth",
            Decline::TooLarge => "size",
            Decline::NeedsSmtpUtf8 => "smtputf8",
            Decline::UnsafeAddress => "address",
            Decline::UnsafeContent => "content",
            Decline::TooLate => "timeout",
        }
    }

    /// The words that go on record.
    pub(super) fn words(&self) -> &str {
        match self {
            Decline::NoStartTls => "the server does not offer STARTTLS, which is required",
            Decline::BadTls(why) => why,
            Decline::Injected => "the server went on in clear text after it agreed to STARTTLS",
            Decline::NoMechanism => "the server offers no authentication mechanism that may be used",
            Decline::ClearText => "credentials are not sent in clear text to another machine",
            Decline::TooLarge => "the message is larger than the server takes",
            Decline::NeedsSmtpUtf8 => "a non-ASCII address needs SMTPUTF8, which the server does not offer",
            Decline::UnsafeAddress => "the address cannot be written in a command",
            Decline::UnsafeContent => "the message has no safe MIME form",
            Decline::TooLate => "no time was left to begin",
        }
    }
}
