//! Callers of SendEmail: as quickly as they are answered, or at a steady rate whatever the answers.
//!
//! Owns the connections and the times of the answers; what is on the other side is not its matter.

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
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use super::{BenchError, mail};
use crate::proto::v1::{SendEmailRequest, email_service_client::EmailServiceClient};

/// How many callers share a connection.
const CALLERS_A_CONNECTION: usize = 16;

/// The longest that a call may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call that was answered with OK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// The number of the mail.
    pub(super) number: u64,
    /// When the answer was there, by this machine's clock.
    pub(super) at: OffsetDateTime,
}

/// Callers that are connected.
pub(super) struct Callers {
    clients: Vec<EmailServiceClient<Channel>>,
}

impl Callers {
    /// So many callers of the service at that address.
    pub(super) async fn connect(address: SocketAddr, callers: usize) -> Result<Self, BenchError> {
        let failed = |error: tonic::transport::Error| BenchError::Connect { what: "gRPC", reason: error.to_string() };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(failed)?.timeout(PATIENCE);
        let mut clients = Vec::with_capacity(callers);
        while clients.len() < callers {
            let client = EmailServiceClient::new(endpoint.connect().await.map_err(failed)?);
            let sharing = CALLERS_A_CONNECTION.min(callers - clients.len());
            clients.extend(std::iter::repeat_n(client, sharing));
        }
        Ok(Self { clients })
    }

    /// Sends the mails of these numbers, each caller the next one as soon as it is answered. Gives the time from the
    /// first call to the last answer.
    pub(super) async fn send(&self, numbers: Range<u64>) -> Result<Duration, BenchError> {
        let next = Arc::new(AtomicU64::new(numbers.start));
        let mut calls: JoinSet<Result<(), BenchError>> = JoinSet::new();
        let began = Instant::now();
        for client in &self.clients {
            let (client, next, end) = (client.clone(), next.clone(), numbers.end);
            calls.spawn(async move {
                let mut client = client;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok(());
                    }
                    call(&mut client, mail::request(number)).await?;
                }
            });
        }
        while let Some(ended) = calls.join_next().await {
            ended.map_err(|error| panicked(&error))??;
        }
        Ok(began.elapsed())
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
        let began = Instant::now();
        for (nth, (number, client)) in (0_u32..).zip(numbers.zip(self.clients.iter().cycle())) {
            tokio::select! {
                () = sleep_until(began + Duration::from_secs_f64(f64::from(nth) / per_second)) => {}
                () = stop.cancelled() => break,
            }
            let mut client = client.clone();
            calls.spawn(async move {
                call(&mut client, mail::request(number)).await?;
                Ok(Answered { number, at: OffsetDateTime::now_utc() })
            });
        }
        let mut answers = Vec::with_capacity(calls.len());
        while let Some(ended) = calls.join_next().await {
            answers.push(ended.map_err(|error| panicked(&error))??);
        }
        Ok(answers)
    }
}

async fn call(client: &mut EmailServiceClient<Channel>, request: SendEmailRequest) -> Result<(), BenchError> {
    let answered = client.send_email(request).await;
    answered.map(drop).map_err(|status| BenchError::Call(format!("{:?}: {}", status.code(), status.message())))
}

fn panicked(error: &JoinError) -> BenchError {
    BenchError::Call(error.to_string())
}
