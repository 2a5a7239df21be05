//! The settings of a provider of kind `smtp`.
//!
//! Owns how the relay is reached and the patience with it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    Dkim,
    section::{Rule, Section, Visitor},
    value::Choice,
};

/// An SMTP relay.
#[derive(Clone, Debug)]
pub struct SmtpProvider {
    /// Its host name, which its certificate must bear. It must be given.
    pub host: String,
    /// Its port; without it 465 for implicit TLS, else 587.
    pub port: Option<u16>,
    /// How the connection is secured, `starttls` by default.
    pub tls: SmtpTls,
    /// The user name, if the relay wants one.
    pub username: Option<String>,
    /// The password. Secret.
    pub password: Option<SecretString>,
    /// A file that holds the password, instead of `password`. After [`super::load`] its content is in `password`.
    pub password_file: Option<PathBuf>,
    /// Which mechanism; without it PLAIN where offered, else LOGIN.
    pub auth: Option<SmtpAuth>,
    /// The name we give in EHLO; without it the machine's host name.
    pub hello_name: Option<String>,
    /// The longest wait for the connection and for TLS, 10 s by default. Nothing was sent then, so the next provider is
    /// asked at once.
    pub connect_timeout: Duration,
    /// The longest wait for a reply to a command, 5 min by default, as RFC 5321, section 4.5.3.2, asks for. The waits
    /// for which it asks less are in proportion: two fifths of it for DATA, three fifths for each block of the content.
    /// Shorter: a relay that went silent is left sooner.
    pub command_timeout: Duration,
    /// The longest wait for the reply to the final dot, 10 min by default, as RFC 5321 asks for. Shorter: more attempts
    /// whose outcome nobody can know.
    pub data_timeout: Duration,
    /// How long an idle connection is kept, 30 s by default. Longer: fewer handshakes; relays close idle ones too.
    pub idle: Duration,
    /// How long a connection is used at most, 10 min by default. Longer: fewer handshakes; a relay that moved to another
    /// address is followed later.
    pub connection_age: Duration,
    /// How many messages go over one connection, 100 by default. More: fewer handshakes; relays have limits too.
    pub messages_per_connection: u32,
    /// A file with the certificates (PEM) that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
    /// A file with our own certificate (PEM), and those that lead from it to its authority, for a relay that knows us by
    /// it (mutual TLS).
    pub certificate_file: Option<PathBuf>,
    /// A file with that certificate's private key (PEM).
    pub key_file: Option<PathBuf>,
    /// The keys that sign what goes over it, by names of the user's choice. Each signs for the senders of its domain;
    /// where several do, a message gets a signature of each.
    pub dkim: BTreeMap<String, Dkim>,
}

/// How an SMTP connection is secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub enum SmtpTls {
    /// STARTTLS (RFC 3207), required: without it nothing is sent.
    #[default]
    Starttls,
    /// TLS from the first byte (RFC 8314).
    Implicit,
    /// None. Credentials are not sent over it unless the host is a loopback address.
    None,
}

impl Choice for SmtpTls {
    const WORDS: &'static [(Self, &'static str)] =
        &[(SmtpTls::Starttls, "starttls"), (SmtpTls::Implicit, "implicit"), (SmtpTls::None, "none")];
}

/// An SMTP authentication mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum SmtpAuth {
    /// RFC 4616.
    Plain,
    /// The older one that some relays want.
    Login,
}

impl Choice for SmtpAuth {
    const WORDS: &'static [(Self, &'static str)] = &[(SmtpAuth::Plain, "plain"), (SmtpAuth::Login, "login")];
}

impl SmtpProvider {
    /// A relay at that host, everything else at its default.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            tls: SmtpTls::default(),
            username: None,
            password: None,
            password_file: None,
            auth: None,
            hello_name: None,
            connect_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(5 * 60),
            data_timeout: Duration::from_secs(10 * 60),
            idle: Duration::from_secs(30),
            connection_age: Duration::from_secs(10 * 60),
            messages_per_connection: 100,
            ca_file: None,
            certificate_file: None,
            key_file: None,
            dkim: BTreeMap::new(),
        }
    }
}

impl Section for SmtpProvider {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let (hour, day) = (s(60 * 60), s(24 * 60 * 60));
        let host = v.setting("host", Some(self.host).filter(|host| !host.is_empty()), Rule::Required);
        let username = v.optional("username", self.username);
        let (password, password_file) = v.secret(("password", "password_file"), self.password, self.password_file);
        Self {
            host: host.unwrap_or_default(),
            port: v.optional_within("port", self.port, 1..=u16::MAX),
            tls: v.any("tls", self.tls),
            username,
            password,
            password_file,
            auth: v.optional("auth", self.auth),
            hello_name: v.optional("hello_name", self.hello_name),
            connect_timeout: v.within("connect_timeout", self.connect_timeout, ms(10)..=hour),
            command_timeout: v.within("command_timeout", self.command_timeout, ms(10)..=hour),
            data_timeout: v.within("data_timeout", self.data_timeout, ms(10)..=hour),
            idle: v.within("idle", self.idle, ms(0)..=hour),
            connection_age: v.within("connection_age", self.connection_age, ms(10)..=day),
            messages_per_connection: v.within("messages_per_connection", self.messages_per_connection, 1..=1_000_000),
            ca_file: v.optional("ca_file", self.ca_file),
            certificate_file: v.optional("certificate_file", self.certificate_file),
            key_file: v.optional("key_file", self.key_file),
            dkim: v.sections("dkim", self.dkim, Dkim::blank),
        }
    }
}
