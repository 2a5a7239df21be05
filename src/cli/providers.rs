//! `postrider providers`.
//!
//! Owns how providers read on a screen and in JSON; what is known of them is the service's.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{
    Exit, Failure,
    client::ServiceAddress,
    output,
    status::{or_null, strip, time},
    table::{cell, table},
};
use crate::proto::v1::{ListProvidersRequest, Provider, ProviderMode, SetProviderModeRequest};

/// Show the providers and how they do, or take one out of rotation.
#[derive(Debug, Args)]
pub(super) struct Providers {
    #[command(flatten)]
    service: ServiceAddress,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Take a provider out of rotation in every process, or put it back.
    Set {
        /// Its name in the settings.
        name: String,
        /// What is wanted of it.
        #[arg(value_enum)]
        mode: ModeWord,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeWord {
    /// In rotation, and tried at once whatever it was left out for.
    On,
    /// Not asked at all. What it has begun is finished.
    Off,
    /// Nothing new for it: only what it deferred, or may have, is offered to it again.
    Drain,
}

impl From<ModeWord> for ProviderMode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::On => Self::On,
            ModeWord::Off => Self::Off,
            ModeWord::Drain => Self::Drain,
        }
    }
}

impl Providers {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let mut client = self.service.connect_as_operator().await?;
        let providers = match &self.action {
            None => {
                let answer = client.list_providers(self.service.request(ListProvidersRequest {})).await;
                answer.map_err(|status| Failure::from_status(&status))?.into_inner().providers
            }
            Some(Action::Set { name, mode }) => {
                let request = SetProviderModeRequest { provider: name.clone(), mode: ProviderMode::from(*mode).into() };
                let answer = client.set_provider_mode(self.service.request(request)).await;
                let provider = answer.map_err(|status| Failure::from_status(&status))?.into_inner().provider;
                provider.into_iter().collect()
            }
        };
        output::answer(&match self.json {
            true => format!("{:#}\n", Value::Array(providers.iter().map(to_json).collect())),
            false => for_people(&providers),
        })?;
        Ok(Exit::Done)
    }
}

fn mode(provider: &Provider) -> String {
    strip(provider.mode().as_str_name(), "PROVIDER_MODE_").to_ascii_lowercase()
}

fn circuit(provider: &Provider) -> String {
    strip(provider.circuit().as_str_name(), "CIRCUIT_STATE_").to_ascii_lowercase().replace('_', "-")
}

fn to_json(provider: &Provider) -> Value {
    json!({
        "name": provider.name,
        "kind": provider.kind,
        "mode": mode(provider),
        "circuit": circuit(provider),
        "resting_until": or_null(time(provider.resting_until.as_ref())),
        "reason": or_null(provider.reason.clone()),
    })
}

fn for_people(providers: &[Provider]) -> String {
    let row = |provider: &Provider| {
        [provider.name.clone(), provider.kind.clone(), mode(provider), circuit(provider), cell(&provider.reason)]
    };
    table(["NAME", "KIND", "MODE", "CIRCUIT", "WHY IT IS NOT ASKED"], providers.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::CircuitState;

    fn provider(name: &str, mode: ProviderMode, circuit: CircuitState, reason: &str) -> Provider {
        Provider {
            name: name.into(),
            kind: "http".into(),
            mode: mode.into(),
            circuit: circuit.into(),
            resting_until: None,
            reason: reason.into(),
        }
    }

    #[test]
    fn providers_read_as_a_table() {
        let providers = [
            provider("primary", ProviderMode::On, CircuitState::HalfOpen, ""),
            provider("backup", ProviderMode::Drain, CircuitState::Closed, "provider backup is being drained"),
        ];
        let expected = "\
NAME     KIND  MODE   CIRCUIT    WHY IT IS NOT ASKED
primary  http  on     half-open  -
backup   http  drain  closed     provider backup is being drained
";
        assert_eq!(for_people(&providers), expected);
    }

    #[test]
    fn what_is_not_so_is_null_to_a_script() {
        let told = to_json(&provider("primary", ProviderMode::Off, CircuitState::Open, ""));
        assert_eq!((&told["mode"], &told["circuit"]), (&json!("off"), &json!("open")));
        assert!(told["resting_until"].is_null() && told["reason"].is_null());
    }
}
