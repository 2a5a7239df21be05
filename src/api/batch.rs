//! `SendEmailBatch`: many emails in one call, each answered as if it had come alone.
//!
//! Owns the order in which those of one batch are judged; how an email is read, checked and committed stands beside, in
//! `send`.

use std::collections::HashSet;

use futures_util::future::join_all;
use http::HeaderMap;
use prost::Message as _;
use tonic::Status;

use super::{
    caller,
    email::EmailApi,
    send::{LARGE_BYTES, Read, Routed, apart, unstored},
    status,
};
use crate::{
    message::ClientId,
    outbox::{IdempotencyKey, NewMessage},
    proto::v1 as pb,
};

/// The most requests of a batch, and the most messages that are asked about at once.
const LIMIT: usize = 1_000;

/// What one request is answered.
type Answer = Result<pb::SendEmailResponse, Status>;

/// A request that may be accepted, and its place in the batch.
type Acceptable = (usize, Option<IdempotencyKey>, Routed);

impl EmailApi {
    /// Accepts what can be accepted, and answers each.
    pub(super) async fn send_batch(
        &self,
        headers: &HeaderMap,
        request: pb::SendEmailBatchRequest,
    ) -> Result<pb::SendEmailBatchResponse, Status> {
        let client = caller::client(headers)?;
        check_count("requests", request.requests.len())?;
        let now = self.backend.outbox.clock().now();
        let takes_long = request.encoded_len() > LARGE_BYTES;
        let reader = self.reader(&client, now);
        let read_all = move || request.requests.into_iter().map(|request| reader.read(request)).collect();
        let reads: Vec<Read> = apart(takes_long, read_all).await?;

        let message = |(nth, key, routed)| (nth, self.message(client.clone(), headers, key, routed, now));
        let mut answers: Vec<Option<Answer>> = reads.iter().map(|_| None).collect();
        let (first, rest) = sort(reads);
        self.accept_all(first.into_iter().map(message).collect(), &mut answers).await;
        let again = self.answer_rest(&client, rest, &mut answers).await;
        self.accept_all(again.into_iter().map(message).collect(), &mut answers).await;
        Ok(pb::SendEmailBatchResponse { results: answers.into_iter().map(result).collect() })
    }

    /// Commits messages as if each had come alone.
    async fn accept_all(&self, messages: Vec<(usize, NewMessage)>, answers: &mut [Option<Answer>]) {
        let (places, messages): (Vec<usize>, Vec<NewMessage>) = messages.into_iter().unzip();
        let accepted = join_all(messages.into_iter().map(|message| self.accept(message))).await;
        for (nth, accepted) in places.into_iter().zip(accepted) {
            answers[nth] = Some(accepted.and_then(|(_, answer)| answer));
        }
    }

    /// Answers those that are not to be stored, or repeat what is stored by now. Gives back those whose keys are still
    /// free, since the request that came before them was not stored after all.
    async fn answer_rest(
        &self,
        client: &ClientId,
        rest: Vec<(usize, Read)>,
        answers: &mut [Option<Answer>],
    ) -> Vec<Acceptable> {
        let reads: Vec<&Read> = rest.iter().map(|(_, read)| read).collect();
        let recalled = self.recall(client, &reads).await;
        let mut again = Vec::new();
        for (i, (nth, Read { key, order, validate_only })) in rest.into_iter().enumerate() {
            answers[nth] = Some(match (&recalled, order) {
                (Err(status), _) if key.is_some() => Err(status.clone()),
                (Err(_), order) => unstored(order, None),
                (Ok(recalled), Ok(order)) if recalled[i].is_none() && !validate_only => {
                    again.push((nth, key, order));
                    continue;
                }
                (Ok(recalled), order) => unstored(order, recalled[i].clone()),
            });
        }
        again
    }
}

/// Parts what is to be accepted from the rest. A key stands for the first request with it that can be accepted: the
/// others are repeats of that one, or mistaken.
fn sort(reads: Vec<Read>) -> (Vec<Acceptable>, Vec<(usize, Read)>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut keys = HashSet::new();
    for (nth, read) in reads.into_iter().enumerate() {
        match read {
            Read { key, order: Ok(order), validate_only: false }
                if key.as_ref().is_none_or(|key| keys.insert(key.key.clone())) =>
            {
                first.push((nth, key, order));
            }
            read => rest.push((nth, read)),
        }
    }
    (first, rest)
}

fn result(answer: Option<Answer>) -> pb::SendEmailBatchResult {
    use pb::send_email_batch_result::Result;
    let result = match answer.unwrap_or_else(|| Err(status::panicked())) {
        Ok(response) => Result::Response(response),
        Err(status) => Result::Error(status::of_item(&status)),
    };
    pb::SendEmailBatchResult { result: Some(result) }
}

/// Refuses a list without an entry, and one with too many.
pub(super) fn check_count(field: &str, count: usize) -> Result<(), Status> {
    match count {
        0 => Err(status::invalid_field(field, "is empty")),
        1..=LIMIT => Ok(()),
        _ => Err(status::invalid_field(field, format!("has {count} entries; the limit is {LIMIT}"))),
    }
}
