//! What every HTTP API has in common: one request for a message, and an outcome whatever comes of it.
//!
//! Owns the connection, the time limits, and how far an attempt came. What is said to a provider, and what its answers
//! mean, is each adapter's: see [`Api`].

mod answer;
mod asked;
mod client;
mod failure;
mod form;
mod headers;
mod judgement;
mod payload;
mod retry_after;
mod text;

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use reqwest::{Method, Url, header::HeaderMap};
use tokio::time::Instant;

#[cfg(test)]
pub(super) use self::answer::Body;
pub(super) use self::{
    answer::Answer,
    asked::{Asked, List},
    client::Access,
    form::Form,
    headers::{authorization, base, below, insert_text, json, key, parse_url, secret},
    judgement::{Judgement, after_an_internal_error, by_status, conclude, of_probe},
    payload::{Contents, Payload, Piece},
    text::{OUR_ID, id_of, label, labels, mailbox, mailboxes, object, plain_code, single_headers},
};
use self::{client::Client, failure::Failure};
use super::{Capabilities, Lack, Provider, Submission, TlsError};
use crate::{
    delivery::{Class, Health, Outcome, ProviderName, Scope, Verdict},
    message::RecipientIndex,
};

/// What is said to a provider, and what its answers mean. Knows nothing of connections and time.
pub trait Api: Send + Sync {
    /// The request that hands the message over, for the recipients asked for.
    fn request(&self, asked: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit>;

    /// What an answer means. Follows from its arguments alone.
    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome;

    /// A cheap request that sends nothing and shows whether the account is set up, if there is one.
    fn probe(&self) -> Option<Request> {
        None
    }

    /// What the answer to that request says of the provider.
    fn judge_probe(&self, answer: &Answer) -> Health {
        of_probe(answer)
    }
}

/// A request, ready to be sent.
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub(super) method: Method,
    /// Where to.
    pub(super) url: Url,
    /// The headers, the content's type among them.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) payload: Payload,
    /// What counts against the limit of [`Capabilities::max_bytes`].
    pub(super) size: u64,
}

impl Request {
    /// A POST whose whole body counts.
    pub(super) fn post(url: Url, headers: HeaderMap, payload: Payload) -> Self {
        let size = payload.remaining();
        Self { method: Method::POST, url, headers, payload, size }
    }

    /// A GET.
    pub(super) fn get(url: Url, headers: HeaderMap) -> Self {
        Self { method: Method::GET, url, headers, payload: Payload::new(Vec::new()), size: 0 }
    }
}

/// Why a message cannot be handed to this provider. Nothing was asked of it, so nothing is said of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    code: &'static str,
    detail: String,
}

impl Unfit {
    /// A word for it, and a sentence without content of the message.
    pub(super) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    fn outcome(&self, recipients: &[RecipientIndex]) -> Outcome {
        let verdict = Verdict::new(Class::UnfitHere, Scope::MessageAtProvider, self.code, &self.detail);
        Outcome::uniform(recipients, &verdict, Health::Neutral)
    }
}

impl From<Lack> for Unfit {
    fn from(lack: Lack) -> Self {
        Self::new("capability", lack.to_string())
    }
}

impl From<serde_json::Error> for Unfit {
    fn from(error: serde_json::Error) -> Self {
        Self::new("encoding", error.to_string())
    }
}

impl From<crate::message::mime::MimeError> for Unfit {
    fn from(error: crate::message::mime::MimeError) -> Self {
        Self::new("encoding", error.to_string())
    }
}

/// Why settings make no adapter.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The url is none, or not one of HTTP. The url itself is not repeated: it may hold a secret.
    #[error("url: {0}")]
    Url(&'static str),
    /// A secret, or another setting that goes into a request, is none. Its value is not repeated.
    #[error("{0}: {1}")]
    Value(&'static str, &'static str),
    /// TLS cannot be set up with the trusted certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client could not be made.
    #[error("the HTTP client: {0}")]
    Client(String),
}

/// An account at a provider with an HTTP API.
///
/// Each message is one request on a connection that no other message shares at the time (HTTP/1.1), so that a
/// connection that breaks leaves the outcome of one message unknown and not of all.
pub struct WebProvider<A> {
    name: ProviderName,
    capabilities: Capabilities,
    api: A,
    client: Client,
    timeout: Duration,
}

impl<A> WebProvider<A> {
    /// An account of that name. Reads the certificates of the settings; opens no connection.
    pub(super) fn of(
        name: ProviderName,
        capabilities: Capabilities,
        access: Access<'_>,
        api: A,
    ) -> Result<Self, SettingsError> {
        Ok(Self { name, capabilities, api, client: Client::new(&access)?, timeout: access.timeout })
    }
}

impl<A: Api> WebProvider<A> {
    async fn deliver(&self, submission: Submission) -> Outcome {
        let asked = Asked::new(&submission.message, &submission.recipients);
        let request = match self.prepare(&asked, &submission) {
            Ok(request) => request,
            Err(unfit) => return unfit.outcome(&submission.recipients),
        };
        let by_settings = Instant::now() + self.timeout;
        let end = by_settings.min(submission.deadline);
        if end <= Instant::now() {
            return Failure::Deadline.outcome(&submission.recipients, false);
        }
        let begun = request.payload.begun();
        match self.client.exchange(request, end).await {
            Ok(answer) => self.api.judge(&asked, &answer),
            Err(Failure::Timeout) if end < by_settings => {
                Failure::Deadline.outcome(&submission.recipients, begun.is_set())
            }
            Err(failure) => failure.outcome(&submission.recipients, begun.is_set()),
        }
    }

    fn prepare(&self, asked: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let can = &self.capabilities;
        if let Some(lack) = can.lack(&submission.message.email) {
            return Err(lack.into());
        }
        if text::has_control_in_a_line(&submission.message.email) {
            return Err(Unfit::new("encoding", "has a control character where a header would hold it"));
        }
        let request = self.api.request(asked, submission)?;
        match can.max_bytes {
            Some(limit) if request.size > limit => Err(Unfit::new("size", "larger than the provider takes")),
            _ => Ok(request),
        }
    }

    async fn ask(&self, request: Request) -> Health {
        match self.client.exchange(request, Instant::now() + self.timeout).await {
            Ok(answer) => self.api.judge_probe(&answer),
            Err(failure) => failure.health(),
        }
    }
}

impl<A: Api> Provider for WebProvider<A> {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome> {
        Box::pin(self.deliver(submission))
    }

    fn probe(&self) -> Option<BoxFuture<'_, Health>> {
        let request = self.api.probe()?;
        Some(Box::pin(self.ask(request)))
    }
}

impl<A> fmt::Debug for WebProvider<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebProvider").field("name", &self.name).finish_non_exhaustive()
    }
}
