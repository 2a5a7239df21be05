//! The settings of a provider with an HTTP API of its own: `sendgrid`, `mailgun`, `postmark`, `resend`, `ses`, `brevo`.
//!
//! Owns how such an account is reached and named, not what is said to it.

use std::{fmt, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    section::{Rule, Section, Visitor},
    value::{Choice, redact},
};

/// An account at a provider with an HTTP API of its own.
#[derive(Clone)]
pub struct ApiProvider {
    /// Whose API it is, with what only that one has.
    pub service: ApiService,
    /// The account's key. It must be given, as such or in a file. Secret.
    pub key: Option<SecretString>,
    /// A file that holds the key, instead of `key`. After [`super::load`] its content is in `key`.
    pub key_file: Option<PathBuf>,
    /// Where the API is, if not where the provider has it: a relay of your own before it, for example.
    pub url: Option<String>,
    /// The longest wait for a connection, 10 s by default. Nothing was sent then, so the next provider is asked at once.
    pub connect_timeout: Duration,
    /// The longest wait for the whole answer, 30 s by default. Shorter: more attempts whose outcome nobody can know.
    pub timeout: Duration,
    /// A file with the certificates (PEM) that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
}

/// Whose API it is.
#[derive(Clone, Debug)]
pub enum ApiService {
    /// Twilio SendGrid.
    Sendgrid {
        /// Where the account is, `global` by default.
        region: SendgridRegion,
    },
    /// Mailgun.
    Mailgun {
        /// Where the account is, `us` by default.
        region: MailgunRegion,
        /// The domain it sends by; without it that of each email's sender.
        domain: Option<String>,
    },
    /// Postmark.
    Postmark {
        /// The message stream; without it the server's own for transactional email.
        message_stream: Option<String>,
    },
    /// Resend.
    Resend,
    /// Amazon SES.
    Ses {
        /// The AWS region, such as `eu-central-1`. It must be given.
        region: String,
        /// The id of the access key whose secret is `key`. It must be given.
        access_key_id: String,
        /// The configuration set; without it the account's own, if there is one.
        configuration_set: Option<String>,
    },
    /// Brevo.
    Brevo,
}

/// Where a SendGrid account is.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum SendgridRegion {
    /// Anywhere.
    Global,
    /// In the European Union: a regional subuser.
    Eu,
}

/// Where a Mailgun account is.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum MailgunRegion {
    /// In the United States.
    Us,
    /// In the European Union.
    Eu,
}

impl Choice for SendgridRegion {
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Global, "global"), (Self::Eu, "eu")];
}

impl Choice for MailgunRegion {
    const WORDS: &'static [(Self, &'static str)] = &[(Self::Us, "us"), (Self::Eu, "eu")];
}

impl ApiProvider {
    /// An account there, everything else at its default; the key is still to be given.
    pub fn new(service: ApiService) -> Self {
        Self {
            service,
            key: None,
            key_file: None,
            url: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            ca_file: None,
        }
    }
}

impl ApiService {
    /// SendGrid, with its defaults.
    pub fn sendgrid() -> Self {
        Self::Sendgrid { region: SendgridRegion::Global }
    }

    /// Mailgun, with its defaults.
    pub fn mailgun() -> Self {
        Self::Mailgun { region: MailgunRegion::Us, domain: None }
    }

    /// Postmark, with its defaults.
    pub fn postmark() -> Self {
        Self::Postmark { message_stream: None }
    }

    /// Amazon SES in that region, with that access key.
    pub fn ses(region: impl Into<String>, access_key_id: impl Into<String>) -> Self {
        Self::Ses { region: region.into(), access_key_id: access_key_id.into(), configuration_set: None }
    }

    fn visit(self, v: &mut impl Visitor) -> Self {
        let required = |text: String| Some(text).filter(|text| !text.is_empty());
        match self {
            Self::Sendgrid { region } => Self::Sendgrid { region: v.any("region", region) },
            Self::Mailgun { region, domain } => {
                Self::Mailgun { region: v.any("region", region), domain: v.optional("domain", domain) }
            }
            Self::Postmark { message_stream } => {
                Self::Postmark { message_stream: v.optional("message_stream", message_stream) }
            }
            Self::Ses { region, access_key_id, configuration_set } => Self::Ses {
                region: v.setting("region", required(region), Rule::Required).unwrap_or_default(),
                access_key_id: v.setting("access_key_id", required(access_key_id), Rule::Required).unwrap_or_default(),
                configuration_set: v.optional("configuration_set", configuration_set),
            },
            Self::Resend => Self::Resend,
            Self::Brevo => Self::Brevo,
        }
    }
}

/// Without what may be secret in the URL.
impl fmt::Debug for ApiProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiProvider")
            .field("service", &self.service)
            .field("key", &self.key)
            .field("url", &self.url.as_deref().map(redact))
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl Section for ApiProvider {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (ms, hour) = (Duration::from_millis, Duration::from_secs(60 * 60));
        let service = self.service.visit(v);
        let (key, key_file) = v.secret(("key", "key_file"), self.key, self.key_file);
        Self {
            service,
            key,
            key_file,
            url: v.optional("url", self.url),
            connect_timeout: v.within("connect_timeout", self.connect_timeout, ms(10)..=hour),
            timeout: v.within("timeout", self.timeout, ms(10)..=hour),
            ca_file: v.optional("ca_file", self.ca_file),
        }
    }
}
