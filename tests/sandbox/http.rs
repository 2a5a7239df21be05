//! The HTTP provider, spoken to with reqwest.

use std::{io, net::SocketAddr, time::Duration};

use postrider::sandbox::{
    AddressPattern,
    http::{Fault, HttpOptions, HttpSink},
};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const SOON: Duration = Duration::from_secs(10);

async fn sink() -> HttpSink {
    HttpSink::start(HttpOptions::default()).await.expect("it starts")
}

pub(super) fn client() -> Client {
    // Whoever comes first installs it.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().timeout(SOON).build().expect("a client")
}

pub(super) fn mail(id: &str, recipients: &[&str]) -> Value {
    let address = |address: &&str| json!({ "address": address });
    json!({
        "message_id": id,
        "internet_message_id": format!("<{id}@shop.example>"),
        "recipients": recipients.iter().enumerate()
            .map(|(index, address)| json!({ "index": index, "address": address })).collect::<Vec<_>>(),
        "from": { "address": "shop@shop.example", "name": "Shop" },
        "to": recipients.iter().map(address).collect::<Vec<_>>(),
        "subject": "Счёт",
        "text": "It is attached.",
        "attachments": [{ "filename": "a.pdf", "content_type": "application/pdf", "content": "JVBERi0=" }],
    })
}

pub(super) async fn post(client: &Client, sink: &HttpSink, key: &str, mail: &Value) -> reqwest::Result<Response> {
    client.post(sink.url()).header("Idempotency-Key", key).bearer_auth("secret").json(mail).send().await
}

async fn answer(response: reqwest::Result<Response>) -> (StatusCode, Value) {
    let response = response.expect("an answer");
    (response.status(), response.json().await.expect("JSON"))
}

#[tokio::test]
async fn a_mail_is_kept_as_it_came_and_a_repeat_gets_the_first_answer() {
    let (sink, client) = (sink().await, client());
    let mail = mail("m1", &["a@example.org", "b@example.org"]);
    let (status, first) = answer(post(&client, &sink, "k1", &mail).await).await;
    assert_eq!((status, &first["status"]), (StatusCode::OK, &json!("accepted")));
    let again = answer(post(&client, &sink, "k1", &mail).await).await;
    assert_eq!(again, (StatusCode::OK, first.clone()));

    let inbox = sink.inbox();
    let [kept] = &inbox.by_message_id("<m1@shop.example>")[..] else { panic!("one mail") };
    assert_eq!(kept.recipients, ["a@example.org", "b@example.org"]);
    assert_eq!((kept.subject.as_str(), kept.sender.as_str(), kept.repeats), ("Счёт", "shop@shop.example", 1));
    assert_eq!(kept.property("idempotency-key"), Some("k1"));
    assert_eq!(kept.property("authorization"), None, "credentials are not kept");
    let content: Value = serde_json::from_slice(kept.content.bytes().expect("kept")).expect("JSON");
    assert_eq!(content, mail);

    let (_, other) = answer(post(&client, &sink, "k2", &mail).await).await;
    assert_ne!(other["id"], first["id"]);
    assert_eq!((inbox.count(), inbox.counts().repeats), (2, 1));
}

#[tokio::test]
async fn what_is_no_mail_is_refused() {
    let (sink, client) = (sink().await, client());
    let send = |request: reqwest::RequestBuilder| async { request.send().await.expect("an answer").status() };
    assert_eq!(send(client.get(sink.url())).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(send(client.post(sink.url()).body("{}")).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(send(client.post(sink.url()).json(&json!({}))).await, StatusCode::BAD_REQUEST);
    assert_eq!(send(client.post(sink.url()).json(&mail("m", &[]))).await, StatusCode::BAD_REQUEST);
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn a_large_mail_is_taken() {
    let (sink, client) = (sink().await, client());
    let mut mail = mail("m1", &["a@example.org"]);
    mail["attachments"][0]["content"] = "QUJD".repeat(5_000_000).into();
    assert_eq!(answer(post(&client, &sink, "k1", &mail).await).await.0, StatusCode::OK);
}

#[tokio::test]
async fn while_it_refuses_nobody_listens_and_afterwards_the_same_url_works() {
    let (sink, client) = (sink().await, client());
    let mail = mail("m1", &["a@example.org"]);
    answer(post(&client, &sink, "k1", &mail).await).await;
    sink.set_fault(Fault::Refuse).expect("closed");
    // A client of its own: one with an idle connection may try that before it learns that it was cut.
    let refused = post(&self::client(), &sink, "k2", &mail).await.expect_err("nobody is there");
    assert!(refused.is_connect(), "{refused:?}");
    let direct = TcpStream::connect(sink.address()).await.expect_err("nobody is there");
    assert_eq!(direct.kind(), io::ErrorKind::ConnectionRefused);
    sink.set_fault(Fault::None).expect("opened");
    assert_eq!(answer(post(&self::client(), &sink, "k2", &mail).await).await.0, StatusCode::OK);
    assert_eq!(sink.inbox().count(), 2);
}

#[tokio::test]
async fn a_status_is_answered_with_its_retry_after_and_nothing_is_kept() {
    let (sink, client) = (sink().await, client());
    let mail = mail("m1", &["a@example.org"]);
    let table = [
        (Fault::Status { code: 503, retry_after: Some(7) }, 503, Some("7")),
        (Fault::Status { code: 500, retry_after: None }, 500, None),
        (Fault::Throttle, 429, Some("1")),
    ];
    for (fault, status, retry_after) in table {
        sink.set_fault(fault).expect("switched");
        let response = post(&client, &sink, "k1", &mail).await.expect("an answer");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().get("retry-after").map(|value| value.to_str().expect("text")), retry_after);
    }
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn a_silent_provider_reads_and_never_answers() {
    let sink = sink().await;
    let impatient = Client::builder().timeout(Duration::from_millis(200)).build().expect("a client");
    sink.set_fault(Fault::Silent).expect("switched");
    let error = post(&impatient, &sink, "k1", &mail("m1", &["a@example.org"])).await.expect_err("no answer");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn a_late_answer_is_late_though_the_mail_is_there_at_once() {
    let sink = sink().await;
    sink.set_fault(Fault::Delay(Duration::from_secs(60))).expect("switched");
    let waiting = tokio::spawn({
        let (client, url) = (client(), sink.url());
        async move { client.post(url).json(&mail("m1", &["a@example.org"])).send().await }
    });
    sink.inbox().wait_until(|inbox| inbox.count() == 1, SOON).await.expect("kept at once");
    assert!(!waiting.is_finished());
    waiting.abort();

    sink.set_fault(Fault::Delay(Duration::from_millis(1))).expect("switched");
    assert_eq!(answer(post(&client(), &sink, "k2", &mail("m2", &["a@example.org"])).await).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_dropped_connection_leaves_the_mail_kept_and_a_repeat_recognised() {
    let (sink, client) = (sink().await, client());
    let mail = mail("m1", &["a@example.org"]);
    sink.set_fault(Fault::DropAfterAccept).expect("switched");
    let error = post(&client, &sink, "k1", &mail).await.expect_err("no answer");
    assert!(!error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!(sink.inbox().count(), 1);
    sink.set_fault(Fault::None).expect("switched");
    assert_eq!(answer(post(&client, &sink, "k1", &mail).await).await.0, StatusCode::OK);
    assert_eq!((sink.inbox().count(), sink.inbox().counts().repeats), (1, 1));
}

#[tokio::test]
async fn a_garbled_answer_is_a_success_that_tells_nothing() {
    let (sink, client) = (sink().await, client());
    sink.set_fault(Fault::Garble).expect("switched");
    let response = post(&client, &sink, "k1", &mail("m1", &["a@example.org"])).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    response.json::<Value>().await.expect_err("no JSON");
    assert_eq!(sink.inbox().count(), 1);
}

#[tokio::test]
async fn each_recipient_has_its_own_fate_under_a_key() {
    let (sink, client) = (sink().await, client());
    let everybody = mail("m1", &["a@example.org", "b@bad.example", "c@example.org"]);
    sink.set_fault(Fault::RejectRecipient(AddressPattern::new("*@bad.example"))).expect("switched");
    let (status, first) = answer(post(&client, &sink, "k1", &everybody).await).await;
    assert_eq!((status, &first["status"]), (StatusCode::OK, &json!("accepted")));
    let [rejected] = &first["recipients"].as_array().expect("named")[..] else { panic!("one: {first}") };
    assert_eq!((&rejected["index"], &rejected["status"]), (&json!(1), &json!("rejected")));
    assert_eq!(sink.inbox().all()[0].recipients, ["a@example.org", "c@example.org"]);

    // The rejection stands for that key, whatever comes later.
    sink.set_fault(Fault::None).expect("switched");
    assert_eq!(answer(post(&client, &sink, "k1", &everybody).await).await.1, first);
    let nobody = mail("m2", &["b@bad.example"]);
    sink.set_fault(Fault::RejectRecipient(AddressPattern::new("*@bad.example"))).expect("switched");
    let (status, refused) = answer(post(&client, &sink, "k2", &nobody).await).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused["recipients"][0]["status"], "rejected");
    assert_eq!(sink.inbox().count(), 1);
}

#[tokio::test]
async fn a_deferred_recipient_stays_open_under_the_key() {
    let (sink, client) = (sink().await, client());
    sink.set_fault(Fault::DeferRecipient(AddressPattern::new("*@slow.example"))).expect("switched");
    let both = mail("m1", &["a@example.org", "b@slow.example"]);
    let (_, first) = answer(post(&client, &sink, "k1", &both).await).await;
    assert_eq!(first["recipients"][0]["status"], "deferred");
    let remainder = json!([{ "index": 1, "address": "b@slow.example" }]);
    let mut rest = both.clone();
    rest["recipients"] = remainder;
    let (status, still) = answer(post(&client, &sink, "k1", &rest).await).await;
    assert_eq!((status, &still["recipients"][0]["status"]), (StatusCode::OK, &json!("deferred")));

    sink.set_fault(Fault::None).expect("switched");
    let (_, last) = answer(post(&client, &sink, "k1", &rest).await).await;
    assert_eq!((&last["status"], &last["id"]), (&json!("accepted"), &first["id"]));
    let inbox = sink.inbox();
    assert_eq!(inbox.by_recipient("b@slow.example").len(), 1);
    assert_eq!(inbox.by_recipient("a@example.org").len(), 1);
    assert_eq!(inbox.counts().repeats, 0);
}

#[tokio::test]
async fn the_same_key_many_times_at_once_is_one_mail() {
    let (sink, client) = (sink().await, client());
    let mail = mail("m1", &["a@example.org"]);
    let posts = (0..32).map(|_| async { answer(post(&client, &sink, "k1", &mail).await).await.1 });
    let answers = futures_util::future::join_all(posts).await;
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!((sink.inbox().count(), sink.inbox().counts().repeats), (1, 31));
}

#[tokio::test]
async fn open_connections_end_when_they_are_cut_and_when_it_is_dropped() {
    let sink = sink().await;
    let address = sink.address();
    let mut idle = open(address, &sink).await;
    sink.cut_connections();
    ends(&mut idle).await;
    let mut idle = open(address, &sink).await;
    drop(sink);
    ends(&mut idle).await;
    TcpStream::connect(address).await.expect_err("it is gone");
}

/// A connection that has had an answer, so that the server surely knows it.
async fn open(address: SocketAddr, sink: &HttpSink) -> TcpStream {
    let before = sink.connections();
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    assert_ne!(stream.read(&mut [0; 1024]).await.expect("an answer"), 0);
    assert_eq!(sink.connections(), before + 1);
    stream
}

async fn ends(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.expect("it is cut");
    // Closed in order or reset: both are an end.
    drop(ended);
}
