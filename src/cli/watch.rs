//! `postrider watch`.
//!
//! Owns how changes read on a screen, and that it is watched on when a service stops; which there are is told by the
//! service.

use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{Exit, Failure, client::ServiceAddress, output, status};
use crate::proto::v1::{GetStatusResponse, WatchStatusRequest, email_service_client::EmailServiceClient};

/// The pause before it is watched again.
const PAUSE: Duration = Duration::from_millis(500);

/// Show where a message stands, and each change, until it is finished.
///
/// A service that stops meanwhile is asked again until it is back.
#[derive(Debug, Args)]
pub(super) struct Watch {
    #[command(flatten)]
    service: ServiceAddress,
    /// The id that `send` printed.
    message_id: String,
    /// End also when the message waits for a person.
    #[arg(long)]
    until_failed: bool,
    /// Print JSON, one line for each change.
    #[arg(long)]
    json: bool,
}

/// What was shown so far.
#[derive(Default)]
struct Shown {
    last: Option<GetStatusResponse>,
}

impl Watch {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let mut client = self.service.connect().await?;
        let mut shown = Shown::default();
        let mut away_since = None;
        loop {
            let before = shown.last.clone();
            let failure = match self.follow(&mut client, &mut shown).await {
                Ok(exit) => return Ok(exit),
                Err(failure) => failure,
            };
            if shown.last != before {
                away_since = None;
            }
            let since = *away_since.get_or_insert_with(Instant::now);
            let is_to_be_back = matches!(failure, Failure::Unavailable(_)) && shown.last.is_some();
            if !is_to_be_back || since.elapsed() > self.service.timeout() {
                return Err(failure);
            }
            sleep(PAUSE).await;
        }
    }

    /// Shows what one stream tells, to its end.
    async fn follow(&self, client: &mut EmailServiceClient<Channel>, shown: &mut Shown) -> Result<Exit, Failure> {
        let request = WatchStatusRequest { message_id: self.message_id.clone(), until_failed: self.until_failed };
        let answered = client.watch_status(self.service.request(request)).await;
        let mut changes = answered.map_err(|status| Failure::from_status(&status))?.into_inner();
        while let Some(change) = changes.message().await.map_err(|status| Failure::from_status(&status))? {
            let Some(message) = change.message else { continue };
            self.show(shown, message)?;
        }
        let last = shown.last.as_ref().ok_or_else(|| Failure::Other("the service told nothing".to_owned()))?;
        Ok(status::exit(last.status()))
    }

    fn show(&self, shown: &mut Shown, message: GetStatusResponse) -> Result<(), Failure> {
        if shown.last.as_ref() == Some(&message) {
            return Ok(());
        }
        let text = match self.json {
            true => status::json_line(&message),
            false => for_people(shown.last.as_ref(), &message),
        };
        shown.last = Some(message);
        output::answer(&text)
    }
}

/// What happened since, and what it came to.
fn for_people(before: Option<&GetStatusResponse>, message: &GetStatusResponse) -> String {
    let known = before.map_or(0, |before| before.events.len());
    let mut lines: Vec<String> = message.events.iter().skip(known).map(status::event_line).collect();
    let waits = match message.waiting_for.as_str() {
        "" => String::new(),
        what => format!("  waiting for {what}"),
    };
    lines.push(format!("{}  {}{waits}", message.message_id, status::word(message.status)));
    lines.join("\n") + "\n"
}
