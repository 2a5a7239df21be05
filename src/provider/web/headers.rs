//! Headers and URLs of requests, made from settings.
//!
//! Owns what may stand in them; a secret is marked, so that no `Debug` shows it.

use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

use super::SettingsError;
use crate::config::ApiProvider;

/// The headers of a request with a body of JSON, for an answer of JSON.
pub(in crate::provider) fn json() -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)])
}

/// The value of `Authorization` with a secret of that setting, after a scheme such as `Bearer`.
pub(in crate::provider) fn authorization(
    scheme: &str,
    setting: &'static str,
    secret: &SecretString,
) -> Result<(HeaderName, HeaderValue), SettingsError> {
    Ok((AUTHORIZATION, value(setting, secret, &format!("{scheme} {}", secret.expose_secret()))?))
}

/// The value of a header that is the secret of that setting.
pub(in crate::provider) fn secret(setting: &'static str, secret: &SecretString) -> Result<HeaderValue, SettingsError> {
    value(setting, secret, secret.expose_secret())
}

fn value(setting: &'static str, secret: &SecretString, text: &str) -> Result<HeaderValue, SettingsError> {
    if secret.expose_secret().is_empty() {
        return Err(SettingsError::Value(setting, "is empty"));
    }
    let wrong = |_| SettingsError::Value(setting, "holds characters that cannot stand in a header");
    let mut value = HeaderValue::from_str(text).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Sets a header, unless there is nothing to say or the text cannot stand in one: an email is not held up for its
/// trace.
pub(in crate::provider) fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let (false, Ok(value)) = (text.is_empty(), HeaderValue::from_bytes(text.as_bytes())) {
        headers.insert(name, value);
    }
}

/// The URL of a setting.
pub(in crate::provider) fn parse_url(text: &str) -> Result<Url, SettingsError> {
    let url = Url::parse(text).map_err(|_| SettingsError::Url("not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(SettingsError::Url("neither http nor https"));
    }
    // They would be shown wherever the settings are.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SettingsError::Url("holds a user name or password, which have settings of their own"));
    }
    Ok(url)
}

/// Where the API is by the settings, or else where the provider has it.
pub(in crate::provider) fn base(settings: &ApiProvider, usual: &str) -> Result<Url, SettingsError> {
    parse_url(settings.url.as_deref().unwrap_or(usual))
}

/// The key of the settings.
pub(in crate::provider) fn key(settings: &ApiProvider) -> Result<&SecretString, SettingsError> {
    settings.key.as_ref().ok_or(SettingsError::Value("key", "is missing"))
}

/// A place below the base of an API. Each part is one step of the path, whatever characters it has.
pub(in crate::provider) fn below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut steps) = url.path_segments_mut() {
        steps.pop_if_empty().extend(path);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_below_the_base_and_no_part_of_it_leads_elsewhere() {
        for (base, path, expected) in [
            ("https://api.example", &["v3", "mail"][..], "https://api.example/v3/mail"),
            ("https://api.example/", &["v3"], "https://api.example/v3"),
            ("https://gw.example/mail/", &["v3"], "https://gw.example/mail/v3"),
            (
                "https://api.example",
                &["v3", "a/../b?c#d", "messages"],
                "https://api.example/v3/a%2F..%2Fb%3Fc%23d/messages",
            ),
        ] {
            let base = parse_url(base).expect("a URL");
            assert_eq!(below(&base, path).as_str(), expected);
        }
    }
}
