//! The HTTP client of an account.
//!
//! Owns how connections are made and kept, and that nothing is followed or repeated behind our back.

use std::{path::Path, time::Duration};

use reqwest::{Body, redirect, retry};
use tokio::time::{Instant, timeout_at};

use super::{Answer, Request, SettingsError, failure::Failure};
use crate::{config::ApiProvider, provider::tls};

/// How long an idle connection is kept: less than the 5 seconds after which the quickest of the common servers close
/// theirs, so that a message seldom meets a connection that is being closed.
const IDLE: Duration = Duration::from_secs(4);

/// How an account is reached.
#[derive(Clone, Copy)]
pub(in crate::provider) struct Access<'a> {
    /// The longest wait for a connection.
    pub(in crate::provider) connect_timeout: Duration,
    /// The longest wait for the whole answer.
    pub(in crate::provider) timeout: Duration,
    /// Certificates that are trusted besides the public ones.
    pub(in crate::provider) ca_file: Option<&'a Path>,
}

impl<'a> From<&'a ApiProvider> for Access<'a> {
    fn from(settings: &'a ApiProvider) -> Self {
        let ApiProvider { connect_timeout, timeout, ca_file, .. } = settings;
        Self { connect_timeout: *connect_timeout, timeout: *timeout, ca_file: ca_file.as_deref() }
    }
}

/// A client whose connections belong to one account.
pub(super) struct Client(reqwest::Client);

impl Client {
    /// Reads the trusted certificates; opens no connection.
    ///
    /// Proxies named in the environment are not used: the settings alone say where emails go.
    pub(super) fn new(access: &Access<'_>) -> Result<Self, SettingsError> {
        let mut tls = tls::client_config(access.ca_file)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .connect_timeout(access.connect_timeout)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .user_agent(concat!("postrider/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(Self)
            .map_err(|error| SettingsError::Client(error.to_string()))
    }

    /// Sends a request and reads the answer, both until that time. An answer whose body did not come whole is one.
    pub(super) async fn exchange(&self, request: Request, end: Instant) -> Result<Answer, Failure> {
        let Request { method, url, headers, payload, .. } = request;
        let sent = self.0.request(method, url).headers(headers).body(Body::wrap(payload)).send();
        match timeout_at(end, sent).await {
            Ok(Ok(response)) => Ok(Answer::read(response, end).await),
            Ok(Err(error)) => Err(Failure::read(&error)),
            Err(_) => Err(Failure::Timeout),
        }
    }
}
