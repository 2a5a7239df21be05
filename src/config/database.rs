//! The Postgres database's settings.
//!
//! Owns how it is reached; no statement.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    section::{Section, Visitor},
    value::Choice,
};

/// The Postgres database that holds the outbox.
#[derive(Clone, Debug)]
pub struct Database {
    /// `postgres://user:password@host:port/database`. Secret, since it holds the password. After [`super::load`] it is
    /// there.
    pub url: Option<SecretString>,
    /// A file that holds the URL, instead of `url`. After [`super::load`] its content is in `url`.
    pub url_file: Option<PathBuf>,
    /// The schema that the tables are in, `postrider` by default.
    pub schema: String,
    /// The most connections of one process, 10 by default, besides one that listens to other processes. Half are for what
    /// is done all the time (accept, claim, settle), half for the rest. None is held while a provider is spoken to: two
    /// are enough to work, more let status queries and settles go on beside each other.
    pub max_connections: u32,
    /// The longest wait for a connection, 5 s by default. Longer: calls wait out a longer shortage, and learn later
    /// that the database is away.
    pub acquire_timeout: Duration,
    /// What is in front of Postgres: `session` (nothing, or a pooler that lends a connection for as long as it is open),
    /// or `transaction` (a pooler that lends one for each transaction, like pgbouncer in its transaction mode). The
    /// latter costs three more round trips a statement, and other processes' messages are found by poll alone.
    pub pooling: Pooling,
}

/// For how long a connection to Postgres is one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Pooling {
    /// As long as it is open.
    Session,
    /// For one transaction.
    Transaction,
}

impl Choice for Pooling {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Pooling::Session, "session"), (Pooling::Transaction, "transaction")];
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            schema: "postrider".into(),
            max_connections: 10,
            acquire_timeout: Duration::from_secs(5),
            pooling: Pooling::Session,
        }
    }
}

impl Section for Database {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (url, url_file) = v.secret(("url", "url_file"), self.url, self.url_file);
        Self {
            url,
            url_file,
            schema: v.any("schema", self.schema),
            max_connections: v.within("max_connections", self.max_connections, 2..=1000),
            acquire_timeout: v.within(
                "acquire_timeout",
                self.acquire_timeout,
                Duration::from_millis(100)..=Duration::from_secs(300),
            ),
            pooling: v.any("pooling", self.pooling),
        }
    }
}
