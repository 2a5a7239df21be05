//! From settings to adapters.
//!
//! Owns the only place that tells one kind of provider from another; a new kind is one line here.

use std::{error::Error, fs, io, path::Path, path::PathBuf, sync::Arc};

use secrecy::SecretString;

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

/// Why a secret could not be had. Never holds the secret.
#[derive(Debug, thiserror::Error)]
enum SecretError {
    #[error("{field} and {field}_file are both set")]
    Twice { field: &'static str },
    #[error("{field}_file: {path}: {reason}", path = path.display())]
    Unreadable { field: &'static str, path: PathBuf, reason: io::Error },
}

/// Makes the adapter of that name. Reads the files that the settings name; opens no connection.
pub fn build(name: &str, settings: &config::Provider) -> Result<Arc<dyn Provider>, BuildError> {
    let name = ProviderName::new(name);
    adapter(name.clone(), &settings.kind).map_err(|reason| BuildError { name, reason })
}

fn adapter(name: ProviderName, kind: &ProviderKind) -> Result<Arc<dyn Provider>, Box<dyn Error + Send + Sync>> {
    Ok(match kind {
        ProviderKind::Http(http) => Arc::new(HttpProvider::new(name, http, token(http)?)?),
        ProviderKind::Smtp(smtp) => Arc::new(SmtpProvider::new(name, smtp, password(smtp)?)?),
    })
}

fn token(http: &config::HttpProvider) -> Result<Option<SecretString>, SecretError> {
    secret("token", http.token.as_ref(), http.token_file.as_deref())
}

fn password(smtp: &config::SmtpProvider) -> Result<Option<SecretString>, SecretError> {
    secret("password", smtp.password.as_ref(), smtp.password_file.as_deref())
}

/// The secret of a setting, or of the file that is named in its place: without the line end that editors leave there.
fn secret(
    field: &'static str,
    value: Option<&SecretString>,
    file: Option<&Path>,
) -> Result<Option<SecretString>, SecretError> {
    match (value, file) {
        (Some(_), Some(_)) => Err(SecretError::Twice { field }),
        (value, None) => Ok(value.cloned()),
        (None, Some(path)) => {
            let text = fs::read_to_string(path).map_err(|reason| SecretError::Unreadable {
                field,
                path: path.to_owned(),
                reason,
            })?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            Ok(Some(SecretString::from(text)))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use figment::{
        Figment,
        providers::{Format, Toml},
    };
    use secrecy::ExposeSecret;

    use super::*;

    fn settings(toml: &str) -> config::Provider {
        Figment::from(Toml::string(toml)).extract().expect("valid settings")
    }

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_provider_bears_its_name_of_the_settings() {
        let provider = build("primary", &settings("kind = 'http'\nurl = 'https://gateway.example/'")).unwrap();
        assert_eq!(provider.name().as_str(), "primary");
    }

    #[test]
    fn an_error_names_the_provider_and_the_setting() {
        let table = [
            ("kind = 'http'\nurl = 'gateway'", "provider primary: url: not a URL"),
            (
                "kind = 'http'\nurl = 'http://localhost/'\ntoken = 's3cret'\ntoken_file = '/tmp/token'",
                "provider primary: token and token_file are both set",
            ),
        ];
        for (toml, expected) in table {
            let error = build("primary", &settings(toml)).err().expect("an error");
            assert_eq!(error.to_string(), expected);
        }
        let missing = settings("kind = 'http'\nurl = 'http://localhost/'\ntoken_file = '/no/such/file'");
        let error = build("primary", &missing).err().expect("an error").to_string();
        assert!(error.starts_with("provider primary: token_file: /no/such/file: "), "{error}");
    }

    #[test]
    fn a_secret_from_a_file_loses_one_line_end_and_nothing_else() {
        let table = [
            ("s3cret", "s3cret"),
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            (" s3cret \n\n", " s3cret \n"),
            ("\n", ""),
        ];
        for (content, expected) in table {
            let secret = secret("token", None, Some(file(content).path())).unwrap().expect("a secret");
            assert_eq!(secret.expose_secret(), expected, "{content:?}");
        }
        assert!(secret("token", None, None).unwrap().is_none());
    }
}
