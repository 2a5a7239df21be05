//! `SendEmailBatch`.

use postrider::proto::v1::{
    BatchItemError, SendEmailBatchRequest, SendEmailRequest, SendEmailResponse, Status,
    email_service_client::EmailServiceClient, send_email_batch_result::Result as Item,
};
use prost_types::Timestamp;
use tonic::{Code, transport::Channel};

use super::{client, keyed, mailbox, refused, request, with_metadata, wrong_fields};
use crate::support::service::{service, service_with, service_without_database};

type Answer = Result<SendEmailResponse, Box<BatchItemError>>;

async fn send(client: &mut EmailServiceClient<Channel>, requests: Vec<SendEmailRequest>) -> Vec<Answer> {
    let count = requests.len();
    let sent = client.send_email_batch(SendEmailBatchRequest { requests }).await.expect("answered").into_inner();
    assert_eq!(sent.results.len(), count);
    let answer = |item| match item {
        Some(Item::Response(response)) => Ok(response),
        Some(Item::Error(error)) => Err(Box::new(error)),
        None => panic!("neither accepted nor refused"),
    };
    sent.results.into_iter().map(|item| answer(item.result)).collect()
}

fn to(address: &str) -> SendEmailRequest {
    let mut request = request();
    request.email.as_mut().expect("an email").to = vec![mailbox(address, "")];
    request
}

/// Requests that are refused, each for another reason, and the fields that are wrong.
fn mistakes() -> Vec<(SendEmailRequest, Vec<&'static str>)> {
    let past = Some(Timestamp { seconds: 1, nanos: 0 });
    vec![
        (SendEmailRequest::default(), vec!["email"]),
        (to("nobody"), vec!["email.to[0].address"]),
        (keyed(&"k".repeat(256)), vec!["idempotency_key"]),
        (
            SendEmailRequest { priority: 77, expire_at: past, ..to("nobody") },
            vec!["email.to[0].address", "expire_at", "priority"],
        ),
    ]
}

#[tokio::test]
async fn of_a_thousand_only_the_mistaken_are_refused() {
    let service = service().await;
    let mut client = client(&service).await;
    let mistakes = mistakes();
    let wrong = |nth: usize| (nth % 100 < mistakes.len()).then(|| &mistakes[nth % 100]);
    let requests = |nth: usize| wrong(nth).map_or_else(|| keyed(&format!("invoice-{nth}")), |(wrong, _)| wrong.clone());
    let answers = send(&mut client, (0..1_000).map(requests).collect()).await;
    for (nth, answer) in answers.iter().enumerate() {
        match (wrong(nth), answer) {
            (None, Ok(response)) => {
                assert_eq!((response.status(), response.deduplicated), (Status::NotYetSent, false), "{nth}");
                assert!(!response.message_id.is_empty(), "{nth}");
            }
            (Some((_, fields)), Err(error)) => {
                let named: Vec<&str> = error.field_violations.iter().map(|wrong| wrong.field.as_str()).collect();
                assert_eq!(named, *fields, "{nth}");
                assert_eq!((error.code, error.reason.as_str()), (Code::InvalidArgument as i32, "INVALID_REQUEST"));
            }
            (_, answer) => panic!("{nth}: {answer:?}"),
        }
    }
    assert_eq!(service.database.count("message").await, 1_000 - 10 * mistakes.len() as i64);

    // The whole once more, as after a lost answer.
    let again = send(&mut client, (0..1_000).map(requests).collect()).await;
    for (first, second) in answers.iter().zip(again) {
        match (first, second) {
            (Ok(first), Ok(second)) => {
                assert_eq!((&second.message_id, second.deduplicated), (&first.message_id, true));
            }
            (Err(first), Err(second)) => assert_eq!(*first, second),
            (first, second) => panic!("{first:?}, then {second:?}"),
        }
    }
    assert_eq!(service.database.count("message").await, 1_000 - 10 * mistakes.len() as i64);
    service.database.tally_is_exact().await;
}

#[tokio::test]
async fn an_item_has_the_error_that_its_call_would_have() {
    let service = service().await;
    let mut client = client(&service).await;
    let used = client.send_email(keyed("invoice-1")).await.expect("accepted").into_inner().message_id;
    let mut requests: Vec<SendEmailRequest> = mistakes().into_iter().map(|(request, _)| request).collect();
    requests.push(SendEmailRequest { idempotency_key: "invoice-1".into(), ..to("grace@example.com") });
    let answers = send(&mut client, requests.clone()).await;
    for (request, answer) in requests.into_iter().zip(answers) {
        let single = client.send_email(request).await.expect_err("refused");
        let item = answer.expect_err("refused");
        assert_eq!((item.code, item.message.as_str()), (single.code() as i32, single.message()));
        match single.code() {
            Code::AlreadyExists => {
                refused(&single, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED");
                assert_eq!((item.reason.as_str(), &item.message_id), ("IDEMPOTENCY_KEY_REUSED", &used));
            }
            _ => {
                let named: Vec<String> = item.field_violations.into_iter().map(|wrong| wrong.field).collect();
                assert_eq!(named, wrong_fields(&single));
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_repeats_within_a_batch_stands_for_the_first_that_can_be_accepted() {
    let service = service().await;
    let mut client = client(&service).await;
    let other = SendEmailRequest { idempotency_key: "k".into(), ..to("grace@example.com") };
    let mistaken = SendEmailRequest { idempotency_key: "k".into(), ..to("nobody") };
    let same_by_another = SendEmailRequest { correlation_id: "another job".into(), ..keyed("k") };
    let requests = vec![mistaken, keyed("k"), same_by_another, other, keyed("k"), request(), request(), keyed("l")];
    let answers = send(&mut client, requests).await;

    let accepted = |nth: usize| answers[nth].as_ref().unwrap_or_else(|error| panic!("{nth}: {error:?}"));
    let first = accepted(1);
    assert!(!first.deduplicated);
    for repeat in [accepted(2), accepted(4)] {
        assert_eq!((&repeat.message_id, repeat.deduplicated), (&first.message_id, true));
    }
    assert_eq!(answers[0].as_ref().expect_err("mistaken").reason, "INVALID_REQUEST");
    let reused = answers[3].as_ref().expect_err("the key is taken");
    assert_eq!((reused.code, &reused.message_id), (Code::AlreadyExists as i32, &first.message_id));
    assert_ne!(accepted(5).message_id, accepted(6).message_id, "without a key each is a message");
    assert_eq!(service.database.count("message").await, 4);
}

#[tokio::test]
async fn a_thousand_with_one_key_are_one_message() {
    let service = service().await;
    let answers = send(&mut client(&service).await, vec![keyed("k"); 1_000]).await;
    let ids: std::collections::BTreeSet<String> =
        answers.iter().map(|answer| answer.as_ref().expect("accepted").message_id.clone()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(service.database.count("message").await, 1);
}

#[tokio::test]
async fn what_is_only_to_be_checked_is_not_stored() {
    let service = service().await;
    let mut client = client(&service).await;
    let sent = client.send_email(keyed("used")).await.expect("accepted").into_inner().message_id;
    let check = |request: SendEmailRequest| SendEmailRequest { validate_only: true, ..request };
    let other = SendEmailRequest { idempotency_key: "used".into(), ..to("grace@example.com") };
    let requests = vec![
        check(request()),
        check(to("nobody")),
        check(keyed("used")),
        check(other),
        check(keyed("free")),
        request(),
    ];
    let answers = send(&mut client, requests).await;
    let ids: Vec<Option<&str>> = answers.iter().map(|answer| Some(answer.as_ref().ok()?.message_id.as_str())).collect();
    assert_eq!(ids[..5], [Some(""), None, Some(sent.as_str()), None, Some("")]);
    assert!(ids[5].is_some_and(|id| !id.is_empty()), "the one beside them is sent");
    assert_eq!(answers[3].as_ref().expect_err("the key is taken").reason, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(service.database.count("message").await, 2);
}

#[tokio::test]
async fn a_batch_of_none_or_of_too_many_is_refused_as_a_whole() {
    let service = service().await;
    let mut client = client(&service).await;
    for count in [0, 1_001] {
        let requests = vec![request(); count];
        let status = client.send_email_batch(SendEmailBatchRequest { requests }).await.expect_err("refused");
        assert_eq!(wrong_fields(&status), ["requests"], "{count}");
    }
    let batch = SendEmailBatchRequest { requests: vec![request()] };
    let nobody = with_metadata(batch, &[("x-client-id", "a/b")]);
    let status = client.send_email_batch(nobody).await.expect_err("refused");
    assert_eq!(wrong_fields(&status), ["x-client-id"]);
    assert_eq!(service.database.count("message").await, 0);
}

#[tokio::test]
async fn keys_of_a_batch_belong_to_its_client() {
    let service = service().await;
    let mut client = client(&service).await;
    let mut ids = Vec::new();
    for name in ["orders", "billing"] {
        let batch = SendEmailBatchRequest { requests: vec![keyed("k"), keyed("k")] };
        let sent = client.send_email_batch(with_metadata(batch, &[("x-client-id", name)])).await.expect("answered");
        for result in sent.into_inner().results {
            let Some(Item::Response(response)) = result.result else { panic!("{name}: {result:?}") };
            ids.push(response.message_id);
        }
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[2], ids[3]);
    assert_ne!(ids[0], ids[2]);
}

#[tokio::test]
async fn more_than_may_wait_is_turned_away_each_by_itself() {
    let service = service_with(|settings| settings.server.waiting_bytes = 300_000).await;
    let large = |nth: usize| {
        let mut request = keyed(&format!("report-{nth}"));
        request.email.as_mut().expect("an email").text = "x".repeat(100_000);
        request
    };
    let mut client = client(&service).await;
    let answers = send(&mut client, (0..10).map(large).collect()).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(!accepted.is_empty() && !refused.is_empty(), "{} accepted, {} refused", accepted.len(), refused.len());
    for error in refused.into_iter().map(|refused| refused.expect_err("refused")) {
        assert_eq!((error.code, error.reason.as_str()), (Code::ResourceExhausted as i32, "OVERLOADED"));
        assert!(error.retry_delay.is_some());
    }
    assert_eq!(service.database.count("message").await, accepted.len() as i64);
}

#[tokio::test]
async fn without_the_database_each_says_so_and_what_is_wrong_still_says_what() {
    let service = service_without_database().await;
    let answers = send(&mut client(&service).await, vec![request(), to("nobody"), keyed("k"), keyed("k")]).await;
    let reasons: Vec<String> =
        answers.into_iter().map(|answer| answer.expect_err("nothing is stored").reason).collect();
    assert_eq!(reasons, ["DATABASE_UNAVAILABLE", "INVALID_REQUEST", "DATABASE_UNAVAILABLE", "DATABASE_UNAVAILABLE"]);
}
