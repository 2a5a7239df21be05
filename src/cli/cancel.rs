//! `postrider cancel`.
//!
//! Owns which exit code the answers mean together; what is called off is for the service to say.

use clap::Args;
use serde_json::json;

use super::{Exit, Failure, client::ServiceAddress, output, status};
use crate::proto::v1::{self, CancelEmailRequest, CancelEmailResponse};

/// Call messages off.
///
/// What waits is canceled. What is being sent just now may have been sent; nothing more of it is.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    service: ServiceAddress,
    /// The ids that `send` printed.
    #[arg(required = true, value_name = "MESSAGE_ID")]
    message_ids: Vec<String>,
    /// Print JSON, one line for each message.
    #[arg(long)]
    json: bool,
}

impl Cancel {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let mut client = self.service.connect().await?;
        let (mut worst, mut failed) = (Exit::Done, None);
        for id in &self.message_ids {
            let request = self.service.request(CancelEmailRequest { message_id: id.clone() });
            match client.cancel_email(request).await.map(tonic::Response::into_inner) {
                Ok(response) => {
                    output::answer(&self.line(id, &response))?;
                    worst = worst.max(exit(response.status()));
                }
                Err(status) => {
                    let failure = Failure::from_status(&status);
                    output::remark(&format!("{id}: {failure}"))?;
                    // The others are called off all the same.
                    failed = failed.or(Some(failure));
                }
            }
        }
        failed.map_or(Ok(worst), Err)
    }

    fn line(&self, id: &str, response: &CancelEmailResponse) -> String {
        let status = status::word(response.status);
        if self.json {
            let json = json!({
                "message_id": id,
                "status": status,
                "may_have_been_sent": response.may_have_been_sent,
            });
            return format!("{json}\n");
        }
        let remark = match response.status() {
            v1::Status::SuccessSent => "  it was sent",
            _ if response.may_have_been_sent => "  it may have been sent; nothing more of it will be",
            _ => "",
        };
        format!("{id}  {status}{remark}\n")
    }
}

/// The exit code of one answer; of several the greatest holds.
fn exit(status: v1::Status) -> Exit {
    match status {
        v1::Status::Canceled | v1::Status::Expired => Exit::Done,
        v1::Status::SuccessSent => Exit::TooLate,
        status => status::exit(status),
    }
}
