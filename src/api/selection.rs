//! `RetryMessages` and `CancelMessages`: something is done with messages by their ids, or with all that match.
//!
//! Owns how they are gone through, a batch at a time; what is done with each is the outbox's. A call that ends early has
//! done its part of them, and may be made again.

use tonic::Status;

use super::{batch::check_count, filter, from_proto, operator::OperatorApi, status};
use crate::{
    delivery,
    message::MessageId,
    outbox::{Cursor, Filter, Retry},
    policy::Violation,
    proto::v1::{self as pb, message_selection::Selection},
};

/// How many messages of a filter are taken at once.
const BATCH: usize = 1_000;

/// The messages of a selection that are still to be gone through.
enum Selected {
    Ids(Vec<MessageId>),
    Matching { filter: Filter, from: Option<Cursor> },
    Nothing,
}

impl OperatorApi {
    /// Has messages tried again, or counts them.
    pub(super) async fn retry(&self, request: pb::RetryMessagesRequest) -> Result<pb::RetryMessagesResponse, Status> {
        let pb::RetryMessagesRequest { selection, dry_run, include_outcome_unknown } = request;
        let mut selected = Selected::read(selection, delivery::Status::is_failed)?;
        let retry = Retry { include_outcome_unknown, longest_wait: self.backend.longest_wait, dry_run };
        let mut count = 0;
        while let Some(ids) = self.next_of(&mut selected).await? {
            let lanes = self.backend.outbox.retry(&ids, retry).await.map_err(|error| status::outbox(&error))?;
            count += lanes.iter().map(|(_, count)| count).sum::<u64>();
            if !dry_run {
                let now = self.backend.outbox.clock().now();
                lanes.iter().for_each(|(lane, _)| self.backend.wake.accepted(*lane, now));
            }
        }
        if !dry_run {
            tracing::info!(count, include_outcome_unknown, "messages are tried again");
        }
        Ok(pb::RetryMessagesResponse { count })
    }

    /// Calls messages off, or counts them.
    pub(super) async fn cancel(
        &self,
        request: pb::CancelMessagesRequest,
    ) -> Result<pb::CancelMessagesResponse, Status> {
        let pb::CancelMessagesRequest { selection, dry_run } = request;
        let mut selected = Selected::read(selection, |status| !status.is_finished())?;
        let mut response = pb::CancelMessagesResponse::default();
        while let Some(ids) = self.next_of(&mut selected).await? {
            let outbox = &self.backend.outbox;
            let called_off = if dry_run { outbox.would_call_off(&ids).await } else { outbox.call_off(&ids).await };
            for standing in called_off.map_err(|error| status::outbox(&error))? {
                response.count += 1;
                response.may_have_been_sent += u64::from(standing != delivery::Status::Canceled);
            }
        }
        if !dry_run {
            tracing::info!(count = response.count, "messages were called off");
        }
        Ok(response)
    }

    /// The next of them; `None` at the end.
    async fn next_of(&self, selected: &mut Selected) -> Result<Option<Vec<MessageId>>, Status> {
        match std::mem::replace(selected, Selected::Nothing) {
            Selected::Nothing => Ok(None),
            Selected::Ids(ids) => Ok(Some(ids)),
            Selected::Matching { filter, from } => {
                let page = self.backend.outbox.list(&filter, from, BATCH).await;
                let page = page.map_err(|error| status::outbox(&error))?;
                if page.next.is_some() {
                    *selected = Selected::Matching { filter, from: page.next };
                }
                Ok(Some(page.messages.into_iter().map(|message| message.id).collect()))
            }
        }
    }
}

impl Selected {
    /// Reads a selection. Of what matches a filter only those are gone through that may be `concerned`.
    fn read(selection: Option<pb::MessageSelection>, concerned: fn(delivery::Status) -> bool) -> Result<Self, Status> {
        match selection.and_then(|selection| selection.selection) {
            None => Err(status::invalid_field("selection", "names neither ids nor a filter")),
            Some(Selection::Ids(pb::MessageIds { message_ids })) => read_ids(&message_ids).map(Self::Ids),
            Some(Selection::Filter(filter)) => {
                let mut filter = filter::read("selection.filter", Some(filter))?;
                let is_wanted = |status: &delivery::Status| {
                    concerned(*status) && (filter.statuses.is_empty() || filter.statuses.contains(status))
                };
                let statuses: Vec<_> = delivery::Status::ALL.into_iter().filter(is_wanted).collect();
                if statuses.is_empty() {
                    return Ok(Self::Nothing);
                }
                filter.statuses = statuses;
                Ok(Self::Matching { filter, from: None })
            }
        }
    }
}

fn read_ids(message_ids: &[String]) -> Result<Vec<MessageId>, Status> {
    check_count("selection.ids.message_ids", message_ids.len())?;
    let (mut ids, mut wrong) = (Vec::new(), Vec::new());
    for (nth, text) in message_ids.iter().enumerate() {
        match from_proto::message_id(text) {
            Ok(id) => ids.push(id),
            Err(error) => wrong.push(Violation {
                field: format!("selection.ids.message_ids[{nth}]"),
                description: format!("is {error}"),
            }),
        }
    }
    ids.sort_unstable();
    ids.dedup();
    if wrong.is_empty() { Ok(ids) } else { Err(status::invalid_request(wrong)) }
}
