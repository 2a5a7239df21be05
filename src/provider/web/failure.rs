//! What it means when no answer came.
//!
//! Owns the line between "not sent" and "nobody can know": whether a byte of the body was handed to the connection.

use std::{error::Error, io};

use crate::{
    delivery::{Class, Health, Outcome, Scope, Verdict},
    message::RecipientIndex,
};

/// Why no answer came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::provider) enum Failure {
    /// The connection was not made, or broke.
    Broken {
        /// A word for it, which the outcome bears as code.
        code: &'static str,
        /// What the network said.
        detail: String,
    },
    /// Something answered the connection that cannot prove to be the provider.
    BadCertificate(String),
    /// The time of the settings was up.
    Timeout,
    /// The time that the dispatcher gave was up, sooner than that of the settings.
    Deadline,
}

impl Failure {
    /// Reads an error of the client.
    pub(in crate::provider) fn read(error: &reqwest::Error) -> Self {
        if let Some(reason) = chain(error).find_map(bad_certificate) {
            return Self::BadCertificate(reason);
        }
        let code = match () {
            () if error.is_dns() => "dns",
            () if error.is_connect() && error.is_timeout() => "connect_timeout",
            () if error.is_connect() && chain(error).any(|cause| as_tls(cause).is_some()) => "tls",
            () if error.is_connect() => "connect",
            () => "connection_lost",
        };
        // The outer errors say what was tried, and hold the address that it was tried at; the innermost says why not.
        let detail = chain(error).last().map(ToString::to_string).unwrap_or_default();
        Self::Broken { code, detail }
    }

    /// What it says of the provider when no message was at stake.
    pub(in crate::provider) fn health(self) -> Health {
        self.outcome(&[], false).health
    }

    /// What it means: definitely not sent while no byte of the body was handed over, and unknown from then on, since
    /// how much of it left cannot be told.
    pub(in crate::provider) fn outcome(self, recipients: &[RecipientIndex], begun: bool) -> Outcome {
        let failing = Health::Failing { retry_after: None };
        let (code, detail, health) = match self {
            Self::BadCertificate(reason) => {
                let verdict = Verdict::new(Class::Misconfigured, Scope::Provider, "certificate", &reason);
                return Outcome::uniform(recipients, &verdict, Health::Misconfigured);
            }
            Self::Broken { code, detail } => (code, detail, failing),
            Self::Timeout => ("timeout", "no answer in time".to_owned(), failing),
            Self::Deadline if begun => ("timeout", "no answer in time".to_owned(), failing),
            Self::Deadline => ("deadline", "the time for this round was up".to_owned(), Health::Neutral),
        };
        let (class, scope) =
            if begun { (Class::OutcomeUnknown, Scope::Wire) } else { (Class::Unavailable, Scope::Provider) };
        Outcome::uniform(recipients, &Verdict::new(class, scope, code, &detail), health)
    }
}

/// An error and its causes, the innermost last. What an I/O error wraps is found too, which `source` passes over.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

fn as_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref()
}

fn bad_certificate(error: &(dyn Error + 'static)) -> Option<String> {
    as_tls(error).filter(|error| matches!(error, rustls::Error::InvalidCertificate(_))).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> Failure {
        Failure::Broken { code: "connection_lost", detail: "reset".to_owned() }
    }

    #[test]
    fn before_the_first_byte_it_was_not_sent_and_afterwards_nobody_can_know() {
        let failing = Health::Failing { retry_after: None };
        let table = [
            (broken(), false, Class::Unavailable, Scope::Provider, "connection_lost", failing),
            (broken(), true, Class::OutcomeUnknown, Scope::Wire, "connection_lost", failing),
            (Failure::Timeout, false, Class::Unavailable, Scope::Provider, "timeout", failing),
            (Failure::Timeout, true, Class::OutcomeUnknown, Scope::Wire, "timeout", failing),
            (Failure::Deadline, false, Class::Unavailable, Scope::Provider, "deadline", Health::Neutral),
            (Failure::Deadline, true, Class::OutcomeUnknown, Scope::Wire, "timeout", failing),
            (
                Failure::BadCertificate("expired".to_owned()),
                false,
                Class::Misconfigured,
                Scope::Provider,
                "certificate",
                Health::Misconfigured,
            ),
        ];
        for (failure, begun, class, scope, code, health) in table {
            let outcome = failure.clone().outcome(&[RecipientIndex(0), RecipientIndex(3)], begun);
            assert_eq!(outcome.verdicts.len(), 2);
            for (_, verdict) in &outcome.verdicts {
                assert_eq!((verdict.class, verdict.scope), (class, scope), "{failure:?}, begun: {begun}");
                assert_eq!(verdict.code, code, "{failure:?}, begun: {begun}");
            }
            assert_eq!(outcome.health, health, "{failure:?}, begun: {begun}");
        }
    }

    #[test]
    fn a_bad_certificate_is_found_behind_an_io_error() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let nested = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert!(chain(&nested).any(|error| bad_certificate(error).is_some()));

        let other = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete);
        assert!(!chain(&other).any(|error| bad_certificate(error).is_some()));
    }
}
