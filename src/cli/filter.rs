//! The options by which messages are meant: by what they have to match.
//!
//! Owns the words; which messages match is for the service to say.

use clap::Args;

use super::{Failure, send};
use crate::proto::v1::{MessageFilter, OutcomeClass, Status};

/// Which messages. Everything that is given has to match.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Those with one of these statuses; `failed` means all that wait for a person.
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',')]
    statuses: Vec<String>,
    /// Those of that client.
    #[arg(long, value_name = "NAME")]
    of_client: Option<String>,
    /// Those for which that provider was asked last.
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Those with that address among their recipients.
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// Those with that tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Those with that correlation id.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Those with that document type.
    #[arg(long, value_name = "TYPE")]
    document_type: Option<String>,
    /// Those accepted at that time or later (RFC 3339).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Those accepted before that time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Those of which the last attempt told that: MISCONFIGURED, OUTCOME_UNKNOWN, …
    #[arg(long, value_name = "CLASS")]
    outcome: Option<String>,
}

const FAILED: [Status; 3] = [Status::FailedNotRetryable, Status::FailedRetriesExhausted, Status::FailedOutcomeUnknown];

impl FilterArgs {
    /// As the contract has it.
    pub(super) fn read(&self) -> Result<MessageFilter, Failure> {
        let mut statuses = Vec::new();
        for word in &self.statuses {
            let word = word.to_ascii_uppercase();
            match (word.as_str(), Status::from_str_name(&format!("STATUS_{word}"))) {
                ("FAILED", _) => statuses.extend(FAILED.map(i32::from)),
                (_, Some(status)) if status != Status::Unspecified => statuses.push(status.into()),
                _ => return Err(Failure::Usage(format!("--status: {word:?} is none"))),
            }
        }
        let read_class = |word: &String| {
            let word = word.to_ascii_uppercase();
            let class = OutcomeClass::from_str_name(&format!("OUTCOME_CLASS_{word}"));
            let class = class.filter(|class| *class != OutcomeClass::Unspecified);
            class.ok_or_else(|| Failure::Usage(format!("--outcome: {word:?} is none")))
        };
        let outcome = self.outcome.as_ref().map(read_class).transpose()?;
        let time =
            |name: &str, text: &Option<String>| text.as_ref().map(|text| send::timestamp(name, text)).transpose();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Ok(MessageFilter {
            statuses,
            client: text(&self.of_client),
            provider: text(&self.provider),
            recipient: text(&self.recipient),
            tag: text(&self.tag),
            correlation_id: text(&self.correlation_id),
            document_type: text(&self.document_type),
            accepted_after: time("--since", &self.since)?,
            accepted_before: time("--before", &self.before)?,
            last_outcome: outcome.unwrap_or_default().into(),
        })
    }
}
