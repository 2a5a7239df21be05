//! The adapter of kind `http`: a mail gateway of the user's own, whose contract is `deploy/gateway/openapi.yaml`.
//!
//! Owns what is said to such a gateway and what it answers; the wire is the machinery's that all HTTP APIs share.

mod classify;
mod report;
mod request;

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::SecretString;

use super::{
    Capabilities, SettingsError, Submission,
    web::{self, Access, Answer, Api, Asked, Request, Unfit, WebProvider},
};
use crate::{
    config,
    delivery::{Outcome, ProviderName},
};

/// A mail gateway of the user's own.
pub type HttpProvider = WebProvider<Gateway>;

/// What is said to a gateway.
pub struct Gateway {
    url: Url,
    authorization: Option<(HeaderName, HeaderValue)>,
}

impl HttpProvider {
    /// An adapter of that name. Reads `ca_file`; opens no connection.
    pub fn new(
        name: ProviderName,
        settings: &config::HttpProvider,
        token: Option<SecretString>,
    ) -> Result<Self, SettingsError> {
        let gateway = Gateway {
            url: web::parse_url(&settings.url)?,
            authorization: token.map(|token| web::authorization("Bearer", "token", &token)).transpose()?,
        };
        let access = Access {
            connect_timeout: settings.connect_timeout,
            timeout: settings.timeout,
            ca_file: settings.ca_file.as_deref(),
        };
        Self::of(name, capabilities(settings), access, gateway)
    }
}

impl Gateway {
    fn headers(&self, submission: &Submission) -> HeaderMap {
        const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
        const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
        const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
        const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

        let message = &submission.message;
        let mut headers = web::json();
        headers.extend(self.authorization.clone());
        web::insert_text(&mut headers, IDEMPOTENCY_KEY, &message.id.to_string());
        web::insert_text(&mut headers, CORRELATION_ID, &message.correlation_id);
        web::insert_text(&mut headers, TRACEPARENT, &submission.traceparent);
        // A tracestate belongs to a traceparent (W3C Trace Context, section 3.3).
        if headers.contains_key(TRACEPARENT) {
            web::insert_text(&mut headers, TRACESTATE, &message.trace.tracestate);
        }
        headers
    }
}

impl Api for Gateway {
    fn request(&self, asked: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let payload = request::render(&submission.message, &asked.recipients)?;
        Ok(Request::post(self.url.clone(), self.headers(submission), payload))
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        classify::classify(asked, answer)
    }
}

fn capabilities(settings: &config::HttpProvider) -> Capabilities {
    Capabilities {
        max_bytes: settings.max_bytes,
        idempotency: (!settings.idempotency.is_zero()).then_some(settings.idempotency),
        ..Capabilities::unlimited()
    }
}
