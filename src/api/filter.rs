//! From protobuf to the domain: which messages are meant.
//!
//! Owns what only protobuf can get wrong, and that nothing is looked for that no message can have. Finds no message.

use tonic::Status;

use super::{
    caller::is_client_name,
    from_proto::{note, time, violation},
    status, to_proto,
};
use crate::{
    delivery::{self, Class, ProviderName},
    message::{ClientId, EmailAddress},
    outbox::Filter,
    policy::Violation,
    proto::v1 as pb,
};

/// The most characters of a word that is looked for: more than any message has of one.
const WORD_LIMIT: usize = 1_000;

/// Reads a filter; the fields are named as below that field.
pub(super) fn read(at: &str, filter: Option<pb::MessageFilter>) -> Result<Filter, Status> {
    let filter = filter.unwrap_or_default();
    let field = |name: &str| format!("{at}.{name}");
    let mut wrong = Vec::new();
    let statuses = filter.statuses.iter().enumerate().filter_map(|(nth, &value)| {
        read_status(value)
            .ok_or_else(|| no_value(&format!("{at}.statuses[{nth}]"), value))
            .map_or_else(|violation| note(&mut wrong, violation), Some)
    });
    let statuses = statuses.collect();
    if !filter.client.is_empty() && !is_client_name(&filter.client) {
        wrong.push(violation(&field("client"), "is not the name of a client"));
    }
    let recipient = text(filter.recipient).map(|recipient| EmailAddress::parse(&recipient));
    if let Some(Err(error)) = &recipient {
        wrong.push(violation(&field("recipient"), &error.to_string()));
    }
    for (name, word) in [
        ("provider", &filter.provider),
        ("tag", &filter.tag),
        ("correlation_id", &filter.correlation_id),
        ("document_type", &filter.document_type),
    ] {
        if word.len() > WORD_LIMIT || word.contains('\0') {
            wrong.push(violation(&field(name), "is nothing that a message could have"));
        }
    }
    let accepted_after = time(&field("accepted_after"), filter.accepted_after);
    let accepted_before = time(&field("accepted_before"), filter.accepted_before);
    let last_outcome = match filter.last_outcome {
        0 => None,
        value => read_class(value)
            .ok_or_else(|| no_value(&field("last_outcome"), value))
            .map_or_else(|violation| note(&mut wrong, violation), Some),
    };
    let read = Filter {
        statuses,
        client: text(filter.client).map(|name| ClientId::new(&name)),
        provider: text(filter.provider).map(|name| ProviderName::new(&name)),
        recipient: recipient.and_then(Result::ok).map(|address| address.as_str().to_owned()),
        tag: text(filter.tag),
        correlation_id: text(filter.correlation_id),
        document_type: text(filter.document_type),
        accepted_after: accepted_after.unwrap_or_else(|violation| note(&mut wrong, violation)),
        accepted_before: accepted_before.unwrap_or_else(|violation| note(&mut wrong, violation)),
        last_outcome,
    };
    if wrong.is_empty() { Ok(read) } else { Err(status::invalid_request(wrong)) }
}

fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn read_status(value: i32) -> Option<delivery::Status> {
    delivery::Status::ALL.into_iter().find(|&each| to_proto::status(each) as i32 == value)
}

fn read_class(value: i32) -> Option<Class> {
    Class::ALL.into_iter().find(|&each| to_proto::class(each) as i32 == value)
}

fn no_value(field: &str, value: i32) -> Violation {
    violation(field, &format!("has no value {value}"))
}
