//! The adapter of kind `http`: a mail gateway of the user's own, whose contract is `deploy/gateway/openapi.yaml`.
//!
//! Owns every byte to and from such a gateway; decides nothing about when it is asked.

mod answer;
mod classify;
mod failure;
mod payload;
mod report;
mod request;
mod retry_after;

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use reqwest::{
    Body, Client, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect, retry,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use self::{
    answer::Answer,
    classify::{Asked, classify},
    failure::Failure,
};
use super::{Capabilities, Provider, Submission, TlsError, tls};
use crate::{
    config,
    delivery::{Class, Health, Outcome, ProviderName, Scope, Verdict},
    message::{Message, RecipientIndex},
};

/// How long an idle connection is kept: less than the 5 seconds after which the quickest of the common servers close
/// theirs, so that a message seldom meets a connection that is being closed.
const IDLE: Duration = Duration::from_secs(4);

/// A mail gateway of the user's own.
///
/// Each message is one POST on a connection that no other message shares at the time (HTTP/1.1), so that a connection
/// that breaks leaves the outcome of one message unknown and not of all.
pub struct HttpProvider {
    name: ProviderName,
    capabilities: Capabilities,
    client: Client,
    url: Url,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// Why the settings make no adapter.
#[derive(Debug, thiserror::Error)]
pub enum HttpProviderError {
    /// The url is none, or not one of HTTP. The url itself is not repeated: it may hold a secret.
    #[error("url: {0}")]
    Url(&'static str),
    /// The token is none.
    #[error("token: {0}")]
    Token(&'static str),
    /// TLS cannot be set up with the trusted certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client could not be made.
    #[error("the HTTP client: {0}")]
    Client(String),
}

impl HttpProvider {
    /// An adapter of that name. Reads `ca_file`; opens no connection.
    ///
    /// Proxies named in the environment are not used: the settings alone say where emails go.
    pub fn new(
        name: ProviderName,
        settings: &config::HttpProvider,
        token: Option<SecretString>,
    ) -> Result<Self, HttpProviderError> {
        let mut tls = tls::client_config(settings.ca_file.as_deref())?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(settings.connect_timeout)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .user_agent(concat!("postrider/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| HttpProviderError::Client(error.to_string()))?;
        Ok(Self {
            name,
            capabilities: capabilities(settings),
            client,
            url: parse_url(&settings.url)?,
            authorization: token.as_ref().map(bearer).transpose()?,
            timeout: settings.timeout,
        })
    }

    async fn deliver(&self, submission: Submission) -> Outcome {
        let message = &submission.message;
        let asked =
            Asked { recipients: envelope(message, &submission.recipients), unknown_outcome: message.unknown_outcome };
        let payload = match request::render(message, &asked.recipients) {
            Ok(payload) => payload,
            Err(error) => return self.unfit(&submission.recipients, "encoding", &error.to_string()),
        };
        if self.capabilities.max_bytes.is_some_and(|limit| payload.remaining() > limit) {
            return self.unfit(&submission.recipients, "size", "larger than the gateway takes");
        }
        let begun = payload.begun();
        let by_settings = Instant::now() + self.timeout;
        let end = by_settings.min(submission.deadline);
        if end <= Instant::now() {
            return Failure::Deadline.outcome(&submission.recipients, false);
        }
        let request = self.client.post(self.url.clone()).headers(self.headers(&submission)).body(Body::wrap(payload));
        let failure = match timeout_at(end, request.send()).await {
            Ok(Ok(response)) => return classify(&asked, &Answer::read(response, end).await, SystemTime::now()),
            Ok(Err(error)) => Failure::read(&error),
            Err(_) if end < by_settings => Failure::Deadline,
            Err(_) => Failure::Timeout,
        };
        failure.outcome(&submission.recipients, begun.is_set())
    }

    /// What this gateway cannot be handed. Nothing was asked of it, so nothing is said of it.
    fn unfit(&self, recipients: &[RecipientIndex], code: &str, detail: &str) -> Outcome {
        let verdict = Verdict::new(Class::UnfitHere, Scope::MessageAtProvider, code, detail);
        Outcome::uniform(recipients, &verdict, Health::Neutral)
    }

    fn headers(&self, submission: &Submission) -> HeaderMap {
        const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
        const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
        const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
        const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

        let message = &submission.message;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        insert_text(&mut headers, IDEMPOTENCY_KEY, &message.id.to_string());
        insert_text(&mut headers, CORRELATION_ID, &message.correlation_id);
        insert_text(&mut headers, TRACEPARENT, &submission.traceparent);
        // A tracestate belongs to a traceparent (W3C Trace Context, section 3.3).
        if headers.contains_key(TRACEPARENT) {
            insert_text(&mut headers, TRACESTATE, &message.trace.tracestate);
        }
        headers
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome> {
        Box::pin(self.deliver(submission))
    }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

fn capabilities(settings: &config::HttpProvider) -> Capabilities {
    Capabilities {
        max_bytes: settings.max_bytes,
        max_recipients: None,
        envelope_apart: true,
        inline_images: true,
        smtputf8: true,
        idempotency: (!settings.idempotency.is_zero()).then_some(settings.idempotency),
    }
}

fn parse_url(text: &str) -> Result<Url, HttpProviderError> {
    let url = Url::parse(text).map_err(|_| HttpProviderError::Url("not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpProviderError::Url("neither http nor https"));
    }
    // They would be shown wherever the settings are.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(HttpProviderError::Url("holds a user name or password; use token or token_file"));
    }
    Ok(url)
}

fn bearer(token: &SecretString) -> Result<HeaderValue, HttpProviderError> {
    if token.expose_secret().is_empty() {
        return Err(HttpProviderError::Token("is empty"));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| HttpProviderError::Token("holds characters that cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The recipients with their addresses. One that the message does not have gets no verdict, and so stays open.
fn envelope<'a>(message: &'a Message, recipients: &[RecipientIndex]) -> Vec<(RecipientIndex, &'a str)> {
    recipients.iter().filter_map(|&index| Some((index, message.email.recipient(index)?.address.as_str()))).collect()
}

/// Sets a header, unless there is nothing to say or the text cannot stand in one: an email is not held up for its
/// trace.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let (false, Ok(value)) = (text.is_empty(), HeaderValue::from_bytes(text.as_bytes())) {
        headers.insert(name, value);
    }
}
