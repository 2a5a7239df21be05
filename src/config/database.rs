//! The Postgres database.

use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;

/// The Postgres database that holds the outbox.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// `postgres://user:password@host:port/database`. Secret, since it holds the password.
    pub url: Option<SecretString>,
    /// A file that holds the URL, instead of `url`.
    pub url_file: Option<std::path::PathBuf>,
    /// The schema that the tables are in.
    pub schema: String,
    /// The most connections of one process. None is held while a provider is spoken to: two are enough to work, more
    /// let more calls commit at once.
    pub max_connections: u32,
    /// The longest wait for a connection.
    #[serde(with = "humantime_serde")]
    pub acquire_timeout: Duration,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            schema: "postrider".into(),
            max_connections: 10,
            acquire_timeout: Duration::from_secs(5),
        }
    }
}
