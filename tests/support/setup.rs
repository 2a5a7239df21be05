//! The settings of a service under test: those of a user, in a hurry.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path};

use postrider::config::{self, Settings};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::postgres::Database;

/// Settings by their paths, as they stand in the file.
#[derive(Clone)]
pub struct Setup {
    settings: BTreeMap<String, Value>,
    chain: Vec<String>,
    rest: String,
}

impl Setup {
    /// Without a provider. Polls, pauses and leases are short, and no circuit opens by chance.
    pub fn new() -> Self {
        let setup = Self { settings: BTreeMap::new(), chain: Vec::new(), rest: String::new() };
        setup
            .set("server.listen", "127.0.0.1:0")
            .set("dispatch.poll_shortest", "5ms")
            .set("dispatch.poll_longest", "40ms")
            .set("dispatch.lease", "20s")
            .set("dispatch.lease_renewal", "200ms")
            .set("dispatch.attempt_timeout", "2m")
            .set("dispatch.drain_limit", "20s")
            .set("retry.pause", "50ms")
            .set("retry.jitter", 0.0)
            .set("retention.days_ahead", 1)
            .set("telemetry.log_format", "json")
    }

    /// One setting.
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(path.to_owned(), value.into());
        self
    }

    /// Settings as they stand in the file, at its end.
    pub fn toml(mut self, text: &str) -> Self {
        self.rest.push_str(text);
        self.rest.push('\n');
        self
    }

    /// Another default chain than that of the providers in their order, as it stands in the file.
    pub fn default_chain(mut self, chain: &str) -> Self {
        self.settings.remove("chains.default");
        self.toml(&format!("chains.default = {chain}"))
    }

    /// A route to that chain for what meets the condition.
    pub fn route(self, condition: &str, chain: &str) -> Self {
        self.toml(&format!("[[routes]]\n{condition}\nchain = {chain:?}"))
    }

    /// The next provider of the chain: a gateway at that URL.
    pub fn http(self, name: &str, url: &str) -> Self {
        let at = |key: &str| format!("providers.{name}.{key}");
        self.provider(name).set(&at("kind"), "http").set(&at("url"), url).set(&at("timeout"), "30s")
    }

    /// The next provider of the chain: an account of that kind, whose API is there.
    pub fn api(self, name: &str, kind: &str, url: &str) -> Self {
        let at = |key: &str| format!("providers.{name}.{key}");
        self.provider(name)
            .set(&at("kind"), kind)
            .set(&at("key"), "k3y")
            .set(&at("url"), url)
            .set(&at("timeout"), "30s")
    }

    /// The next provider of the chain: a relay at that address.
    pub fn smtp(self, name: &str, address: SocketAddr) -> Self {
        let at = |key: &str| format!("providers.{name}.{key}");
        self.provider(name)
            .set(&at("kind"), "smtp")
            .set(&at("host"), address.ip().to_string())
            .set(&at("port"), address.port())
            .set(&at("tls"), "none")
            .set(&at("command_timeout"), "30s")
            .set(&at("data_timeout"), "30s")
    }

    fn provider(mut self, name: &str) -> Self {
        self.chain.push(name.to_owned());
        let chain = json!(self.chain);
        self.set("chains.default", chain)
            .set(&format!("providers.{name}.concurrency"), 200)
            .set(&format!("providers.{name}.breaker.min_calls"), 10_000)
            .set(&format!("providers.{name}.breaker.consecutive_failures"), 10_000)
    }

    /// The settings of a service on that database, as it reads them.
    pub fn settings(&self, database: &Database) -> Settings {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("postrider.toml");
        self.write(database.url.expose_secret(), &file);
        config::load::<&str, &str>(Some(&file), []).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Writes the file.
    pub fn write(&self, database_url: &str, file: &Path) {
        let settings = self.clone().set("database.url", database_url).settings;
        // A word, a number and a list are written in TOML as they are in JSON.
        let lines: Vec<String> = settings.iter().map(|(path, value)| format!("{path} = {value}\n")).collect();
        fs::write(file, lines.concat() + &self.rest).expect("the file can be written");
    }
}
