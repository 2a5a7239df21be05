//! From settings to adapters.
//!
//! Owns the only place that tells one kind of provider from another; a new kind is one line here.

use std::{error::Error, sync::Arc};

use super::{
    Provider, SettingsError, brevo, http::HttpProvider, mailgun, postmark, resend, sendgrid, ses, smtp::SmtpProvider,
};
use crate::{
    config::{self, ApiProvider, ApiService, ProviderKind},
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
        ProviderKind::Api(api) => account(name, api)?,
    })
}

fn account(name: ProviderName, api: &ApiProvider) -> Result<Arc<dyn Provider>, SettingsError> {
    Ok(match &api.service {
        ApiService::Sendgrid { region } => Arc::new(sendgrid::account(name, api, *region)?),
        ApiService::Mailgun { region, domain } => Arc::new(mailgun::account(name, api, *region, domain.as_deref())?),
        ApiService::Postmark { message_stream } => Arc::new(postmark::account(name, api, message_stream.as_deref())?),
        ApiService::Resend => Arc::new(resend::account(name, api)?),
        ApiService::Ses { region, access_key_id, configuration_set } => {
            Arc::new(ses::account(name, api, region, access_key_id, configuration_set.as_deref())?)
        }
        ApiService::Brevo => Arc::new(brevo::account(name, api)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HttpProvider, SmtpProvider};

    fn http(url: &str) -> config::Provider {
        config::Provider::new(ProviderKind::Http(HttpProvider::new(url)))
    }

    fn api(service: ApiService) -> config::Provider {
        let api = ApiProvider { key: Some("k3y".to_owned().into()), ..ApiProvider::new(service) };
        config::Provider::new(ProviderKind::Api(api))
    }

    #[test]
    fn a_provider_of_each_kind_bears_its_name_of_the_settings() {
        let smtp = config::Provider::new(ProviderKind::Smtp(SmtpProvider::new("relay.example")));
        let services = [
            ApiService::sendgrid(),
            ApiService::mailgun(),
            ApiService::postmark(),
            ApiService::Resend,
            ApiService::ses("eu-central-1", "AKIDEXAMPLE"),
            ApiService::Brevo,
        ];
        for settings in [http("https://gateway.example/"), smtp].into_iter().chain(services.map(api)) {
            let provider = build("primary", &settings).expect("valid settings");
            assert_eq!(provider.name().as_str(), "primary");
        }
    }

    #[test]
    fn an_error_names_the_provider_and_the_setting() {
        let error = build("primary", &http("gateway")).err().expect("an error");
        assert_eq!(error.to_string(), "provider primary: url: not a URL");
        let keyless = config::Provider::new(ProviderKind::Api(ApiProvider::new(ApiService::Brevo)));
        let error = build("primary", &keyless).err().expect("an error");
        assert_eq!(error.to_string(), "provider primary: key: is missing");
    }
}
