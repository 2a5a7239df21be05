//! The providers and their breakers.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;
use serde::Deserialize;

/// One provider: an account at a sender of email.
#[derive(Clone, Debug, Deserialize)]
pub struct Provider {
    /// What kind it is, with that kind's own settings.
    #[serde(flatten)]
    pub kind: ProviderKind,
    /// How many messages are handed to it at once by one process.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// How many messages a second are handed to it by one process; without it: no limit.
    #[serde(default)]
    pub rate_per_second: Option<u32>,
    /// How long it rests after it throttled us without naming a time.
    #[serde(default = "default_throttle_rest", with = "humantime_serde")]
    pub throttle_rest: Duration,
    /// How long it rests after its quota was used up or its credentials were refused, without a time named.
    #[serde(default = "default_account_rest", with = "humantime_serde")]
    pub account_rest: Duration,
    /// Its circuit breaker.
    #[serde(default)]
    pub breaker: Breaker,
}

fn default_concurrency() -> usize {
    32
}

fn default_throttle_rest() -> Duration {
    Duration::from_secs(10)
}

fn default_account_rest() -> Duration {
    Duration::from_secs(300)
}

/// What kind of sender a provider is. Matched only by the registry of providers.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ProviderKind {
    /// A mail gateway of the user's own, over HTTP.
    Http(HttpProvider),
    /// An SMTP relay.
    Smtp(SmtpProvider),
}

/// A mail gateway of the user's own, over HTTP.
#[derive(Clone, Debug, Deserialize)]
pub struct HttpProvider {
    /// Where emails are posted.
    pub url: String,
    /// Sent as `Authorization: Bearer …`, if given.
    #[serde(default)]
    pub token: Option<SecretString>,
    /// A file that holds the token, instead of `token`.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The longest wait for a connection.
    #[serde(default = "default_connect_timeout", with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The longest wait for the whole answer.
    #[serde(default = "default_http_timeout", with = "humantime_serde")]
    pub timeout: Duration,
    /// The largest email the gateway takes, in bytes of JSON; without it: no limit.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// For how long the gateway recognises an `Idempotency-Key`; zero if it does not.
    #[serde(default = "default_idempotency", with = "humantime_serde")]
    pub idempotency: Duration,
    /// A file with the certificates (PEM) that are trusted besides the public ones.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// An SMTP relay.
#[derive(Clone, Debug, Deserialize)]
pub struct SmtpProvider {
    /// Its host name, which its certificate must bear.
    pub host: String,
    /// Its port; without it 465 for implicit TLS, else 587.
    #[serde(default)]
    pub port: Option<u16>,
    /// How the connection is secured.
    #[serde(default)]
    pub tls: SmtpTls,
    /// The user name, if the relay wants one.
    #[serde(default)]
    pub username: Option<String>,
    /// The password.
    #[serde(default)]
    pub password: Option<SecretString>,
    /// A file that holds the password, instead of `password`.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Which mechanism; without it PLAIN where offered, else LOGIN.
    #[serde(default)]
    pub auth: Option<SmtpAuth>,
    /// The name we give in EHLO; without it the machine's host name.
    #[serde(default)]
    pub hello_name: Option<String>,
    /// The longest wait for the connection and for TLS.
    #[serde(default = "default_connect_timeout", with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The longest wait for a reply to a command. RFC 5321, section 4.5.3.2, asks for 5 minutes.
    #[serde(default = "default_command_timeout", with = "humantime_serde")]
    pub command_timeout: Duration,
    /// The longest wait for the reply to the final dot. RFC 5321 asks for 10 minutes; a shorter one makes more unknown
    /// outcomes.
    #[serde(default = "default_data_timeout", with = "humantime_serde")]
    pub data_timeout: Duration,
    /// How long an idle connection is kept.
    #[serde(default = "default_idle", with = "humantime_serde")]
    pub idle: Duration,
    /// How many messages go over one connection.
    #[serde(default = "default_messages")]
    pub messages_per_connection: u32,
    /// A file with the certificates (PEM) that are trusted besides the public ones.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// How an SMTP connection is secured.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SmtpTls {
    /// STARTTLS (RFC 3207), required: without it nothing is sent.
    #[default]
    Starttls,
    /// TLS from the first byte (RFC 8314).
    Implicit,
    /// None. Credentials are not sent over it unless the host is a loopback address.
    None,
}

/// An SMTP authentication mechanism.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SmtpAuth {
    /// RFC 4616.
    Plain,
    /// The older one that some relays want.
    Login,
}

fn default_connect_timeout() -> Duration {
    Duration::from_secs(10)
}

fn default_http_timeout() -> Duration {
    Duration::from_secs(30)
}

fn default_idempotency() -> Duration {
    Duration::from_secs(24 * 60 * 60)
}

fn default_command_timeout() -> Duration {
    Duration::from_secs(5 * 60)
}

fn default_data_timeout() -> Duration {
    Duration::from_secs(10 * 60)
}

fn default_idle() -> Duration {
    Duration::from_secs(30)
}

fn default_messages() -> u32 {
    100
}

/// When a provider's circuit opens and closes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Breaker {
    /// The part of calls that must have failed, from 0 to 1.
    pub failure_ratio: f64,
    /// The time over which calls are counted.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// The least number of calls in the window before the circuit can open.
    pub min_calls: u32,
    /// A call that took longer counts as a failure.
    #[serde(with = "humantime_serde")]
    pub slow_call: Duration,
    /// How long the circuit stays open the first time; doubled each time a probe fails.
    #[serde(with = "humantime_serde")]
    pub open_for: Duration,
    /// The longest it stays open, unless the provider named a later time.
    #[serde(with = "humantime_serde")]
    pub open_longest: Duration,
    /// How many calls may be under way at once while it is half-open; it closes when as many succeeded.
    pub probes: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failure_ratio: 0.5,
            window: Duration::from_secs(30),
            min_calls: 5,
            slow_call: Duration::from_secs(20),
            open_for: Duration::from_secs(5),
            open_longest: Duration::from_secs(300),
            probes: 2,
        }
    }
}
