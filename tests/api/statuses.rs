//! `BatchGetStatus`.

use std::time::Duration;

use postrider::{
    message::MessageId,
    proto::v1::{
        BatchGetStatusRequest, GetStatusRequest, SendEmailBatchRequest, send_email_batch_result::Result as Item,
    },
};
use tonic::Code;

use super::{client, refused, request, with_metadata, wrong_fields};
use crate::support::{
    service::{Service, service, service_without_database},
    statements::StatementCounter,
};

async fn send(service: &Service, count: usize) -> Vec<String> {
    let batch = SendEmailBatchRequest { requests: vec![request(); count] };
    let sent = client(service).await.send_email_batch(batch).await.expect("answered").into_inner();
    let id = |item| match item {
        Some(Item::Response(response)) => response.message_id,
        other => panic!("{other:?}"),
    };
    sent.results.into_iter().map(|result| id(result.result)).collect()
}

#[tokio::test]
async fn a_thousand_are_told_by_one_statement_in_the_order_asked_for() {
    let service = service().await;
    let mut ids = send(&service, 1_000).await;
    ids.reverse();
    let statements = StatementCounter::start();
    let mut client = client(&service).await;
    let asked = BatchGetStatusRequest { message_ids: ids.clone() };
    let told = client.batch_get_status(asked).await.expect("answered").into_inner();
    assert_eq!(statements.take(), 1);
    let found: Vec<&String> = told.messages.iter().map(|message| &message.message_id).collect();
    assert!(found.into_iter().eq(&ids));
    assert_eq!((told.not_found.len(), told.errors.len()), (0, 0));
    let single = client.get_status(GetStatusRequest { message_id: ids[0].clone() }).await.expect("found").into_inner();
    assert_eq!(told.messages[0], single);
}

#[tokio::test]
async fn each_that_is_not_told_says_why() {
    let service = service().await;
    let ours = send(&service, 1).await.remove(0);
    let mut client = client(&service).await;
    let theirs = with_metadata(request(), &[("x-client-id", "orders")]);
    let theirs = client.send_email(theirs).await.expect("accepted").into_inner().message_id;
    let days = |days: u32| time::OffsetDateTime::now_utc() - days * Duration::from_secs(24 * 60 * 60);
    let (unknown, old) = (MessageId::new_at(days(1)).to_string(), MessageId::new_at(days(9)).to_string());
    let message_ids = vec![
        "nonsense".to_owned(),
        theirs.clone(),
        ours.clone(),
        unknown.clone(),
        ours.to_uppercase(),
        old.clone(),
        ours.clone(),
        unknown.clone(),
    ];
    let told = client.batch_get_status(BatchGetStatusRequest { message_ids }).await.expect("answered").into_inner();
    let found: Vec<&String> = told.messages.iter().map(|message| &message.message_id).collect();
    assert_eq!(found, [&ours], "once, however often and in whichever letters it is asked for");
    assert_eq!(told.messages[0].recipients.len(), 1);
    assert_eq!(told.not_found, [theirs.clone(), unknown.clone(), old.clone()]);
    let errors: Vec<(&str, i32, &str)> = told
        .errors
        .iter()
        .map(|error| (error.message_id.as_str(), error.error.as_ref().expect("an error")))
        .map(|(id, error)| (id, error.code, error.reason.as_str()))
        .collect();
    let not_found = Code::NotFound as i32;
    let expected = [
        ("nonsense", Code::InvalidArgument as i32, "INVALID_REQUEST"),
        (theirs.as_str(), not_found, "MESSAGE_NOT_FOUND"),
        (unknown.as_str(), not_found, "MESSAGE_NOT_FOUND"),
        (old.as_str(), not_found, "RETENTION_PASSED"),
    ];
    assert_eq!(errors, expected);
}

#[tokio::test]
async fn a_list_of_none_or_of_too_many_is_refused() {
    let service = service().await;
    for count in [0, 1_001] {
        let asked = BatchGetStatusRequest { message_ids: vec!["x".into(); count] };
        let status = client(&service).await.batch_get_status(asked).await.expect_err("refused");
        assert_eq!(wrong_fields(&status), ["message_ids"], "{count}");
    }
}

#[tokio::test]
async fn without_the_database_nothing_is_told() {
    let service = service_without_database().await;
    let asked =
        BatchGetStatusRequest { message_ids: vec![MessageId::new_at(time::OffsetDateTime::now_utc()).to_string()] };
    let status = client(&service).await.batch_get_status(asked).await.expect_err("not told");
    refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
}
