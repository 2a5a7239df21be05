//! `postrider demo`: a failover from beginning to end, checked.
//!
//! Owns the script and the verdict; what is sent, stored and received is as real as in `dev`.

mod email;
mod report;

use std::time::Duration;

use clap::Args;
use tokio::{task::JoinSet, time::Instant};
use tonic::transport::{Channel, Endpoint};

use self::report::Report;
use super::{
    Exit, Failure,
    local::{LocalSystem, PRIMARY, Places},
};
use crate::{
    config::{LogFormat, Telemetry},
    proto::v1::{self, GetStatusRequest, email_service_client::EmailServiceClient},
    sandbox::http::Fault,
    telemetry,
};

/// Show a failover from beginning to end: 200 emails, a provider that breaks and heals, every inbox checked.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// How many emails are sent.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    emails: u32,
    /// How many of them a second.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
}

/// The longest time from the last `SendEmail` to the last arrival: far more than the pauses between rounds.
const LONGEST: Duration = Duration::from_secs(60);

/// An email that was accepted, and how long after the start.
pub(super) struct Sent {
    message_id: String,
    accepted: Duration,
}

impl Demo {
    #[allow(clippy::print_stdout)]
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let quiet = Telemetry { log_format: LogFormat::Human, log_level: "error".into(), ..Telemetry::default() };
        let telemetry = telemetry::init(&quiet).map_err(|error| Failure::Usage(format!("telemetry: {error}")))?;
        println!("Starting a private Postgres, two providers and Postrider …");
        let system = LocalSystem::start(Places::default()).await?;
        let report = self.play(&system).await;
        system.stop().await?;
        telemetry.shutdown().await;
        let report = report?;
        print!("{report}");
        if report.is_flawless() { Ok(Exit::Done) } else { Err(Failure::Other("the demo found a fault".to_owned())) }
    }

    /// Sends at a steady rate, and meanwhile breaks the first provider twice and heals it.
    async fn play(&self, system: &LocalSystem) -> Result<Report, Failure> {
        let client = connect(system).await?;
        let mut report = Report::default();
        let mut sends = JoinSet::new();
        let start = Instant::now();
        let circuit = system.app.watch_circuit(PRIMARY);
        let mut pace = tokio::time::interval(Duration::from_secs(1) / self.rate);
        for nth in 0..self.emails {
            pace.tick().await;
            if let Some((fault, words)) = self.scene(nth) {
                system.primary.set_fault(fault).map_err(|error| Failure::Other(error.to_string()))?;
                report.note(start.elapsed(), words);
            }
            let mut client = client.clone();
            sends.spawn(async move {
                let response = client.send_email(email::request(nth)).await?.into_inner();
                Ok::<_, tonic::Status>(Sent { message_id: response.message_id, accepted: start.elapsed() })
            });
        }
        while let Some(sent) = sends.join_next().await {
            let sent = sent.map_err(|error| Failure::Other(error.to_string()))?;
            report.sent.push(sent.map_err(|status| Failure::from_status(&status))?);
        }
        // Each email has one recipient of its own, so what arrived is counted by arrivals.
        let expected = u64::from(self.emails);
        if system.inbox.wait_until(|inbox| inbox.count() >= expected, LONGEST).await.is_err() {
            report.note(start.elapsed(), "gave up waiting for the last emails");
        }
        report.statuses = statuses(client, &report.sent).await?;
        report.circuit = circuit.stop().await;
        report.read_inbox(&system.inbox, start);
        Ok(report)
    }

    /// What happens to the first provider just before that email.
    fn scene(&self, nth: u32) -> Option<(Fault, &'static str)> {
        let part = |tenths: u32| self.emails * tenths / 10;
        match nth {
            n if n == part(3) => {
                Some((Fault::Status { code: 503, retry_after: None }, "primary breaks: it answers 503 to everything"))
            }
            n if n == part(5) => Some((Fault::Refuse, "primary breaks further: it refuses connections")),
            n if n == part(7) => Some((Fault::None, "primary is healed")),
            _ => None,
        }
    }
}

async fn connect(system: &LocalSystem) -> Result<EmailServiceClient<Channel>, Failure> {
    let endpoint = Endpoint::from_shared(format!("http://{}", system.app.address()))
        .map_err(|error| Failure::Other(error.to_string()))?;
    let channel = endpoint.connect().await.map_err(|error| Failure::Unavailable(error.to_string()))?;
    Ok(EmailServiceClient::new(channel))
}

/// What each message's status is, once none is under way any more or the time is up: the last settle comes a moment
/// after the last arrival.
async fn statuses(
    mut client: EmailServiceClient<Channel>,
    sent: &[Sent],
) -> Result<Vec<v1::GetStatusResponse>, Failure> {
    let deadline = Instant::now() + LONGEST;
    let mut statuses = Vec::with_capacity(sent.len());
    for sent in sent {
        loop {
            let request = GetStatusRequest { message_id: sent.message_id.clone() };
            let status = client.get_status(request).await.map_err(|status| Failure::from_status(&status))?.into_inner();
            if status.status() == v1::Status::SuccessSent || Instant::now() > deadline {
                statuses.push(status);
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(statuses)
}
