//! The gRPC client of the client commands.
//!
//! Owns the connection and its metadata; each command makes its own calls.

use std::time::Duration;

use clap::Args;
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use super::Failure;
use crate::proto::v1::{email_service_client::EmailServiceClient, operator_service_client::OperatorServiceClient};

/// The largest answer that is taken: a large message comes as its content and as its bytes.
const ANSWER_LIMIT: usize = 256 * 1024 * 1024;

/// Which service to speak to, and as whom.
#[derive(Debug, Args)]
pub(super) struct ServiceAddress {
    /// The address of the service.
    #[arg(long, env = "POSTRIDER_ADDRESS", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    address: String,
    /// The client to call as.
    #[arg(long, env = "POSTRIDER_CLIENT", value_name = "NAME")]
    client: Option<MetadataValue<Ascii>>,
    /// The longest time a call may take, in seconds.
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = seconds(1))]
    timeout: u64,
}

impl ServiceAddress {
    /// Connects, to send email or to ask after it.
    pub(super) async fn connect(&self) -> Result<EmailServiceClient<Channel>, Failure> {
        Ok(EmailServiceClient::new(self.channel().await?).max_decoding_message_size(ANSWER_LIMIT))
    }

    /// Connects, to do what operators do.
    pub(super) async fn connect_as_operator(&self) -> Result<OperatorServiceClient<Channel>, Failure> {
        Ok(OperatorServiceClient::new(self.channel().await?).max_decoding_message_size(ANSWER_LIMIT))
    }

    async fn channel(&self) -> Result<Channel, Failure> {
        let endpoint = Endpoint::from_shared(self.address.clone())
            .map_err(|_| Failure::Usage(format!("--address: {:?} is not a URL", self.address)))?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true);
        let connected = endpoint.connect().await;
        connected
            .map_err(|error| Failure::Unavailable(format!("no service at {}: {}", self.address, root_cause(&error))))
    }

    /// The longest time a call may take.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// A request with the deadline and the client's name.
    pub(super) fn request<T>(&self, body: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(body);
        request.set_timeout(self.timeout());
        if let Some(client) = &self.client {
            request.metadata_mut().insert("x-client-id", client.clone());
        }
        request
    }
}

/// From so many seconds to a day: longer than anybody waits, and no sum with a time of day overflows.
pub(super) fn seconds(least: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..=86_400)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
