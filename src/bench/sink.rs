//! The providers of the sandbox that mail is sent to.
//!
//! Owns their start and the settings by which they are used; what arrived is the inbox's.

use std::{net::SocketAddr, time::Duration};

use super::BenchError;
use crate::{
    config::{self, HttpProvider, ProviderKind, SmtpProvider, SmtpTls},
    sandbox::{
        Inbox, SandboxError,
        http::{self, HttpOptions, HttpSink},
        smtp::{self, SmtpOptions, SmtpSink, Stage},
    },
};

/// A kind of provider that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Smtp,
    Http,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Smtp, Kind::Http];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Smtp => "smtp",
            Kind::Http => "http",
        }
    }
}

/// A provider of the sandbox.
pub(super) enum Sink {
    Smtp(String, SmtpSink),
    Http(String, HttpSink),
}

impl Sink {
    /// Starts one of that kind, which puts what it receives into the inbox.
    pub(super) async fn start(kind: Kind, name: &str, inbox: &Inbox) -> Result<Self, BenchError> {
        let (name, inbox) = (name.to_owned(), inbox.clone());
        Ok(match kind {
            Kind::Smtp => {
                let options = SmtpOptions { name: name.clone(), inbox, ..SmtpOptions::default() };
                Self::Smtp(name, SmtpSink::start(options).await?)
            }
            Kind::Http => {
                let options = HttpOptions { name: name.clone(), inbox, ..HttpOptions::default() };
                Self::Http(name, HttpSink::start(options).await?)
            }
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Smtp(name, _) | Self::Http(name, _) => name,
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Smtp(_, sink) => sink.address(),
            Self::Http(_, sink) => sink.address(),
        }
    }

    /// The settings by which Postrider uses it; all but the address are the defaults.
    pub(super) fn provider(&self) -> config::Provider {
        config::Provider::new(match self {
            Self::Smtp(_, sink) => {
                let mut smtp = SmtpProvider::new(sink.address().ip().to_string());
                smtp.port = Some(sink.address().port());
                smtp.tls = SmtpTls::None;
                ProviderKind::Smtp(smtp)
            }
            Self::Http(_, sink) => ProviderKind::Http(HttpProvider::new(sink.url())),
        })
    }

    /// The same as variables of a service's environment, behind the provider's name.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Smtp(_, sink) => vec![
                ("KIND", "smtp".to_owned()),
                ("HOST", sink.address().ip().to_string()),
                ("PORT", sink.address().port().to_string()),
                ("TLS", "none".to_owned()),
            ],
            Self::Http(_, sink) => vec![("KIND", "http".to_owned()), ("URL", sink.url())],
        }
    }

    /// From now on it takes that long before it takes a mail.
    pub(super) fn slow_down(&self, by: Duration) -> Result<(), SandboxError> {
        match self {
            Self::Smtp(_, sink) => sink.set_fault(smtp::Fault::Delay { stage: Stage::Mail, by }),
            // It has the mail before it is slow to say so.
            Self::Http(_, sink) => sink.set_fault(http::Fault::Delay(by)),
        }
    }

    /// From now on it reads and says nothing: by SMTP at MAIL, so that nothing can have been sent; by HTTP after the
    /// whole request, so that nobody can know.
    pub(super) fn fall_silent(&self) -> Result<(), SandboxError> {
        match self {
            Self::Smtp(_, sink) => sink.set_fault(smtp::Fault::Silent { stage: Stage::Mail }),
            Self::Http(_, sink) => sink.set_fault(http::Fault::Silent),
        }
    }
}
