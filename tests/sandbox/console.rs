//! The console, as a browser and as curl see it.

use postrider::sandbox::{
    Inbox,
    console::Console,
    http::{Fault, HttpOptions, HttpSink},
    smtp::{SmtpOptions, SmtpSink},
};
use reqwest::{StatusCode, header};
use serde_json::Value;

use super::http::{client, mail, post};

async fn sandbox() -> (Console, HttpSink, SmtpSink) {
    let inbox = Inbox::default();
    let options = HttpOptions { name: "gateway".into(), inbox: inbox.clone(), ..HttpOptions::default() };
    let http = HttpSink::start(options).await.expect("it starts");
    let options = SmtpOptions { name: "relay".into(), inbox: inbox.clone(), ..SmtpOptions::default() };
    let smtp = SmtpSink::start(options).await.expect("it starts");
    let console = Console::start(None, inbox, vec![http.switch(), smtp.switch()]).await.expect("it starts");
    (console, http, smtp)
}

#[tokio::test]
async fn mails_are_listed_and_shown_as_they_came() {
    let (console, http, _smtp) = sandbox().await;
    let client = client();
    let mut sent = mail("m1", &["a@example.org"]);
    sent["subject"] = "<script>alert(1)</script> {mails}".into();
    post(&client, &http, "k1", &sent).await.expect("kept");
    let get = |path: &str| client.get(format!("{}{path}", console.url())).send();

    let list: Value = get("inbox").await.expect("an answer").json().await.expect("JSON");
    assert_eq!((&list[0]["provider"], &list[0]["recipients"][0]), (&"gateway".into(), &"a@example.org".into()));
    let shown: Value = get("inbox/0").await.expect("an answer").json().await.expect("JSON");
    assert_eq!(shown, sent);
    assert_eq!(get("inbox/1").await.expect("an answer").status(), StatusCode::NOT_FOUND);
    let page = get("").await.expect("an answer").text().await.expect("text");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "subjects are escaped");
    assert!(page.contains("1 mails for 1 recipients") && page.contains("action=\"/faults/relay/silent%3Adot\""));
}

#[tokio::test]
async fn faults_are_switched_by_a_post_and_nothing_else() {
    let (console, http, smtp) = sandbox().await;
    let client = client();
    let url = |path: &str| format!("{}faults/{path}", console.url());
    let status = |request: reqwest::RequestBuilder| async { request.send().await.expect("an answer").status() };

    assert_eq!(status(client.post(url("gateway/status%3A503%3A9"))).await, StatusCode::OK, "redirected to the page");
    assert_eq!(http.fault(), Fault::Status { code: 503, retry_after: Some(9) });
    assert_eq!(status(client.post(url("relay/refuse"))).await, StatusCode::OK);
    tokio::net::TcpStream::connect(smtp.address()).await.expect_err("it refuses");
    assert_eq!(status(client.post(url("relay/none"))).await, StatusCode::OK);
    tokio::net::TcpStream::connect(smtp.address()).await.expect("it listens again");

    assert_eq!(status(client.get(url("gateway/none"))).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(status(client.post(url("gateway/nonsense"))).await, StatusCode::BAD_REQUEST);
    assert_eq!(status(client.post(url("nobody/none"))).await, StatusCode::NOT_FOUND);
    assert_eq!(http.fault(), Fault::Status { code: 503, retry_after: Some(9) });
}

#[tokio::test]
async fn a_foreign_page_can_neither_read_the_inbox_nor_switch_faults() {
    let (console, http, _smtp) = sandbox().await;
    let client = client();
    let own = format!("http://{}", console.address());
    let switch = || client.post(format!("{own}/faults/gateway/silent"));
    let table = [
        (client.get(console.url()).header(header::HOST, "rebound.example"), StatusCode::FORBIDDEN),
        (client.get(console.url()).header(header::HOST, "localhost:1"), StatusCode::OK),
        (switch().header(header::ORIGIN, "http://evil.example"), StatusCode::FORBIDDEN),
        (switch().header(header::ORIGIN, "null"), StatusCode::FORBIDDEN),
    ];
    for (request, expected) in table {
        assert_eq!(request.send().await.expect("an answer").status(), expected);
    }
    assert_eq!(http.fault(), Fault::None);
    let response = switch().header(header::ORIGIN, &own).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(http.fault(), Fault::Silent);
}
