//! The settings of a provider of kind `http`.
//!
//! Owns how the gateway is reached, not what is said to it.

use std::{fmt, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    section::{Rule, Section, Visitor},
    value::redact,
};

/// A mail gateway of the user's own, over HTTP.
#[derive(Clone)]
pub struct HttpProvider {
    /// Where emails are posted. It must be given. Credentials do not belong in it.
    pub url: String,
    /// Sent as `Authorization: Bearer …`, if given. Secret.
    pub token: Option<SecretString>,
    /// A file that holds the token, instead of `token`. After [`super::load`] its content is in `token`.
    pub token_file: Option<PathBuf>,
    /// The longest wait for a connection, 10 s by default. Nothing was sent then, so the next provider is asked at once.
    pub connect_timeout: Duration,
    /// The longest wait for the whole answer, 30 s by default. Shorter: more attempts whose outcome nobody can know.
    pub timeout: Duration,
    /// The largest email the gateway takes, in bytes of JSON; without it, the default: no limit.
    pub max_bytes: Option<u64>,
    /// For how long the gateway recognises an `Idempotency-Key`, 1 day by default; zero if it does not. Within this
    /// time a message of unknown outcome can be asked for again without risk.
    pub idempotency: Duration,
    /// A file with the certificates (PEM) that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
}

impl HttpProvider {
    /// A gateway at that address, everything else at its default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            token_file: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            max_bytes: None,
            idempotency: Duration::from_secs(24 * 60 * 60),
            ca_file: None,
        }
    }
}

/// Without what may be secret in the URL.
impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider")
            .field("url", &redact(&self.url))
            .field("token", &self.token)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("max_bytes", &self.max_bytes)
            .field("idempotency", &self.idempotency)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl Section for HttpProvider {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let (hour, day) = (s(60 * 60), s(24 * 60 * 60));
        let url = v.setting("url", Some(self.url).filter(|url| !url.is_empty()), Rule::Required);
        let (token, token_file) = v.secret(("token", "token_file"), self.token, self.token_file);
        Self {
            url: url.unwrap_or_default(),
            token,
            token_file,
            connect_timeout: v.within("connect_timeout", self.connect_timeout, ms(10)..=hour),
            timeout: v.within("timeout", self.timeout, ms(10)..=hour),
            max_bytes: v.optional_within("max_bytes", self.max_bytes, 1024..=1024 * 1024 * 1024),
            idempotency: v.within("idempotency", self.idempotency, ms(0)..=366 * day),
            ca_file: v.optional("ca_file", self.ca_file),
        }
    }
}
