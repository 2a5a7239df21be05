//! Callers of SendEmail: as quickly as they are answered, or at a steady rate whatever the answers.
//!
//! Owns the connections, the times of the answers, and the patience with a service that asks for some; what is on the
//! other side is not its matter.

mod followed;

use std::{
    net::SocketAddr,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use time::OffsetDateTime;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{BenchError, mail};
use crate::proto::v1::{SendEmailRequest, email_service_client::EmailServiceClient};

pub(super) use followed::Load;

/// How many callers share a connection.
const CALLERS_A_CONNECTION: usize = 16;

/// The longest that a call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a caller waits that was told to come back without being told when.
const PAUSE: Duration = Duration::from_millis(50);

/// A call that was answered with OK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// The number of the mail.
    pub(super) number: u64,
    /// When the call was to be made, by this machine's clock.
    pub(super) called_at: OffsetDateTime,
    /// When the answer was there.
    pub(super) at: OffsetDateTime,
}

/// Callers that are connected.
pub(super) struct Callers {
    clients: Vec<EmailServiceClient<Channel>>,
    request: fn(u64) -> SendEmailRequest,
}

impl Callers {
    /// So many callers of the service at that address.
    pub(super) async fn connect(address: SocketAddr, callers: usize) -> Result<Self, BenchError> {
        Self::connect_to_each(&[address], callers).await
    }

    /// So many callers, spread over the services at these addresses.
    pub(super) async fn connect_to_each(addresses: &[SocketAddr], callers: usize) -> Result<Self, BenchError> {
        let failed = |error: tonic::transport::Error| BenchError::Connect { what: "gRPC", reason: error.to_string() };
        let mut connections = Vec::new();
        for address in addresses.iter().cycle().take(callers.div_ceil(CALLERS_A_CONNECTION).max(addresses.len())) {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(failed)?.timeout(PATIENCE);
            connections.push(EmailServiceClient::new(endpoint.connect().await.map_err(failed)?));
        }
        let clients = connections.into_iter().cycle().take(callers).collect();
        Ok(Self { clients, request: mail::request })
    }

    /// The same callers with other mails.
    pub(super) fn with(self, request: fn(u64) -> SendEmailRequest) -> Self {
        Self { request, ..self }
    }

    /// Sends the mails of these numbers, each caller the next one as soon as it is answered. Gives the time from the
    /// first call to the last answer.
    pub(super) async fn send(&self, numbers: Range<u64>) -> Result<Duration, BenchError> {
        let began = Instant::now();
        self.send_until(numbers, &CancellationToken::new()).await?;
        Ok(began.elapsed())
    }

    /// Sends mails like [`send`](Self::send) until it is told to stop or has sent all. Gives the number of the first
    /// that was not sent.
    pub(super) async fn send_until(&self, numbers: Range<u64>, stop: &CancellationToken) -> Result<u64, BenchError> {
        let next = Arc::new(AtomicU64::new(numbers.start));
        let mut calls: JoinSet<Result<(), BenchError>> = JoinSet::new();
        for client in &self.clients {
            let (mut client, next, stop) = (client.clone(), next.clone(), stop.clone());
            let (request, end) = (self.request, numbers.end);
            calls.spawn(async move {
                while !stop.is_cancelled() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    call(&mut client, || request(number)).await?;
                }
                Ok(())
            });
        }
        while let Some(ended) = calls.join_next().await {
            ended.map_err(|error| panicked(&error))??;
        }
        Ok(next.load(Ordering::Relaxed).min(numbers.end))
    }

    /// Sends mails from that number on, so many a second, until it is told to stop or has sent so many; a late answer
    /// delays no other call. Gives the answers.
    pub(super) async fn send_at(
        &self,
        per_second: f64,
        numbers: Range<u64>,
        stop: &CancellationToken,
    ) -> Result<Vec<Answered>, BenchError> {
        let mut calls: JoinSet<Result<Answered, BenchError>> = JoinSet::new();
        let mut answers = Vec::new();
        let (began, began_at) = (Instant::now(), OffsetDateTime::now_utc());
        for (nth, (number, client)) in (0_u32..).zip(numbers.zip(self.clients.iter().cycle())) {
            let after = Duration::from_secs_f64(f64::from(nth) / per_second);
            tokio::select! {
                () = sleep_until(began + after) => {}
                () = stop.cancelled() => break,
            }
            let (mut client, request) = (client.clone(), self.request);
            calls.spawn(async move {
                call(&mut client, || request(number)).await?;
                Ok(Answered { number, called_at: began_at + after, at: OffsetDateTime::now_utc() })
            });
            // One that failed ends it here, and not only after all the others.
            while let Some(ended) = calls.try_join_next() {
                answers.push(ended.map_err(|error| panicked(&error))??);
            }
        }
        while let Some(ended) = calls.join_next().await {
            answers.push(ended.map_err(|error| panicked(&error))??);
        }
        Ok(answers)
    }
}

/// Makes the call, again where the service asks to come back later.
async fn call(
    client: &mut EmailServiceClient<Channel>,
    request: impl Fn() -> SendEmailRequest,
) -> Result<(), BenchError> {
    let began = Instant::now();
    loop {
        match client.send_email(request()).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::ResourceExhausted && began.elapsed() < PATIENCE => {
                let told = status.get_details_retry_info().and_then(|info| info.retry_delay);
                sleep(told.unwrap_or(PAUSE)).await;
            }
            Err(status) => return Err(BenchError::Call(format!("{:?}: {}", status.code(), status.message()))),
        }
    }
}

fn panicked(error: &JoinError) -> BenchError {
    BenchError::Call(error.to_string())
}
