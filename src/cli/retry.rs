//! `postrider retry`.
//!
//! Owns that nothing is tried again by mistake: without an id or an option that names some, nothing is done.

use clap::Args;
use serde_json::json;

use super::{Exit, Failure, client::ServiceAddress, filter::FilterArgs, output};
use crate::proto::v1::{
    MessageFilter, MessageIds, MessageSelection, RetryMessagesRequest, message_selection::Selection,
};

/// Have messages tried again that wait for a person (FAILED_…), with a new count of rounds.
///
/// The same message is sent, to those recipients that are not finished. Left out are those that were called off and those
/// whose expire_at has passed.
#[derive(Debug, Args)]
pub(super) struct Retry {
    #[command(flatten)]
    service: ServiceAddress,
    /// These messages, up to 1,000.
    #[arg(value_name = "MESSAGE_ID")]
    message_ids: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All that wait for a person.
    #[arg(long)]
    all: bool,
    /// Also those of unknown outcome (FAILED_OUTCOME_UNKNOWN), which may then arrive twice.
    #[arg(long)]
    include_outcome_unknown: bool,
    /// Count them only.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Retry {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let request = RetryMessagesRequest {
            selection: Some(MessageSelection { selection: Some(self.selection()?) }),
            dry_run: self.dry_run,
            include_outcome_unknown: self.include_outcome_unknown,
        };
        let mut client = self.service.connect_as_operator().await?;
        let answer = client.retry_messages(self.service.request(request)).await;
        let count = answer.map_err(|status| Failure::from_status(&status))?.into_inner().count;
        output::answer(&match (self.json, self.dry_run) {
            (true, dry_run) => format!("{}\n", json!({ "count": count, "dry_run": dry_run })),
            (false, true) => format!("{count} would be tried again\n"),
            (false, false) => format!("{count} are tried again\n"),
        })?;
        Ok(Exit::Done)
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let filter = self.filter.read()?;
        let names_some = filter != MessageFilter::default();
        match (self.message_ids.is_empty(), names_some || self.all) {
            (false, false) => Ok(Selection::Ids(MessageIds { message_ids: self.message_ids.clone() })),
            (true, true) => Ok(Selection::Filter(filter)),
            (true, false) => Err(Failure::Usage("which messages: ids, an option that names some, or --all".into())),
            (false, true) => Err(Failure::Usage("either ids or options that name messages, not both".into())),
        }
    }
}
