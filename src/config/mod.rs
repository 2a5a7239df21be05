//! The settings: plain structs with their defaults, one a concern, and how they are read.
//!
//! Owns the reading and the checking of settings as a whole; decides nothing by them.
//!
//! There is one TOML file: the one asked for, else the one that `POSTRIDER_CONFIG` names, else `postrider.toml` in the
//! working directory if it is there. Over it lies the environment: `POSTRIDER_` and the setting's path in capitals, with
//! two underscores between levels (`POSTRIDER_PROVIDERS__BACKUP__PASSWORD`), lists as words with commas between them. An
//! empty variable counts as not set. A secret can be given as a file (`password_file`) instead.

mod api_provider;
mod breaker;
mod certificates;
mod chain;
mod chain_rules;
mod database;
mod dispatch;
mod dkim;
#[cfg(test)]
mod example;
mod http_provider;
mod policy;
mod problem;
mod process;
mod provider;
mod provider_rules;
mod reader;
mod retention;
mod retry;
mod route;
mod rules;
mod section;
mod server;
mod smtp_provider;
mod smtp_rules;
mod source;
mod summary;
mod telemetry;
mod value;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

pub use api_provider::{ApiProvider, ApiService, MailgunRegion, SendgridRegion};
pub use breaker::Breaker;
pub use certificates::{CertificateError, read_certificates, read_private_key};
pub use chain::{Chain, Position, Share};
pub use database::{Database, Pooling};
pub use dispatch::Dispatch;
pub use dkim::Dkim;
pub use http_provider::HttpProvider;
pub use policy::Policy;
pub use problem::SettingsErrors;
pub use process::{Process, Role, Roles, UnknownRole};
pub use provider::{Provider, ProviderKind, WhenBusy};
pub use retention::Retention;
pub use retry::{Growth, Retry};
pub use route::Route;
pub use server::Server;
pub use smtp_provider::{SmtpAuth, SmtpProvider, SmtpTls};
pub use telemetry::{LogFormat, Telemetry};

use problem::Problems;
use reader::Reader;
use section::{Section, Visitor};
use source::{Environment, Table};

/// The chain that a message takes for which there is no route.
pub const DEFAULT_CHAIN: &str = "default";

/// Everything that can be set.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What this process does.
    pub process: Process,
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
    /// The chains: for each its providers, first the one that is asked first. A message takes the chain that a route
    /// leads it to, else `default`.
    pub chains: BTreeMap<String, Chain>,
    /// The routes, in the order in which they are looked at.
    pub routes: Vec<Route>,
}

impl Settings {
    /// The settings in force as TOML, secrets masked.
    pub fn summary(&self) -> String {
        summary::print(self.clone())
    }

    /// What is no mistake, but hardly meant: one line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = provider_rules::warnings(self);
        warnings.extend(chain_rules::warnings(self));
        warnings
    }
}

impl Section for Settings {
    fn visit(self, v: &mut impl Visitor) -> Self {
        Self {
            process: v.section("process", self.process),
            server: v.section("server", self.server),
            database: v.section("database", self.database),
            dispatch: v.section("dispatch", self.dispatch),
            retry: v.section("retry", self.retry),
            retention: v.section("retention", self.retention),
            policy: v.section("policy", self.policy),
            telemetry: v.section("telemetry", self.telemetry),
            providers: v.sections("providers", self.providers, Provider::blank),
            chains: v.values("chains", self.chains),
            routes: v.list("routes", self.routes),
        }
    }
}

/// Reads the settings from the file and the environment (`std::env::vars_os()`), and checks them as a whole.
///
/// # Errors
///
/// Everything that is wrong, at once. No secret is in it.
pub fn load<K, V>(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (K, V)>,
) -> Result<Settings, SettingsErrors>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    load_in(Path::new("."), file, environment)
}

/// As [`load`], with `postrider.toml` looked for in that directory.
pub fn load_in<K, V>(
    directory: &Path,
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (K, V)>,
) -> Result<Settings, SettingsErrors>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    let mut problems = Problems::default();
    let environment = Environment::new(environment, &mut problems);
    let file: Option<PathBuf> = environment.locate(file, directory);
    let mut tree = match &file {
        Some(file) => source::read_file(file, &mut problems),
        None => Table::new(),
    };
    // A file that is not TOML is read in part only: what follows from the rest would mislead.
    if problems.is_empty() {
        environment.overlay(&mut tree, &mut problems);
        let settings = Reader::read(tree, Settings::default(), &mut problems);
        environment.find_single_underscores(&summary::entries(settings.clone()), &mut problems);
        rules::check(&settings, &mut problems);
        if problems.is_empty() {
            return Ok(settings);
        }
    }
    Err(problems.into_errors(file))
}
