//! `ListMessages` and `GetMessage`.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use postrider::{
    delivery::{Class, Next, ProviderName},
    message::{MessageId, RecipientIndex},
    outbox::{Settled, Settlement},
    proto::v1::{
        GetMessageRequest, ListMessagesRequest, MessageFilter, MessageSummary, OutcomeClass, Priority,
        SendEmailRequest, Status, UnknownOutcomePolicy, operator_service_client::OperatorServiceClient,
    },
};
use prost_types::Timestamp;
use tonic::{Code, transport::Channel};

use super::{client, mailbox, refused, request, with_metadata, wrong_fields};
use crate::{
    outbox::{attempt, claim, settlement},
    support::service::{Service, service, service_without_database},
};

pub async fn operator(service: &Service) -> OperatorServiceClient<Channel> {
    OperatorServiceClient::new(service.channel().await)
}

pub async fn send(service: &Service, request: SendEmailRequest) -> String {
    client(service).await.send_email(request).await.expect("accepted").into_inner().message_id
}

/// Sends what waits once, with that outcome of that provider; `next`: what follows, if not what usually does.
pub async fn round(service: &Service, provider: &str, class: Class, next: Option<Next>) {
    let outbox = &service.database.outbox;
    let claimed = claim(outbox, 1).await.remove(0);
    let usual = settlement(&claimed, 1, vec![attempt(provider, &[class])]);
    let settlement = match next {
        Some(next) => Settlement { next, ..usual },
        None => usual,
    };
    assert_eq!(outbox.settle(&[settlement]).await.expect("settled"), [Settled::Done]);
}

/// Left to a person with that status.
pub fn person(status: postrider::delivery::Status) -> Option<Next> {
    Some(Next::Person { status, open: vec![RecipientIndex(0)] })
}

async fn page(service: &Service, filter: MessageFilter, page_size: i32, token: &str) -> (Vec<MessageSummary>, String) {
    let request = ListMessagesRequest { filter: Some(filter), page_size, page_token: token.to_owned() };
    let answer = operator(service).await.list_messages(request).await.expect("listed").into_inner();
    (answer.messages, answer.next_page_token)
}

/// The ids of all that match, the newest first.
async fn listed(service: &Service, filter: MessageFilter) -> Vec<String> {
    let (messages, next) = page(service, filter, 1_000, "").await;
    assert_eq!(next, "", "there is no other page");
    messages.into_iter().map(|message| message.message_id).collect()
}

fn to(address: &str) -> SendEmailRequest {
    let mut request = request();
    request.email.as_mut().expect("an email").to = vec![mailbox(address, "")];
    request
}

fn with_tag(tag: &str) -> SendEmailRequest {
    let mut request = request();
    request.email.as_mut().expect("an email").tags = vec!["all".into(), tag.into()];
    request
}

fn with_document(document_type: &str) -> SendEmailRequest {
    let mut request = request();
    request.email.as_mut().expect("an email").document_type = document_type.into();
    request
}

#[tokio::test]
async fn each_filter_finds_what_it_names_and_nothing_else() {
    let service = service().await;
    let (refused, sent) = (send(&service, to("Anna@example.com")).await, send(&service, with_tag("one")).await);
    round(&service, "primary", Class::MessageRejected, None).await;
    round(&service, "backup", Class::Accepted, None).await;
    let orders = with_metadata(with_document("INVOICE"), &[("x-client-id", "orders")]);
    let theirs = client(&service).await.send_email(orders).await.expect("accepted").into_inner().message_id;
    let named = SendEmailRequest { correlation_id: "order-4711".into(), ..request() };
    let named = send(&service, named).await;

    let any = MessageFilter::default;
    let statuses = |statuses: &[Status]| statuses.iter().map(|&status| status.into()).collect();
    let filters = [
        (any(), vec![&named, &theirs, &sent, &refused]),
        (MessageFilter { statuses: statuses(&[Status::SuccessSent]), ..any() }, vec![&sent]),
        (MessageFilter { statuses: statuses(&[Status::FailedNotRetryable]), ..any() }, vec![&refused]),
        (MessageFilter { statuses: statuses(&[Status::NotYetSent]), ..any() }, vec![&named, &theirs]),
        (
            MessageFilter { statuses: statuses(&[Status::SuccessSent, Status::FailedNotRetryable]), ..any() },
            vec![&sent, &refused],
        ),
        (MessageFilter { statuses: statuses(&[Status::Canceled]), ..any() }, vec![]),
        (MessageFilter { client: "orders".into(), ..any() }, vec![&theirs]),
        (MessageFilter { provider: "primary".into(), ..any() }, vec![&refused]),
        (MessageFilter { provider: "backup".into(), ..any() }, vec![&sent]),
        (MessageFilter { recipient: "anna@EXAMPLE.com".into(), ..any() }, vec![&refused]),
        (MessageFilter { tag: "one".into(), ..any() }, vec![&sent]),
        (MessageFilter { correlation_id: "order-4711".into(), ..any() }, vec![&named]),
        (MessageFilter { document_type: "INVOICE".into(), ..any() }, vec![&theirs]),
        (MessageFilter { last_outcome: OutcomeClass::MessageRejected.into(), ..any() }, vec![&refused]),
        (MessageFilter { last_outcome: OutcomeClass::Accepted.into(), ..any() }, vec![&sent]),
        (MessageFilter { statuses: statuses(&[Status::NotYetSent]), client: "orders".into(), ..any() }, vec![&theirs]),
        (MessageFilter { tag: "one".into(), client: "orders".into(), ..any() }, vec![]),
    ];
    for (filter, expected) in filters {
        assert_eq!(listed(&service, filter.clone()).await.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
}

#[tokio::test]
async fn times_bound_a_list_to_the_microsecond() {
    let service = service().await;
    let ids = [send(&service, request()).await, send(&service, request()).await, send(&service, request()).await];
    let (messages, _) = page(&service, MessageFilter::default(), 10, "").await;
    let second = messages[1].accepted_at;
    let after = MessageFilter { accepted_after: second, ..Default::default() };
    let before = MessageFilter { accepted_before: second, ..Default::default() };
    assert_eq!(listed(&service, after).await, [ids[2].clone(), ids[1].clone()]);
    assert_eq!(listed(&service, before).await, [ids[0].clone()]);
    let long_ago = Timestamp::from(SystemTime::now() - Duration::from_secs(40 * 24 * 3600));
    let before = MessageFilter { accepted_before: Some(long_ago), ..Default::default() };
    assert!(listed(&service, before).await.is_empty());
}

#[tokio::test]
async fn a_line_says_where_a_message_stands() {
    let service = service().await;
    let id = send(&service, SendEmailRequest { correlation_id: "order-1".into(), ..with_document("INVOICE") }).await;
    for (outcome, class, status) in [
        (Class::Unavailable, OutcomeClass::Unavailable, Status::RequiredResend),
        (Class::Accepted, OutcomeClass::Accepted, Status::SuccessSent),
    ] {
        service.database.execute("update pending set due_at = now()").await;
        round(&service, "primary", outcome, None).await;
        let (messages, _) = page(&service, MessageFilter::default(), 10, "").await;
        let [message] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!((message.message_id.as_str(), message.client.as_str()), (id.as_str(), "default"));
        assert_eq!((message.status(), message.last_outcome()), (status, class));
        assert_eq!(
            (message.last_provider.as_str(), message.last_code.as_str()),
            ("primary", &*format!("code {outcome:?}"))
        );
        assert_eq!((message.correlation_id.as_str(), message.document_type.as_str()), ("order-1", "INVOICE"));
        assert_eq!(message.next_attempt_at.is_some(), status == Status::RequiredResend);
        assert_eq!(message.finished_at.is_some(), status == Status::SuccessSent);
        assert_eq!(message.attempts, if status == Status::SuccessSent { 2 } else { 1 });
    }
}

#[tokio::test]
async fn pages_stay_where_they_are_while_messages_come() {
    let service = service().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(send(&service, request()).await);
    }
    ids.reverse();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (messages, next) = page(&service, MessageFilter::default(), 3, &token).await;
        seen.extend(messages.into_iter().map(|message| message.message_id));
        if next.is_empty() {
            break;
        }
        send(&service, request()).await;
        token = next;
    }
    assert_eq!(seen, ids, "each once, and none that came later");
}

#[tokio::test]
async fn a_list_goes_over_days() {
    let service = service().await;
    let outbox = &service.database.outbox;
    let day = Duration::from_secs(24 * 3600);
    for days_ago in [1, 2] {
        outbox.clock().correct(-time::Duration::days(days_ago));
        outbox.ensure_days(0).await.expect("the day is made");
    }
    outbox.measure_clock().await.expect("the time of today");
    let mut ids = BTreeSet::new();
    for age in [Duration::ZERO, day, 2 * day] {
        let draft = crate::outbox::Draft { age, ..Default::default() };
        ids.extend(draft.accept(outbox, 2).await);
    }
    let newest_first: Vec<String> = ids.iter().rev().map(MessageId::to_string).collect();
    assert_eq!(listed(&service, MessageFilter::default()).await, newest_first);
    let waiting = MessageFilter { statuses: vec![Status::NotYetSent.into()], ..Default::default() };
    let (first, token) = page(&service, waiting.clone(), 3, "").await;
    let (second, end) = page(&service, waiting, 3, &token).await;
    let seen: Vec<String> = first.into_iter().chain(second).map(|message| message.message_id).collect();
    assert_eq!((seen, end.as_str()), (newest_first, ""));
}

#[tokio::test]
async fn a_token_of_another_list_and_what_is_none_are_refused() {
    let service = service().await;
    for _ in 0..2 {
        send(&service, request()).await;
    }
    let (_, token) = page(&service, MessageFilter::default(), 1, "").await;
    assert!(!token.is_empty());
    let other = MessageFilter { client: "orders".into(), ..Default::default() };
    let requests = [
        (ListMessagesRequest { page_token: "nonsense".into(), ..Default::default() }, "page_token"),
        (ListMessagesRequest { page_token: token, filter: Some(other), ..Default::default() }, "page_token"),
        (ListMessagesRequest { page_size: -1, ..Default::default() }, "page_size"),
    ];
    let mut operator = operator(&service).await;
    for (request, field) in requests {
        let status = operator.list_messages(request).await.expect_err("refused");
        assert_eq!(wrong_fields(&status), [field]);
    }
    let filter = MessageFilter {
        statuses: vec![77],
        client: "two words".into(),
        recipient: "nobody".into(),
        tag: "a\0b".into(),
        accepted_after: Some(Timestamp { seconds: i64::MAX, nanos: 0 }),
        last_outcome: -1,
        ..Default::default()
    };
    let request = ListMessagesRequest { filter: Some(filter), ..Default::default() };
    let status = operator.list_messages(request).await.expect_err("refused");
    let fields: BTreeSet<String> = wrong_fields(&status).into_iter().collect();
    let expected = ["statuses[0]", "client", "recipient", "tag", "accepted_after", "last_outcome"];
    assert_eq!(fields, expected.map(|name| format!("filter.{name}")).into());
}

#[tokio::test]
async fn a_message_is_told_whole() {
    let service = service().await;
    let mut request = SendEmailRequest {
        priority: Priority::High.into(),
        unknown_outcome_policy: UnknownOutcomePolicy::Hold.into(),
        correlation_id: "order-1".into(),
        ..with_tag("one")
    };
    let email = request.email.as_mut().expect("an email");
    email.bcc = vec![mailbox("archive@example.com", "")];
    email.metadata = [("order".to_owned(), "7".to_owned())].into();
    email.attachments = vec![postrider::proto::v1::Attachment {
        filename: "invoice.txt".into(),
        content_type: "text/plain".into(),
        content: "In full.".into(),
        content_id: String::new(),
    }];
    let id = send(&service, request.clone()).await;
    let claimed = claim(&service.database.outbox, 1).await.remove(0);
    let skip = postrider::delivery::Skip {
        provider: ProviderName::new("first"),
        reason: "circuit is open".into(),
        until: None,
    };
    let mut tried = attempt("primary", &[Class::MessageRejected, Class::MessageRejected]);
    tried.skipped = vec![skip];
    service.database.outbox.settle(&[settlement(&claimed, 2, vec![tried])]).await.expect("settled");

    let asked = GetMessageRequest { message_id: id.clone() };
    let told = operator(&service).await.get_message(asked).await.expect("found").into_inner();
    assert_eq!((told.client.as_str(), told.request.as_ref()), ("default", Some(&request)));
    let status = told.status.expect("a status");
    assert_eq!((status.message_id.as_str(), status.status()), (id.as_str(), Status::FailedNotRetryable));
    assert_eq!(status.events[0].skipped[0].reason, "circuit is open");
    let mime = String::from_utf8(told.mime.to_vec()).expect("ASCII");
    assert!(mime.contains(&format!("Message-ID: <{id}@example.com>\r\n")), "{mime}");
    assert!(!mime.contains("archive@example.com"), "{mime}");
    let message = service.database.outbox.contents(&[id.parse().expect("an id")]).await.expect("read").remove(0).1;
    assert_eq!(mime.as_bytes(), postrider::message::mime::render(&message.expect("whole")).expect("MIME"));
}

#[tokio::test]
async fn a_message_that_is_not_there_says_why() {
    let service = service().await;
    let mut operator = operator(&service).await;
    let get = |id: String| GetMessageRequest { message_id: id };
    let status = operator.get_message(get("nonsense".into())).await.expect_err("not an id");
    assert_eq!(wrong_fields(&status), ["message_id"]);
    let now = time::OffsetDateTime::now_utc();
    for (time, reason) in [(now, "MESSAGE_NOT_FOUND"), (now - Duration::from_secs(9 * 24 * 3600), "RETENTION_PASSED")] {
        let status = operator.get_message(get(MessageId::new_at(time).to_string())).await.expect_err("not there");
        refused(&status, Code::NotFound, reason);
    }
}

#[tokio::test]
async fn operators_are_told_when_the_database_is_away() {
    let service = service_without_database().await;
    let status = operator(&service).await.list_messages(ListMessagesRequest::default()).await.expect_err("away");
    refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
}
