//! Mailgun: what it is told, and what its answers come to.

use mail_parser::{MessageParser, MimeHeaders};
use postrider::{
    config::{ApiService, MailgunRegion},
    message::{Message, mime},
};
use serde_json::json;

use super::{
    Behaviour, HttpPeer, JSON, Received, Subject, Way, all_recipients, api, build, carried_by_all, response, sent,
    submission, summary, to_one,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::message as everything;

pub const SUBJECT: Subject = Subject {
    kind: "mailgun",
    settings: |way: &Way| api(ApiService::mailgun(), way),
    accept: || response(200, JSON, r#"{"id":"id-1","message":"Queued. Thank you."}"#),
    accept_status: 200,
    refuse: || response(400, JSON, &refusal("from parameter is not a valid address")),
    bad_credentials: || response(401, "content-type: text/plain\r\n", "Forbidden"),
    throttle_body: r#"{"message":"Too many requests"}"#,
};

fn refusal(message: &str) -> String {
    json!({"message": message}).to_string()
}

/// The fields of the form, in their order, read by a parser that no one here wrote.
fn fields(request: &Received) -> Vec<(String, String)> {
    let mut mail = format!("Content-Type: {}\r\n\r\n", request.header("content-type").unwrap()).into_bytes();
    mail.extend_from_slice(&request.body);
    let form = MessageParser::default().parse(&mail).unwrap();
    let part = |part: &mail_parser::MessagePart<'_>| {
        let name = part.content_disposition()?.attribute("name")?.to_owned();
        // A part that is a message was parsed too: its bytes are taken from the whole.
        let bytes = &form.raw_message[part.raw_body_offset() as usize..part.raw_end_offset() as usize];
        Some((name, String::from_utf8(bytes.to_vec()).unwrap().trim_end_matches("\r\n").to_owned()))
    };
    form.parts.iter().filter_map(part).collect()
}

fn of<'a>(fields: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it() {
    // It carries everything that SMTP carries, two headers of one name among it.
    let mut message = everything();
    message.email.tags = ["invoice", "счёт"].map(str::to_owned).to_vec();
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /v3/shop.example/messages.mime HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Basic YXBpOmszeQ=="));

    let (fields, id) = (fields(&request), message.id.to_string());
    let to = ["anna@example.com", "boris@xn--e1afmkfd.xn--p1ai", "vera@example.com", "archive@shop.example"];
    assert_eq!(of(&fields, "to"), to);
    assert_eq!(of(&fields, "v:postrider_id"), [id.as_str()]);
    assert_eq!(of(&fields, "o:tag"), ["invoice", "____"]);
    let content = String::from_utf8(mime::render(&message).unwrap()).unwrap();
    assert!(of(&fields, "message") == [content.trim_end_matches("\r\n")], "the MIME is not the one of SMTP");
    assert!(!content.contains("archive@shop.example"), "a blind copy is shown");
    assert_eq!(fields.len(), 8);
}

#[tokio::test]
async fn only_the_open_recipients_are_in_the_envelope() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((SUBJECT.accept)())]).await;
    let outcome = build(&(SUBJECT.settings)(&Way::to(&peer.base()))).send(submission(carried_by_all(), &[3, 1])).await;
    assert_eq!(summary(&outcome), "ACCEPTED ACCEPTED / healthy");
    assert_eq!(of(&fields(&peer.request().await), "to"), ["archive@shop.example", "boris@example.com"]);
}

#[tokio::test]
async fn the_domain_is_that_of_the_settings_or_else_that_of_the_sender() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((SUBJECT.accept)())]).await;
    let service = ApiService::Mailgun { region: MailgunRegion::Eu, domain: Some("mg.shop.example".to_owned()) };
    let account = build(&api(service, &Way::to(&format!("{}/relay/", peer.base()))));
    account.send(submission(to_one(), &[0])).await;
    assert_eq!(peer.request().await.line, "POST /relay/v3/mg.shop.example/messages.mime HTTP/1.1");
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let to = refusal("'to' parameter is not a valid address. please check documentation");
    let sandbox = refusal("Sandbox subdomains are for test purposes only. Please add your own domain");
    let inactive = refusal("Domain shop.example is not activated. Please activate your account.");
    let quota = refusal("Recipient limit exceeded, try again after Tue, 01 Dec 2026 12:01:00 UTC");
    let size = refusal("The total size of o:, h:, v: parameters exceeds 16kB");
    assert_verdicts(
        &SUBJECT,
        &[
            (200, JSON, r#"{"id":"<a@b>","message":"Queued. Thank you."}"#, "ACCEPTED RECIPIENT 200 / healthy"),
            (200, JSON, r#"{"message":"Queued. Thank you."}"#, "ACCEPTED RECIPIENT 200 / healthy"),
            (200, JSON, &refusal("Something else"), "OUTCOME_UNKNOWN WIRE 200 / failing"),
            (200, "", "Mailgun Magnificent API", "MISCONFIGURED PROVIDER 200 / misconfigured"),
            (200, JSON, r#""Mailgun Magnificent API""#, "MISCONFIGURED PROVIDER 200 / misconfigured"),
            (401, "", "Forbidden", "MISCONFIGURED ACCOUNT 401 / misconfigured"),
            (401, "content-type: text/html\r\n", "Forbidden", "MISCONFIGURED ACCOUNT 401 / misconfigured"),
            (403, JSON, &refusal("forbidden"), "MISCONFIGURED ACCOUNT 403 / misconfigured"),
            (403, JSON, &sandbox, "MISCONFIGURED ACCOUNT 403 / misconfigured"),
            (400, JSON, &inactive, "MISCONFIGURED ACCOUNT 400 / misconfigured"),
            (
                404,
                JSON,
                &refusal("Domain not found: shop.example"),
                "MISCONFIGURED SENDER_DOMAIN 404 / misconfigured for domain",
            ),
            (404, "", "404 page not found", "MISCONFIGURED PROVIDER 404 / misconfigured"),
            (
                420,
                "content-type: application/json\r\ndate: Tue, 01 Dec 2026 12:00:00 GMT\r\n",
                &quota,
                "QUOTA_USED_UP ACCOUNT 420 / resting 60s",
            ),
            (420, JSON, &refusal("limit exceeded"), "QUOTA_USED_UP ACCOUNT 420 / resting"),
            (402, JSON, &refusal("payment required"), "QUOTA_USED_UP ACCOUNT 402 / resting"),
            (429, JSON, SUBJECT.throttle_body, "THROTTLED PROVIDER 429 / resting"),
            (400, JSON, &to, "RECIPIENT_REJECTED RECIPIENT 400 / healthy"),
            (400, JSON, &size, "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy"),
            (413, "", "Request Entity Too Large", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
            (400, JSON, &refusal("from parameter is missing"), "MESSAGE_REJECTED MESSAGE 400 / healthy"),
            (400, "", "bad request", "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy"),
            (500, JSON, &refusal("internal error"), "UNAVAILABLE PROVIDER 500 / failing"),
        ],
    )
    .await;
    assert_verdicts_under_hold(
        &SUBJECT,
        &[(500, JSON, &refusal("internal error"), "OUTCOME_UNKNOWN WIRE 500 / failing")],
    )
    .await;
}

#[tokio::test]
async fn one_bad_address_fails_all_and_finishes_only_the_one_that_is_named() {
    let to = refusal("'to' parameter is not a valid address. please check documentation");
    let named = refusal("'to' parameter is not a valid address: boris@example.com");
    let message: Message = carried_by_all();
    assert_eq!(all_recipients(&message).len(), 4);
    assert_verdicts_for(
        &SUBJECT,
        &message,
        &[
            (400, JSON, &to, "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
            (400, JSON, &named, "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy"),
        ],
    )
    .await;
}
