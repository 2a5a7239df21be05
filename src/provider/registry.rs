//! From settings to adapters.
//!
//! Owns the only place that tells one kind of provider from another; a new kind is one line here.

use std::{error::Error, sync::Arc};

use super::{Provider, http::HttpProvider, smtp::SmtpProvider};
use crate::{
    config::{self, ProviderKind},
    delivery::ProviderName,
};

/// Why a provider could not be made from its settings.
#[derive(Debug, thiserror::Error)]
#[error("provider {name}: {reason}")]
pub struct BuildError {
    name: ProviderName,
    reason: Box<dyn Error + Send + Sync>,
}

/// Makes the adapter of that name. Reads the certificates that the settings name; opens no connection.
pub fn build(name: &str, settings: &config::Provider) -> Result<Arc<dyn Provider>, BuildError> {
    let name = ProviderName::new(name);
    adapter(name.clone(), &settings.kind).map_err(|reason| BuildError { name, reason })
}

fn adapter(name: ProviderName, kind: &ProviderKind) -> Result<Arc<dyn Provider>, Box<dyn Error + Send + Sync>> {
    Ok(match kind {
        ProviderKind::Http(http) => Arc::new(HttpProvider::new(name, http, http.token.clone())?),
        ProviderKind::Smtp(smtp) => Arc::new(SmtpProvider::new(name, smtp, smtp.password.clone())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HttpProvider, SmtpProvider};

    fn http(url: &str) -> config::Provider {
        config::Provider::new(ProviderKind::Http(HttpProvider::new(url)))
    }

    #[test]
    fn a_provider_of_each_kind_bears_its_name_of_the_settings() {
        let smtp = config::Provider::new(ProviderKind::Smtp(SmtpProvider::new("relay.example")));
        for settings in [http("https://gateway.example/"), smtp] {
            let provider = build("primary", &settings).expect("valid settings");
            assert_eq!(provider.name().as_str(), "primary");
        }
    }

    #[test]
    fn an_error_names_the_provider_and_the_setting() {
        let error = build("primary", &http("gateway")).err().expect("an error");
        assert_eq!(error.to_string(), "provider primary: url: not a URL");
    }
}
