//! `postrider status`.
//!
//! Owns how a status reads on a screen and in JSON, and which exit code it means; changes nothing.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{Exit, Failure, client::ServiceAddress, output};
use crate::proto::v1::{self, GetStatusRequest, GetStatusResponse, email_service_client::EmailServiceClient};

/// Show where a message stands and how it came there.
#[derive(Debug, Args)]
pub(super) struct ShowStatus {
    #[command(flatten)]
    service: ServiceAddress,
    /// The id that `send` printed.
    message_id: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl ShowStatus {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let mut client = self.service.connect().await?;
        let response = get(&self.service, &mut client, &self.message_id).await?;
        let shown = if self.json { format!("{:#}\n", to_json(&response)) } else { for_people(&response) };
        output::answer(&shown)?;
        Ok(exit(response.status()))
    }
}

/// Asks until the message is finished or waits for a person, or the time is up, and gives the last answer. A service
/// that is away for a moment is asked again: the message is accepted, so there is nothing else to do.
pub(super) async fn wait(
    service: &ServiceAddress,
    client: &mut EmailServiceClient<Channel>,
    message_id: &str,
    longest: Duration,
) -> Result<GetStatusResponse, Failure> {
    let deadline = Instant::now() + longest;
    let mut pause = Duration::from_millis(50);
    loop {
        let answer = get(service, client, message_id).await;
        let goes_on = match &answer {
            Ok(response) => exit(response.status()) == Exit::Waiting,
            Err(failure) => matches!(failure, Failure::Unavailable(_)),
        };
        if !goes_on || Instant::now() + pause > deadline {
            return answer;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

async fn get(
    service: &ServiceAddress,
    client: &mut EmailServiceClient<Channel>,
    message_id: &str,
) -> Result<GetStatusResponse, Failure> {
    client
        .get_status(service.request(GetStatusRequest { message_id: message_id.to_owned() }))
        .await
        .map(tonic::Response::into_inner)
        .map_err(|status| Failure::from_status(&status))
}

/// The exit code that a status means.
pub(super) fn exit(status: v1::Status) -> Exit {
    match status {
        v1::Status::SuccessSent => Exit::Done,
        v1::Status::FailedNotRetryable | v1::Status::FailedRetriesExhausted | v1::Status::FailedOutcomeUnknown => {
            Exit::Failed
        }
        v1::Status::Expired | v1::Status::Canceled => Exit::NotSent,
        v1::Status::Unspecified | v1::Status::NotYetSent | v1::Status::InProcess | v1::Status::RequiredResend => {
            Exit::Waiting
        }
    }
}

/// The word of a status without its prefix.
pub(super) fn word(status: i32) -> &'static str {
    strip(v1::Status::try_from(status).unwrap_or_default().as_str_name(), "STATUS_")
}

/// A word of the contract without its prefix.
pub(super) fn strip(name: &'static str, prefix: &str) -> &'static str {
    match name.strip_prefix(prefix) {
        Some("UNSPECIFIED") | None => "-",
        Some(word) => word,
    }
}

/// What a person reads.
pub(super) fn for_people(response: &GetStatusResponse) -> String {
    let mut lines = vec![format!("{}  {}", response.message_id, word(response.status))];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<13} {value}"));
        }
    };
    fact("accepted", time(response.accepted_at.as_ref()));
    fact("next attempt", time(response.next_attempt_at.as_ref()));
    fact("finished", time(response.finished_at.as_ref()));
    fact("chain", response.chain.clone());
    fact("rounds", response.rounds.to_string());
    fact("waiting for", response.waiting_for.clone());
    fact("correlation", response.correlation_id.clone());
    fact("document type", response.document_type.clone());
    if !response.recipients.is_empty() {
        lines.push("  recipients".to_owned());
    }
    for recipient in &response.recipients {
        let state = strip(recipient.state().as_str_name(), "RECIPIENT_STATE_");
        let outcome = strip(recipient.outcome().as_str_name(), "OUTCOME_CLASS_");
        let line = format!(
            "    {}  {state}  {outcome}  {}  {}  {}",
            recipient.address, recipient.provider, recipient.code, recipient.detail
        );
        lines.push(line.trim_end().to_owned());
    }
    if !response.events.is_empty() {
        lines.push("  history".to_owned());
    }
    for event in &response.events {
        lines.push(event_line(event));
        lines.extend(event.skipped.iter().map(skipped_line));
    }
    if !response.skipped.is_empty() {
        lines.push("  passed over since".to_owned());
    }
    lines.extend(response.skipped.iter().map(skipped_line));
    lines.join("\n") + "\n"
}

/// A line of the history.
pub(super) fn event_line(event: &v1::Event) -> String {
    let kind = strip(event.kind().as_str_name(), "EVENT_KIND_");
    let outcome = strip(event.outcome().as_str_name(), "OUTCOME_CLASS_");
    let took = event.duration.as_ref().map_or(String::new(), |d| format!("{:.3} s", seconds(d)));
    let line = format!(
        "    {}  {kind}  {}  {outcome}  {}  {took}  {}",
        time(event.started_at.as_ref()),
        event.provider,
        event.code,
        event.detail
    );
    line.trim_end().to_owned()
}

/// A provider that was passed over before what stands above it.
fn skipped_line(skipped: &v1::SkippedProvider) -> String {
    let until = match time(skipped.until.as_ref()) {
        until if until.is_empty() => until,
        until => format!(" until {until}"),
    };
    format!("      not {}: {}{until}", skipped.provider, skipped.reason)
}

fn seconds(duration: &prost_types::Duration) -> f64 {
    duration.seconds as f64 + f64::from(duration.nanos) / 1e9
}

/// A time of the contract as RFC 3339; nothing where there is none.
pub(super) fn time(timestamp: Option<&prost_types::Timestamp>) -> String {
    timestamp
        .and_then(|t| {
            OffsetDateTime::from_unix_timestamp(t.seconds).ok()?.replace_nanosecond(u32::try_from(t.nanos).ok()?).ok()
        })
        .and_then(|time| time.replace_millisecond(time.millisecond()).ok()?.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// What a program reads that takes a line for an answer.
pub(super) fn json_line(response: &GetStatusResponse) -> String {
    format!("{}\n", to_json(response))
}

/// A text for scripts: null where there is none.
pub(super) fn or_null(text: String) -> Value {
    if text.is_empty() { Value::Null } else { Value::String(text) }
}

/// As a script reads it.
pub(super) fn to_json(response: &GetStatusResponse) -> Value {
    let recipients: Vec<Value> = response
        .recipients
        .iter()
        .map(|recipient| {
            json!({
                "address": recipient.address,
                "state": strip(recipient.state().as_str_name(), "RECIPIENT_STATE_"),
                "outcome": strip(recipient.outcome().as_str_name(), "OUTCOME_CLASS_"),
                "provider": recipient.provider,
                "code": recipient.code,
                "detail": recipient.detail,
            })
        })
        .collect();
    let events: Vec<Value> = response
        .events
        .iter()
        .map(|event| {
            json!({
                "kind": strip(event.kind().as_str_name(), "EVENT_KIND_"),
                "started_at": time(event.started_at.as_ref()),
                "duration_seconds": event.duration.as_ref().map(seconds),
                "round": event.round,
                "provider": event.provider,
                "outcome": strip(event.outcome().as_str_name(), "OUTCOME_CLASS_"),
                "scope": strip(event.scope().as_str_name(), "OUTCOME_SCOPE_"),
                "code": event.code,
                "detail": event.detail,
                "provider_message_id": event.provider_message_id,
                "skipped": event.skipped.iter().map(skipped_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "message_id": response.message_id,
        "status": word(response.status),
        "accepted_at": or_null(time(response.accepted_at.as_ref())),
        "next_attempt_at": or_null(time(response.next_attempt_at.as_ref())),
        "finished_at": or_null(time(response.finished_at.as_ref())),
        "rounds": response.rounds,
        "waiting_for": or_null(response.waiting_for.clone()),
        "correlation_id": or_null(response.correlation_id.clone()),
        "document_type": or_null(response.document_type.clone()),
        "chain": response.chain,
        "recipients": recipients,
        "events": events,
        "skipped": response.skipped.iter().map(skipped_json).collect::<Vec<_>>(),
    })
}

fn skipped_json(skipped: &v1::SkippedProvider) -> Value {
    let until = Some(time(skipped.until.as_ref())).filter(|until| !until.is_empty());
    json!({ "provider": skipped.provider, "reason": skipped.reason, "until": until })
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn who_was_passed_over_stands_below_what_it_was_passed_over_for() {
        let skipped = |provider: &str, until: Option<i64>| v1::SkippedProvider {
            provider: provider.into(),
            reason: "why".into(),
            until: until.map(|seconds| Timestamp { seconds, nanos: 0 }),
        };
        let event =
            v1::Event { provider: "second".into(), skipped: vec![skipped("first", Some(0))], ..Default::default() };
        let response = GetStatusResponse {
            chain: "bulk".into(),
            events: vec![event],
            skipped: vec![skipped("third", None)],
            ..Default::default()
        };
        let shown = for_people(&response);
        let tail = "\n      not first: why until 1970-01-01T00:00:00Z\n  passed over since\n      not third: why\n";
        assert!(shown.ends_with(tail), "{shown}");
        assert!(shown.contains("  chain         bulk\n"), "{shown}");
        let told = to_json(&response);
        assert_eq!(told["skipped"], json!([{ "provider": "third", "reason": "why", "until": null }]));
        assert_eq!(told["events"][0]["skipped"][0]["until"], "1970-01-01T00:00:00Z");
    }
}
