//! Resend: what it is told, and what its answers come to.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::config::ApiService;
use serde_json::json;

use super::{
    Behaviour, HttpPeer, JSON, Subject, Way, all_recipients, api, build, carried_by_all, response, sent, submission,
    take, to_one,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::attachment;

pub const SUBJECT: Subject = Subject {
    kind: "resend",
    settings: |way: &Way| api(ApiService::Resend, way),
    accept: || response(200, JSON, r#"{"id":"id-1"}"#),
    accept_status: 200,
    refuse: || response(422, JSON, &refusal(422, "missing_required_field", "Missing `subject` field.")),
    bad_credentials: || response(401, JSON, &refusal(401, "missing_api_key", "Missing API Key")),
    throttle_body: r#"{"statusCode":429,"name":"rate_limit_exceeded","message":"Too many requests."}"#,
};

fn refusal(status: u16, name: &str, message: &str) -> String {
    json!({"statusCode": status, "name": name, "message": message}).to_string()
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it() {
    let mut message = carried_by_all();
    message.email.attachments.push(attachment("logo", "image/png", Some("logo"), b"\x89PNG".to_vec()));
    message.email.tags = ["счёт", "eu"].map(str::to_owned).to_vec();
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /emails HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Bearer k3y"));
    let (mut json, id) = (request.json(), message.id.to_string());
    assert_eq!(request.header("idempotency-key"), Some(id.as_str()));

    let files = take(&mut json, "attachments");
    assert_eq!(
        json,
        json!({
            "from": "\"Магазин \\\"Ёж\\\"\" <billing@shop.example>",
            "to": ["\"Анна Петрова\" <anna@example.com>", "boris@example.com"],
            "cc": ["vera@example.com"],
            "bcc": ["archive@shop.example"],
            "reply_to": ["help@shop.example"],
            "subject": "Счёт № 4711",
            "text": "Во вложении.\r\n.\r\n",
            "html": "<p>Во вложении</p><img src=\"cid:logo\">",
            "headers": {"X-Campaign": "one"},
            "tags": [
                {"name": "postrider_id", "value": id},
                {"name": "tag", "value": "____"},
                {"name": "tag_2", "value": "eu"},
            ],
        })
    );
    let content = BASE64_STANDARD.decode(files[0]["content"].as_str().unwrap()).unwrap();
    assert!(content == message.email.attachments[0].content, "the file arrived changed");
    // The type is told only where the name does not: one that contradicts the name makes Resend drop the file.
    assert_eq!((&files[0]["content_type"], &files[1]["content_type"]), (&json!(null), &json!("image/png")));
    assert_eq!((&files[0]["filename"], &files[1]["content_id"]), (&json!("Счёт.pdf"), &json!("logo")));
}

#[tokio::test]
async fn without_a_text_none_is_made_and_what_is_empty_is_left_out() {
    let mut message = to_one();
    message.email.reply_to.clear();
    message.email.headers.clear();
    message.email.text = None;
    let json = sent(&SUBJECT, message).await.0.json();
    assert_eq!(json["text"], "");
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["from", "html", "subject", "tags", "text", "to"]);
}

#[tokio::test]
async fn a_repeat_is_the_same_request_under_the_same_key() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((SUBJECT.accept)())]).await;
    let account = build(&(SUBJECT.settings)(&Way::to(&peer.base())));
    let message = carried_by_all();
    for _ in 0..2 {
        account.send(submission(message.clone(), &all_recipients(&message))).await;
    }
    let (first, second) = (peer.request().await, peer.request().await);
    assert_eq!(first.header("idempotency-key"), second.header("idempotency-key"));
    assert!(first.body == second.body, "another body under the same key would be refused");
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let validation = |status, message| refusal(status, "validation_error", message);
    let not_verified = "The shop.example domain is not verified. Please, add and verify your domain";
    let testing = "You can only send testing emails to your own email address.";
    assert_verdicts(
        &SUBJECT,
        &[
            (200, JSON, r#"{"id":"a"}"#, "ACCEPTED RECIPIENT 200 / healthy"),
            (200, JSON, &refusal(422, "some_error", "in words"), "UNAVAILABLE PROVIDER 200 some_error / failing"),
            (200, JSON, SUBJECT.throttle_body, "THROTTLED PROVIDER 200 rate_limit_exceeded / resting"),
            (
                401,
                JSON,
                &refusal(401, "missing_api_key", "Missing"),
                "MISCONFIGURED ACCOUNT 401 missing_api_key / misconfigured",
            ),
            (
                401,
                JSON,
                &refusal(401, "restricted_api_key", "This API key is restricted to only send emails."),
                "MISCONFIGURED ACCOUNT 401 restricted_api_key / misconfigured",
            ),
            (
                403,
                JSON,
                &refusal(403, "invalid_api_key", "Invalid"),
                "MISCONFIGURED ACCOUNT 403 invalid_api_key / misconfigured",
            ),
            (
                400,
                JSON,
                &validation(400, "API key is invalid"),
                "MISCONFIGURED ACCOUNT 400 validation_error / misconfigured",
            ),
            (
                403,
                JSON,
                &validation(403, not_verified),
                "MISCONFIGURED SENDER_DOMAIN 403 validation_error / misconfigured for domain",
            ),
            (403, JSON, &validation(403, testing), "MISCONFIGURED ACCOUNT 403 validation_error / misconfigured"),
            (
                422,
                JSON,
                &refusal(422, "invalid_from_address", "Invalid `from` field."),
                "MISCONFIGURED SENDER_DOMAIN 422 invalid_from_address / misconfigured for domain",
            ),
            (
                429,
                JSON,
                &refusal(429, "daily_quota_exceeded", "no"),
                "QUOTA_USED_UP ACCOUNT 429 daily_quota_exceeded / resting",
            ),
            (
                429,
                JSON,
                &refusal(429, "monthly_quota_exceeded", "no"),
                "QUOTA_USED_UP ACCOUNT 429 monthly_quota_exceeded / resting",
            ),
            (
                429,
                "content-type: application/json\r\nretry-after: 2\r\n",
                SUBJECT.throttle_body,
                "THROTTLED PROVIDER 429 rate_limit_exceeded / resting 2s",
            ),
            (
                422,
                JSON,
                &validation(422, "Invalid `to` field."),
                "RECIPIENT_REJECTED RECIPIENT 422 validation_error / healthy",
            ),
            (
                400,
                JSON,
                &validation(400, "Invalid `to` field."),
                "RECIPIENT_REJECTED RECIPIENT 400 validation_error / healthy",
            ),
            (413, "", "", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
            (
                422,
                JSON,
                &refusal(422, "invalid_attachment", "no"),
                "UNFIT_HERE MESSAGE_AT_PROVIDER 422 invalid_attachment / healthy",
            ),
            (
                451,
                JSON,
                &refusal(451, "security_error", "no"),
                "UNFIT_HERE MESSAGE_AT_PROVIDER 451 security_error / healthy",
            ),
            (400, JSON, &validation(400, "Invalid subject"), "MESSAGE_REJECTED MESSAGE 400 validation_error / healthy"),
            (
                422,
                JSON,
                &refusal(422, "invalid_parameter", "no"),
                "MESSAGE_REJECTED MESSAGE 422 invalid_parameter / healthy",
            ),
            (422, "", "what", "UNFIT_HERE MESSAGE_AT_PROVIDER 422 / healthy"),
            (404, JSON, &refusal(404, "not_found", "no"), "MISCONFIGURED PROVIDER 404 not_found / misconfigured"),
            (
                405,
                JSON,
                &refusal(405, "method_not_allowed", "no"),
                "MISCONFIGURED PROVIDER 405 method_not_allowed / misconfigured",
            ),
            (
                409,
                JSON,
                &refusal(409, "concurrent_idempotent_requests", "in progress"),
                "OUTCOME_UNKNOWN WIRE 409 concurrent_idempotent_requests / healthy",
            ),
            (
                409,
                JSON,
                &refusal(409, "invalid_idempotent_request", "another payload"),
                "OUTCOME_UNKNOWN WIRE 409 invalid_idempotent_request / healthy",
            ),
            (409, "", "", "OUTCOME_UNKNOWN WIRE 409 / failing"),
            (
                500,
                JSON,
                &refusal(500, "application_error", "no"),
                "UNAVAILABLE PROVIDER 500 application_error / failing",
            ),
        ],
    )
    .await;
    assert_verdicts_under_hold(
        &SUBJECT,
        &[
            (
                500,
                JSON,
                &refusal(500, "application_error", "no"),
                "OUTCOME_UNKNOWN WIRE 500 application_error / failing",
            ),
            (200, JSON, &refusal(422, "some_error", "no"), "OUTCOME_UNKNOWN WIRE 200 some_error / failing"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_refused_recipient_is_found_by_its_address() {
    let named = "Invalid `to` field. The email address boris@example.com is not valid.";
    let validation = |message| refusal(422, "validation_error", message);
    assert_verdicts_for(
        &SUBJECT,
        &carried_by_all(),
        &[
            (422, JSON, &validation(named), "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy"),
            (422, JSON, &validation("Invalid `to` field."), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
            (
                422,
                JSON,
                &validation("Invalid `cc` field."),
                "UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE / healthy",
            ),
        ],
    )
    .await;
}
