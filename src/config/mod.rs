//! The settings: plain structs with their defaults, one a concern, and how they are read.
//!
//! Owns the reading and the checking of settings as a whole; decides nothing by them.

mod database;
mod dispatch;
mod policy;
mod provider;
mod retention;
mod server;
mod telemetry;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use database::Database;
pub use dispatch::{Dispatch, Growth, Retry};
pub use policy::Policy;
pub use provider::{Breaker, HttpProvider, Provider, ProviderKind, SmtpAuth, SmtpProvider, SmtpTls};
pub use retention::Retention;
pub use server::Server;
pub use telemetry::{LogFormat, Telemetry};

/// Everything that can be set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The gRPC server.
    pub server: Server,
    /// The Postgres database.
    pub database: Database,
    /// How messages are claimed and sent.
    pub dispatch: Dispatch,
    /// How often and how long a message is tried.
    pub retry: Retry,
    /// How long messages are kept.
    pub retention: Retention,
    /// What may be sent.
    pub policy: Policy,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// The providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// The chains: for each the names of its providers, first the one that is asked first. `default` is used by every
    /// message.
    pub chains: BTreeMap<String, Vec<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: Server::default(),
            database: Database::default(),
            dispatch: Dispatch::default(),
            retry: Retry::default(),
            retention: Retention::default(),
            policy: Policy::default(),
            telemetry: Telemetry::default(),
            providers: BTreeMap::new(),
            chains: BTreeMap::new(),
        }
    }
}

/// The chain that every message takes.
pub const DEFAULT_CHAIN: &str = "default";
