//! SendGrid: what it is told, and what its answers come to.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::config::ApiService;
use serde_json::json;

use super::{
    JSON, Subject, Way, api, carried_by_all, response, sent, take, to_one,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::{attachment, mailbox};

pub const SUBJECT: Subject = Subject {
    kind: "sendgrid",
    settings: |way: &Way| api(ApiService::sendgrid(), way),
    accept: || response(202, "x-message-id: id-1\r\n", ""),
    accept_status: 202,
    refuse: || response(400, JSON, &refusal("The subject is required", "subject")),
    bad_credentials: || response(401, JSON, &refusal("The provided authorization grant is invalid", "")),
    throttle_body: r#"{"errors":[{"field":null,"message":"too many requests"}]}"#,
};

fn refusal(message: &str, field: &str) -> String {
    let field = Some(field).filter(|field| !field.is_empty());
    json!({"errors": [{"message": message, "field": field, "help": null}]}).to_string()
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it() {
    let mut message = carried_by_all();
    message.email.attachments.push(attachment("logo.png", "image/png; name=x", Some("logo"), b"\x89PNG".to_vec()));
    message.email.from = mailbox(Some("Shop, \"Ёж\"; Co"), "billing@shop.example");
    message.email.tags = ["invoice", "eu", "invoice"].map(str::to_owned).to_vec();
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /v3/mail/send HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Bearer k3y"));
    assert_eq!(request.header("content-type"), Some("application/json"));

    let (mut json, id) = (request.json(), message.id.to_string());
    let files = take(&mut json, "attachments");
    assert_eq!(
        json,
        json!({
            "personalizations": [{
                "to": [{"email": "anna@example.com", "name": "Анна Петрова"}, {"email": "boris@example.com"}],
                "cc": [{"email": "vera@example.com"}],
                "bcc": [{"email": "archive@shop.example"}],
                "custom_args": {"postrider_id": id},
            }],
            "from": {"email": "billing@shop.example", "name": "\"Shop, \\\"Ёж\\\"; Co\""},
            "reply_to_list": [{"email": "help@shop.example"}],
            "subject": "Счёт № 4711",
            "content": [
                {"type": "text/plain", "value": "Во вложении.\r\n.\r\n"},
                {"type": "text/html", "value": "<p>Во вложении</p><img src=\"cid:logo\">"},
            ],
            "headers": {"X-Campaign": "one", "Message-ID": format!("<{id}@shop.example>")},
            "categories": ["invoice", "eu"],
        })
    );
    let content = BASE64_STANDARD.decode(files[0]["content"].as_str().unwrap()).unwrap();
    assert!(content == message.email.attachments[0].content, "the file arrived changed");
    assert_eq!((&files[0]["filename"], &files[0]["disposition"]), (&json!("Счёт.pdf"), &json!("attachment")));
    assert_eq!((&files[1]["type"], &files[1]["content_id"]), (&json!("image/png"), &json!("logo")));
    assert_eq!((&files[1]["disposition"], &files[0]["content_id"]), (&json!("inline"), &json!(null)));
}

#[tokio::test]
async fn what_is_empty_is_left_out_and_what_is_not_ascii_in_a_header_is_encoded() {
    let mut message = to_one();
    message.email.reply_to.clear();
    message.email.tags.clear();
    message.email.html = None;
    message.email.headers[0].value = "zwei €".to_owned();
    let json = sent(&SUBJECT, message).await.0.json();
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["content", "from", "headers", "personalizations", "subject"]);
    let personalization: Vec<&String> = json["personalizations"][0].as_object().unwrap().keys().collect();
    assert_eq!(personalization, ["custom_args", "to"]);
    assert_eq!(json["headers"]["X-Campaign"], "=?utf-8?b?endlaSDigqw=?=");
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let credits = refusal("Maximum credits exceeded", "");
    let grant = refusal("The provided authorization grant is invalid, expired, or revoked", "");
    let identity = refusal("The from address does not match a verified Sender Identity.", "from");
    let forbidden = refusal("access forbidden", "");
    let block = refusal("Too many bad requests. Temporary block", "");
    let to = refusal("Does not contain a valid address.", "personalizations.0.to.0.email");
    let name = refusal("The name must not have a line end.", "personalizations.0.to.0.name");
    let other = refusal("The subject is required.", "subject");
    assert_verdicts(
        &SUBJECT,
        &[
            (202, "x-message-id: a\r\n", "", "ACCEPTED RECIPIENT 202 / healthy"),
            (202, "", "", "ACCEPTED RECIPIENT 202 / healthy"),
            (200, JSON, "", "ACCEPTED RECIPIENT 200 / healthy"),
            (202, JSON, &other, "UNAVAILABLE PROVIDER 202 subject / failing"),
            (401, JSON, &grant, "MISCONFIGURED ACCOUNT 401 / misconfigured"),
            (401, "", "", "MISCONFIGURED ACCOUNT 401 / misconfigured"),
            (401, JSON, &credits, "QUOTA_USED_UP ACCOUNT 401 / resting"),
            (403, JSON, &forbidden, "MISCONFIGURED ACCOUNT 403 / misconfigured"),
            (403, JSON, &identity, "MISCONFIGURED SENDER_DOMAIN 403 from / misconfigured for domain"),
            (403, JSON, &block, "UNAVAILABLE PROVIDER 403 / failing"),
            (429, "", "", "THROTTLED PROVIDER 429 / resting"),
            (429, "x-ratelimit-reset: 30\r\n", "", "THROTTLED PROVIDER 429 / resting 30s"),
            (429, "retry-after: 5\r\nx-ratelimit-reset: 30\r\n", "", "THROTTLED PROVIDER 429 / resting 5s"),
            (400, JSON, &to, "RECIPIENT_REJECTED RECIPIENT 400 personalizations.0.to.0.email / healthy"),
            (400, JSON, &name, "MESSAGE_REJECTED MESSAGE 400 personalizations.0.to.0.name / healthy"),
            (400, JSON, &other, "MESSAGE_REJECTED MESSAGE 400 subject / healthy"),
            (400, "", "bad request", "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy"),
            (413, JSON, &refusal("payload too large", ""), "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
            (404, JSON, &refusal("not found", ""), "MISCONFIGURED PROVIDER 404 / misconfigured"),
            (405, "", "", "MISCONFIGURED PROVIDER 405 / misconfigured"),
            (406, "", "", "MISCONFIGURED PROVIDER 406 / misconfigured"),
            (415, "", "", "MISCONFIGURED PROVIDER 415 / misconfigured"),
            (500, JSON, &refusal("internal error", ""), "UNAVAILABLE PROVIDER 500 / failing"),
            (503, "retry-after: 60\r\n", "", "UNAVAILABLE PROVIDER 503 / failing 60s"),
        ],
    )
    .await;
    assert_verdicts_under_hold(
        &SUBJECT,
        &[
            (202, JSON, &other, "OUTCOME_UNKNOWN WIRE 202 subject / failing"),
            (500, JSON, &refusal("internal error", ""), "OUTCOME_UNKNOWN WIRE 500 / failing"),
            (403, JSON, &block, "UNAVAILABLE PROVIDER 403 / failing"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_refused_recipient_is_found_by_its_place_or_by_its_address() {
    let by = |field: &str| refusal("Does not contain a valid address.", field);
    let named = refusal("boris@example.com is not a valid address.", "personalizations.0.to");
    let two = json!({"errors": [
        {"message": "no", "field": "personalizations.0.to.1.email"},
        {"message": "no", "field": "subject"},
    ]});
    let one = json!({"message": "no", "field": "personalizations.0.to.1.email"});
    let four_of_one = json!({ "errors": [one, one, one, one] });
    assert_verdicts_for(
        &SUBJECT,
        &carried_by_all(),
        &[
            (400, JSON, &four_of_one.to_string(), "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy"),
            (202, "", "", "ACCEPTED ACCEPTED ACCEPTED ACCEPTED / healthy"),
            (
                400,
                JSON,
                &by("personalizations.0.to.1.email"),
                "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy",
            ),
            (
                400,
                JSON,
                &by("personalizations.0.cc.0.email"),
                "UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE / healthy",
            ),
            (
                400,
                JSON,
                &by("personalizations.0.bcc.0"),
                "UNFIT_HERE UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED / healthy",
            ),
            (400, JSON, &named, "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy"),
            (400, JSON, &by("personalizations.0.to"), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
            (400, JSON, &by("personalizations.0.to.9.email"), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
            (
                400,
                JSON,
                &two.to_string(),
                "MESSAGE_REJECTED RECIPIENT_REJECTED MESSAGE_REJECTED MESSAGE_REJECTED / healthy",
            ),
        ],
    )
    .await;
}
