//! `postrider list`.
//!
//! Owns how messages read as lines; which there are is for the service to say.

use clap::Args;
use serde_json::{Value, json};

use super::{
    Exit, Failure,
    client::ServiceAddress,
    filter::FilterArgs,
    output,
    status::{or_null, strip, time, word},
    table::{cell, table},
};
use crate::proto::v1::{ListMessagesRequest, MessageSummary};

/// The most messages of a page.
const PAGE: usize = 1_000;

/// List messages of every client, newest first.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    service: ServiceAddress,
    #[command(flatten)]
    filter: FilterArgs,
    /// How many at most.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,
    /// Print JSON, one line for each message.
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let filter = self.filter.read()?;
        let mut client = self.service.connect_as_operator().await?;
        let (mut messages, mut page_token) = (Vec::new(), String::new());
        // A page may be short, or empty, and the list go on all the same.
        while messages.len() < self.limit {
            let page_size = i32::try_from((self.limit - messages.len()).min(PAGE)).unwrap_or(i32::MAX);
            let request = ListMessagesRequest { filter: Some(filter.clone()), page_size, page_token };
            let answer = client.list_messages(self.service.request(request)).await;
            let page = answer.map_err(|status| Failure::from_status(&status))?.into_inner();
            messages.extend(page.messages);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        output::answer(&match self.json {
            true => messages.iter().map(|message| format!("{}\n", to_json(message))).collect(),
            false => for_people(&messages),
        })?;
        if !page_token.is_empty() {
            output::remark(&format!("there may be more: --limit {} is reached", self.limit))?;
        }
        Ok(Exit::Done)
    }
}

fn to_json(message: &MessageSummary) -> Value {
    json!({
        "message_id": message.message_id,
        "client": message.client,
        "status": word(message.status),
        "accepted_at": or_null(time(message.accepted_at.as_ref())),
        "next_attempt_at": or_null(time(message.next_attempt_at.as_ref())),
        "finished_at": or_null(time(message.finished_at.as_ref())),
        "attempts": message.attempts,
        "rounds": message.rounds,
        "last_provider": or_null(message.last_provider.clone()),
        "last_outcome": Some(outcome(message)).filter(|outcome| *outcome != "-"),
        "last_code": or_null(message.last_code.clone()),
        "correlation_id": or_null(message.correlation_id.clone()),
        "document_type": or_null(message.document_type.clone()),
    })
}

fn outcome(message: &MessageSummary) -> &'static str {
    strip(message.last_outcome().as_str_name(), "OUTCOME_CLASS_")
}

fn for_people(messages: &[MessageSummary]) -> String {
    let row = |message: &MessageSummary| {
        [
            message.message_id.clone(),
            word(message.status).to_owned(),
            time(message.accepted_at.as_ref()),
            message.client.clone(),
            message.attempts.to_string(),
            cell(&message.last_provider),
            outcome(message).to_owned(),
            cell(&message.last_code),
        ]
    };
    let heads = ["MESSAGE", "STATUS", "ACCEPTED", "CLIENT", "ATTEMPTS", "PROVIDER", "OUTCOME", "CODE"];
    table(heads, messages.iter().map(row))
}
