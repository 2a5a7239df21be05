//! `SendEmail`: acceptance and repeats.

use std::time::{Duration, SystemTime};

use postrider::proto::v1::{GetStatusRequest, SendEmailRequest, Status};
use tonic::Code;

use super::{client, keyed, mailbox, refused, request, with_metadata, wrong_fields};
use crate::support::service::{service, service_with};

#[tokio::test]
async fn an_accepted_email_is_found_by_its_id() {
    let service = service().await;
    let mut client = client(&service).await;
    let sent = client.send_email(request()).await.expect("accepted").into_inner();
    assert_eq!((sent.status(), sent.deduplicated), (Status::NotYetSent, false));
    let id = uuid::Uuid::parse_str(&sent.message_id).expect("a UUID");
    assert_eq!(id.get_version_num(), 7);

    let found = client.get_status(GetStatusRequest { message_id: sent.message_id.clone() }).await.expect("found");
    assert_eq!(found.into_inner().message_id, sent.message_id);
}

#[tokio::test]
async fn the_dispatcher_is_woken_once_the_message_is_committed() {
    let service = service().await;
    client(&service).await.send_email(request()).await.expect("accepted");
    tokio::time::timeout(Duration::from_secs(10), service.wake.rung()).await.expect("woken");
}

#[tokio::test]
async fn without_a_key_every_call_is_a_new_message() {
    let service = service().await;
    let mut client = client(&service).await;
    let first = client.send_email(request()).await.expect("accepted").into_inner();
    let second = client.send_email(request()).await.expect("accepted").into_inner();
    assert_ne!(first.message_id, second.message_id);
}

#[tokio::test]
async fn the_same_key_with_the_same_request_gives_the_same_message() {
    let service = service().await;
    let mut client = client(&service).await;
    let first = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner();
    let repeat = SendEmailRequest { correlation_id: "another job".into(), ..keyed("invoice-1") };
    let second = client.send_email(repeat).await.expect("accepted").into_inner();
    assert_eq!(second.message_id, first.message_id);
    assert_eq!((first.deduplicated, second.deduplicated), (false, true));
}

#[tokio::test]
async fn concurrent_calls_with_one_key_become_one_message() {
    let service = service().await;
    let client = client(&service).await;
    let calls = (0..64).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner() })
    });
    let answers = futures_util::future::join_all(calls.collect::<Vec<_>>()).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("answered")).collect();
    assert!(answers.iter().all(|answer| answer.message_id == answers[0].message_id));
    assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1);
    assert_eq!(service.database.count("message").await, 1);
}

#[tokio::test]
async fn a_key_used_for_another_request_is_refused() {
    let service = service().await;
    let mut client = client(&service).await;
    let first = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner();
    let mut other = keyed("invoice-1");
    other.email.as_mut().expect("an email").subject = "Invoice 4712".into();
    let status = client.send_email(other).await.expect_err("refused");
    let details = refused(&status, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(details.resource_info().expect("ResourceInfo").resource_name, first.message_id);
}

#[tokio::test]
async fn keys_belong_to_their_client() {
    let service = service().await;
    let mut client = client(&service).await;
    let orders = with_metadata(keyed("invoice-1"), &[("x-client-id", "orders")]);
    let billing = with_metadata(keyed("invoice-1"), &[("x-client-id", "billing")]);
    let first = client.send_email(orders).await.expect("accepted").into_inner();
    let second = client.send_email(billing).await.expect("accepted").into_inner();
    assert_ne!(first.message_id, second.message_id);
    assert!(!second.deduplicated);
}

#[tokio::test]
async fn a_repeat_is_answered_after_its_expiry() {
    let service = service().await;
    let mut client = client(&service).await;
    let expire_at = SystemTime::now() + Duration::from_secs(1);
    let first = SendEmailRequest { expire_at: Some(expire_at.into()), ..keyed("code-1") };
    let accepted = client.send_email(first.clone()).await.expect("accepted").into_inner();

    // The time has passed once the same request without a key is refused.
    let unkeyed = SendEmailRequest { idempotency_key: String::new(), validate_only: true, ..first.clone() };
    let passed = async {
        loop {
            if let Err(status) = client.clone().send_email(unkeyed.clone()).await {
                break status;
            }
        }
    };
    let status = tokio::time::timeout(Duration::from_secs(30), passed).await.expect("the time passes");
    assert_eq!(wrong_fields(&status), ["expire_at"]);

    let repeat = client.send_email(first).await.expect("accepted before").into_inner();
    assert_eq!((repeat.message_id, repeat.deduplicated), (accepted.message_id, true));
}

#[tokio::test]
async fn a_repeat_is_answered_though_the_settings_would_refuse_it_today() {
    let service = service().await;
    let mut two = keyed("invoice-1");
    two.email.as_mut().expect("an email").to.push(mailbox("bob@example.com", ""));
    let first = client(&service).await.send_email(two.clone()).await.expect("accepted").into_inner();

    let stricter = service.beside(|settings| settings.policy.max_recipients = 1).await;
    let mut client = client(&stricter).await;
    let repeat = client.send_email(two.clone()).await.expect("accepted before").into_inner();
    assert_eq!((repeat.message_id, repeat.deduplicated), (first.message_id, true));

    two.idempotency_key = "invoice-2".into();
    assert!(!wrong_fields(&client.send_email(two).await.expect_err("refused")).is_empty());
}

#[tokio::test]
async fn validating_stores_nothing() {
    let service = service().await;
    let mut client = client(&service).await;
    let check = SendEmailRequest { validate_only: true, ..keyed("invoice-1") };
    let checked = client.send_email(check.clone()).await.expect("valid").into_inner();
    assert_eq!((checked.message_id.as_str(), checked.status()), ("", Status::NotYetSent));

    let sent = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner();
    assert!(!sent.deduplicated, "the key is still new");
    let checked = client.send_email(check.clone()).await.expect("valid").into_inner();
    assert_eq!((checked.message_id, checked.deduplicated), (sent.message_id, true));

    let mut other = check;
    other.email.as_mut().expect("an email").text = "Something else.".into();
    let status = client.send_email(other).await.expect_err("refused");
    refused(&status, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_commit_outlives_the_deadline_of_its_call() {
    let service = service_with(|settings| settings.server.call_timeout = Duration::from_millis(300)).await;
    let mut client = client(&service).await;
    let held = service.hold_commits().await;
    let status = client.send_email(keyed("invoice-1")).await.expect_err("too slow");
    refused(&status, Code::DeadlineExceeded, "DEADLINE_PASSED");
    drop(held);

    tokio::time::timeout(Duration::from_secs(10), service.wake.rung()).await.expect("committed");
    let repeat = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner();
    assert!(repeat.deduplicated);
}

#[tokio::test]
async fn a_commit_outlives_its_caller() {
    let service = service().await;
    let held = service.hold_commits().await;
    let mut client = client(&service).await;
    let mut leaving = client.clone();
    let call = tokio::spawn(async move { leaving.send_email(keyed("invoice-1")).await });
    service.commit_held().await;
    call.abort();
    assert!(call.await.expect_err("the caller has gone").is_cancelled());
    // On the same connection, so the server hears of it after the end of the first call.
    client.get_status(GetStatusRequest::default()).await.expect_err("not an id");
    drop(held);

    tokio::time::timeout(Duration::from_secs(10), service.wake.rung()).await.expect("committed");
    let repeat = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner();
    assert!(repeat.deduplicated);
}
