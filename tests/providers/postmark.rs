//! Postmark: what it is told, and what its answers come to.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::{config::ApiService, message::Header};
use serde_json::json;

use super::{
    JSON, Subject, Way, api, carried_by_all, response, sent, take, to_one,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::{attachment, mailbox};

pub const SUBJECT: Subject = Subject {
    kind: "postmark",
    settings: |way: &Way| api(ApiService::Postmark { message_stream: Some("outbound".to_owned()) }, way),
    accept: || response(200, JSON, r#"{"To":"x","MessageID":"id-1","ErrorCode":0,"Message":"OK"}"#),
    accept_status: 200,
    refuse: || response(422, JSON, &refusal(300, "Provide either email TextBody or HtmlBody or both.")),
    bad_credentials: || response(401, JSON, &refusal(10, "The Server Token you provided is not valid.")),
    throttle_body: r#"{"ErrorCode":429,"Message":"rate limit exceeded"}"#,
};

fn refusal(code: u64, message: &str) -> String {
    json!({"ErrorCode": code, "Message": message}).to_string()
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it() {
    let mut message = carried_by_all();
    message.email.attachments.push(attachment("logo.png", "image/png", Some("logo"), b"\x89PNG".to_vec()));
    message.email.headers.push(Header { name: "References".to_owned(), value: "<a@b> <c@d>".to_owned() });
    message.email.headers.push(Header { name: "X-Note".to_owned(), value: "zwei €".to_owned() });
    message.email.to[0] = mailbox(Some("Петрова, Анна; \"А\""), "anna@example.com");
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /email HTTP/1.1");
    assert_eq!(request.header("x-postmark-server-token"), Some("k3y"));
    assert_eq!(request.header("accept"), Some("application/json"));

    let (mut json, id) = (request.json(), message.id.to_string());
    let files = take(&mut json, "Attachments");
    assert_eq!(
        json,
        json!({
            "From": "\"Магазин \\\"Ёж\\\"\" <billing@shop.example>",
            "To": "\"Петрова, Анна; \\\"А\\\"\" <anna@example.com>, boris@example.com",
            "Cc": "vera@example.com",
            "Bcc": "archive@shop.example",
            "ReplyTo": "help@shop.example",
            "Subject": "Счёт № 4711",
            "TextBody": "Во вложении.\r\n.\r\n",
            "HtmlBody": "<p>Во вложении</p><img src=\"cid:logo\">",
            "Headers": [
                {"Name": "X-Campaign", "Value": "one"},
                {"Name": "References", "Value": "<a@b> <c@d>"},
                {"Name": "X-Note", "Value": "=?utf-8?b?endlaSDigqw=?="},
                {"Name": "Message-ID", "Value": format!("<{id}@shop.example>")},
                {"Name": "X-PM-KeepID", "Value": "true"},
            ],
            "Tag": "invoice",
            "Metadata": {"postrider_id": id},
            "MessageStream": "outbound",
        })
    );
    let content = BASE64_STANDARD.decode(files[0]["Content"].as_str().unwrap()).unwrap();
    assert!(content == message.email.attachments[0].content, "the file arrived changed");
    assert_eq!((&files[0]["Name"], &files[0]["ContentType"]), (&json!("Счёт.pdf"), &json!("application/pdf")));
    assert_eq!((&files[0]["ContentID"], &files[1]["ContentID"]), (&json!(null), &json!("cid:logo")));
}

#[tokio::test]
async fn what_is_empty_is_left_out() {
    let mut message = to_one();
    message.email.reply_to.clear();
    message.email.tags.clear();
    message.email.text = None;
    let json = sent(&SUBJECT, message).await.0.json();
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["From", "Headers", "HtmlBody", "MessageStream", "Metadata", "Subject", "To"]);
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let ok = r#"{"To":"a","SubmittedAt":"2026-12-01T12:00:00Z","MessageID":"b","ErrorCode":0,"Message":"OK"}"#;
    let code = |code: u64| refusal(code, "in words");
    assert_verdicts(
        &SUBJECT,
        &[
            (200, JSON, ok, "ACCEPTED RECIPIENT 200 / healthy"),
            (200, JSON, r#"{"MessageID":"b"}"#, "ACCEPTED RECIPIENT 200 / healthy"),
            (200, JSON, &code(405), "QUOTA_USED_UP ACCOUNT 200 405 / resting"),
            (401, JSON, &code(10), "MISCONFIGURED ACCOUNT 401 10 / misconfigured"),
            (422, JSON, &code(10), "MISCONFIGURED ACCOUNT 422 10 / misconfigured"),
            (422, JSON, &code(412), "MISCONFIGURED ACCOUNT 422 412 / misconfigured"),
            (422, JSON, &code(413), "MISCONFIGURED ACCOUNT 422 413 / misconfigured"),
            (422, JSON, &code(400), "MISCONFIGURED SENDER_DOMAIN 422 400 / misconfigured for domain"),
            (422, JSON, &code(401), "MISCONFIGURED SENDER_DOMAIN 422 401 / misconfigured for domain"),
            (
                422,
                JSON,
                &refusal(300, "Invalid 'From' address: 'billing@shop.example'."),
                "MISCONFIGURED SENDER_DOMAIN 422 300 / misconfigured for domain",
            ),
            (422, JSON, &code(405), "QUOTA_USED_UP ACCOUNT 422 405 / resting"),
            (429, JSON, &code(429), "THROTTLED PROVIDER 429 429 / resting"),
            (429, "retry-after: 3\r\n", "", "THROTTLED PROVIDER 429 / resting 3s"),
            (422, JSON, &code(406), "RECIPIENT_REJECTED RECIPIENT 422 406 / healthy"),
            (
                422,
                JSON,
                &refusal(300, "Error parsing 'To': Illegal email domain."),
                "RECIPIENT_REJECTED RECIPIENT 422 300 / healthy",
            ),
            (422, JSON, &code(411), "UNFIT_HERE MESSAGE_AT_PROVIDER 422 411 / healthy"),
            (422, JSON, &code(701), "UNFIT_HERE MESSAGE_AT_PROVIDER 422 701 / healthy"),
            (413, "", "", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
            (422, JSON, &code(300), "MESSAGE_REJECTED MESSAGE 422 300 / healthy"),
            (422, "", "what", "UNFIT_HERE MESSAGE_AT_PROVIDER 422 / healthy"),
            (404, "", "", "MISCONFIGURED PROVIDER 404 / misconfigured"),
            (422, JSON, &code(100), "UNAVAILABLE PROVIDER 422 100 / failing"),
            (503, JSON, &code(100), "UNAVAILABLE PROVIDER 503 100 / failing"),
            (500, JSON, &code(0), "UNAVAILABLE PROVIDER 500 / failing"),
        ],
    )
    .await;
    assert_verdicts_under_hold(&SUBJECT, &[(500, "", "", "OUTCOME_UNKNOWN WIRE 500 / failing")]).await;
}

#[tokio::test]
async fn a_part_of_the_recipients_may_be_inactive() {
    let partly = "Message OK, but will not deliver to these inactive addresses: boris@example.com, vera@example.com";
    let inactive = "You tried to send to recipients that are inactive. Found inactive addresses: boris@example.com.";
    let illegal = "Error parsing 'Cc': Illegal email address.";
    let unnamed = "Error parsing 'To': Illegal email address.";
    assert_verdicts_for(
        &SUBJECT,
        &carried_by_all(),
        &[
            (200, JSON, &refusal(0, partly), "ACCEPTED RECIPIENT_REJECTED RECIPIENT_REJECTED ACCEPTED / healthy"),
            (200, JSON, &refusal(0, "OK"), "ACCEPTED ACCEPTED ACCEPTED ACCEPTED / healthy"),
            (422, JSON, &refusal(406, inactive), "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy"),
            (422, JSON, &refusal(300, illegal), "UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE / healthy"),
            (422, JSON, &refusal(300, unnamed), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
        ],
    )
    .await;
}
