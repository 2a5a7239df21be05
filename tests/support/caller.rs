//! Who calls a service under test: sends emails, and asks what became of them until it is what was hoped for.

use std::time::Duration;

use postrider::{
    api::CLIENT_ID,
    proto::v1::{
        CancelEmailRequest, CancelEmailResponse, Email, Event, GetStatusRequest, GetStatusResponse,
        ListProvidersRequest, Mailbox, OutcomeClass, Provider, ProviderMode, SendEmailRequest, SetLaneModeRequest,
        SetProviderModeRequest, Status, UnknownOutcomePolicy, WatchStatusRequest,
        email_service_client::EmailServiceClient, operator_service_client::OperatorServiceClient,
    },
};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Code,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// The longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one service.
#[derive(Clone)]
pub struct Caller {
    client: EmailServiceClient<Channel>,
    operator: OperatorServiceClient<Channel>,
    health: HealthClient<Channel>,
}

impl Caller {
    /// Of the service at that URL.
    pub fn at(url: String) -> Self {
        let endpoint = Endpoint::from_shared(url).expect("a URL");
        let channel = endpoint.connect_lazy();
        Self {
            client: EmailServiceClient::new(channel.clone()),
            operator: OperatorServiceClient::new(channel.clone()),
            health: HealthClient::new(channel),
        }
    }

    /// Whether the service says that it is ready.
    pub async fn is_ready(&self) -> bool {
        self.is_serving("").await
    }

    /// Whether it says so of that part of it.
    pub async fn is_serving(&self, part: &str) -> bool {
        let request = HealthCheckRequest { service: part.to_owned() };
        let answer = self.health.clone().check(request).await.expect("health is always told");
        answer.into_inner().status() == ServingStatus::Serving
    }

    /// Sends, and gives the message's id. What may have been accepted is sent again, which its key makes safe.
    pub async fn send(&self, request: SendEmailRequest) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_send(request.clone()).await {
                Ok(id) => return id,
                Err(status) => {
                    let may_pass = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
                    assert!(may_pass && !request.idempotency_key.is_empty(), "{status:?}");
                    assert!(Instant::now() < deadline, "{status:?}");
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Sends once, and gives the message's id.
    pub async fn try_send(&self, request: SendEmailRequest) -> Result<String, tonic::Status> {
        Ok(self.client.clone().send_email(request).await?.into_inner().message_id)
    }

    /// Sends as that client.
    pub async fn send_as(&self, client: &'static str, request: SendEmailRequest) -> String {
        let mut request = tonic::Request::new(request);
        request.metadata_mut().insert(CLIENT_ID, MetadataValue::from_static(client));
        self.client.clone().send_email(request).await.expect("it is accepted").into_inner().message_id
    }

    /// Calls a message off.
    pub async fn cancel(&self, id: &str) -> CancelEmailResponse {
        let request = CancelEmailRequest { message_id: id.to_owned() };
        self.client.clone().cancel_email(request).await.expect("it is answered").into_inner()
    }

    /// Watches a message until its stream ends, and tells what came, in its order.
    pub async fn watch(&self, id: &str) -> Vec<GetStatusResponse> {
        let request = WatchStatusRequest { message_id: id.to_owned(), until_failed: true };
        let mut changes = self.client.clone().watch_status(request).await.expect("it may be watched").into_inner();
        let mut told = Vec::new();
        while let Some(change) = timeout(PATIENCE, changes.message()).await.expect("in time").expect("no error") {
            told.extend(change.message);
        }
        told
    }

    /// Pauses a lane, or lets it go on.
    pub async fn set_lane_mode(&self, request: SetLaneModeRequest) -> Result<bool, tonic::Status> {
        Ok(self.operator.clone().set_lane_mode(request).await?.into_inner().paused)
    }

    /// The providers, as any process knows them.
    pub async fn list_providers(&self) -> Vec<Provider> {
        let answer = self.operator.clone().list_providers(ListProvidersRequest {}).await;
        answer.expect("they are listed").into_inner().providers
    }

    /// Takes a provider out of rotation, or puts it back.
    pub async fn set_provider_mode(&self, provider: &str, mode: ProviderMode) -> Result<Provider, tonic::Status> {
        let request = SetProviderModeRequest { provider: provider.to_owned(), mode: mode.into() };
        Ok(self.operator.clone().set_provider_mode(request).await?.into_inner().provider.expect("it is told"))
    }

    /// Sends them at once, and gives their ids in their order.
    pub async fn send_all(&self, requests: impl IntoIterator<Item = SendEmailRequest>) -> Vec<String> {
        futures_util::future::join_all(requests.into_iter().map(|request| self.send(request))).await
    }

    pub async fn status(&self, id: &str) -> GetStatusResponse {
        self.ask(id).await.expect("the message is found")
    }

    async fn ask(&self, id: &str) -> Result<GetStatusResponse, tonic::Status> {
        let request = GetStatusRequest { message_id: id.to_owned() };
        Ok(self.client.clone().get_status(request).await?.into_inner())
    }

    /// Asks until it is so.
    pub async fn wait(&self, id: &str, is_so: impl Fn(&GetStatusResponse) -> bool) -> GetStatusResponse {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.ask(id).await {
                Ok(status) if is_so(&status) => return status,
                Ok(status) => assert!(Instant::now() < deadline, "it did not come to that: {status:#?}"),
                Err(status) if status.code() == Code::Unavailable && Instant::now() < deadline => {}
                Err(status) => panic!("{status:?}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks until it has that status.
    pub async fn wait_for(&self, id: &str, status: Status) -> GetStatusResponse {
        self.wait(id, |told| told.status() == status).await
    }

    /// Asks until each has that status, one after the other: a crowd that asks would hold up what it waits for.
    pub async fn wait_for_all(&self, ids: &[String], status: Status) -> Vec<GetStatusResponse> {
        let mut all = Vec::new();
        for id in ids {
            all.push(self.wait_for(id, status).await);
        }
        all
    }
}

/// A request to send something to that address, with a key of its own.
pub fn email_to(address: &str) -> SendEmailRequest {
    let mailbox = |address: &str| Mailbox { address: address.into(), name: String::new() };
    let email = Email {
        from: Some(mailbox("billing@shop.example")),
        to: vec![mailbox(address)],
        subject: "Invoice".into(),
        text: "Enclosed.".into(),
        ..Default::default()
    };
    SendEmailRequest { idempotency_key: format!("invoice of {address}"), email: Some(email), ..Default::default() }
}

/// Requests to that many addresses, `name-0@example.net` and so on.
pub fn emails(name: &str, count: usize) -> Vec<SendEmailRequest> {
    (0..count).map(|n| email_to(&format!("{name}-{n}@example.net"))).collect()
}

/// The same, to be left to a person rather than sent twice.
pub fn held(request: SendEmailRequest) -> SendEmailRequest {
    SendEmailRequest { unknown_outcome_policy: UnknownOutcomePolicy::Hold.into(), ..request }
}

/// A time of the contract.
pub fn at(time: Option<prost_types::Timestamp>) -> OffsetDateTime {
    let time = time.expect("it is told");
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    OffsetDateTime::from_unix_timestamp_nanos(nanos).expect("a time of our days")
}

/// The history in short: a line for each event, `1 ATTEMPT primary ACCEPTED`.
pub fn history(status: &GetStatusResponse) -> Vec<String> {
    status.events.iter().map(line).collect()
}

fn line(event: &Event) -> String {
    let kind = event.kind().as_str_name().trim_start_matches("EVENT_KIND_");
    match event.outcome() {
        OutcomeClass::Unspecified => kind.to_owned(),
        outcome => {
            let outcome = outcome.as_str_name().trim_start_matches("OUTCOME_CLASS_");
            format!("{} {kind} {} {outcome}", event.round, event.provider)
        }
    }
}

/// Whether nobody can know of an attempt at it.
pub fn has_unknown(status: &GetStatusResponse) -> bool {
    status.events.iter().any(|event| event.outcome() == OutcomeClass::OutcomeUnknown)
}

/// Waits until it is so, looking again and again.
pub async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let looking = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("it did not come to that: {what}"));
}
