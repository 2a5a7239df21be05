//! Brevo: what it is told, and what its answers come to.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::config::ApiService;
use serde_json::json;

use super::{
    Behaviour, HttpPeer, JSON, Subject, Way, api, build, carried_by_all, response, sent, submission, summary, take,
    to_one,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::{attachment, mailbox};

pub const SUBJECT: Subject = Subject {
    kind: "brevo",
    settings: |way: &Way| api(ApiService::Brevo, way),
    accept: || response(201, JSON, r#"{"messageId":"id-1"}"#),
    accept_status: 201,
    refuse: || response(400, JSON, &refusal("missing_parameter", "subject is missing")),
    bad_credentials: || response(401, JSON, &refusal("unauthorized", "Key not found")),
    throttle_body: r#"{"code":"too_many_requests","message":"slow down"}"#,
};

fn refusal(code: &str, message: &str) -> String {
    json!({"code": code, "message": message}).to_string()
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it() {
    let message = carried_by_all();
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /v3/smtp/email HTTP/1.1");
    assert_eq!(request.header("api-key"), Some("k3y"));
    let (mut json, id) = (request.json(), message.id.to_string());
    let files = take(&mut json, "attachment");
    assert_eq!(
        json,
        json!({
            "sender": {"email": "billing@shop.example", "name": "Магазин \"Ёж\""},
            "to": [{"email": "anna@example.com", "name": "Анна Петрова"}, {"email": "boris@example.com"}],
            "cc": [{"email": "vera@example.com"}],
            "bcc": [{"email": "archive@shop.example"}],
            "replyTo": {"email": "help@shop.example"},
            "subject": "Счёт № 4711",
            "textContent": "Во вложении.\r\n.\r\n",
            "htmlContent": "<p>Во вложении</p><img src=\"cid:logo\">",
            "headers": {
                "X-Campaign": "one",
                "X-Mailin-custom": format!("postrider_id:{id}"),
                "idempotencyKey": id,
            },
            "tags": ["invoice"],
        })
    );
    let content = BASE64_STANDARD.decode(files[0]["content"].as_str().unwrap()).unwrap();
    assert!(content == message.email.attachments[0].content, "the file arrived changed");
    assert_eq!(files[0]["name"], "Счёт.pdf");
}

#[tokio::test]
async fn what_is_empty_is_left_out_and_a_header_is_ascii() {
    let mut message = to_one();
    message.email.reply_to.clear();
    message.email.tags.clear();
    message.email.html = None;
    message.email.headers[0].value = "zwei €".to_owned();
    let json = sent(&SUBJECT, message).await.0.json();
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["headers", "sender", "subject", "textContent", "to"]);
    assert_eq!(json["headers"]["X-Campaign"], "=?utf-8?b?endlaSDigqw=?=");
}

#[tokio::test]
async fn what_it_cannot_carry_is_not_offered() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((SUBJECT.accept)())]).await;
    let account = build(&(SUBJECT.settings)(&Way::to(&peer.base())));
    let mut program = to_one();
    program.email.attachments.push(attachment("data.json", "application/json", None, b"{}".to_vec()));
    let mut answers = to_one();
    answers.email.reply_to.push(mailbox(None, "office@shop.example"));
    for (message, code) in [(program, "capability"), (answers, "reply_to")] {
        let outcome = account.send(submission(message, &[0])).await;
        assert_eq!(summary(&outcome), format!("UNFIT_HERE MESSAGE_AT_PROVIDER {code} / neutral"));
    }
    assert!(peer.is_quiet());
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let sender = "Sending has been rejected because the sender you used billing@shop.example is not valid.";
    let invalid = |message| refusal("invalid_parameter", message);
    assert_verdicts(
        &SUBJECT,
        &[
            (201, JSON, r#"{"messageId":"a"}"#, "ACCEPTED RECIPIENT 201 / healthy"),
            (202, JSON, r#"{"messageId":"a"}"#, "ACCEPTED RECIPIENT 202 / healthy"),
            (201, "", "", "ACCEPTED RECIPIENT 201 / healthy"),
            (201, JSON, &refusal("some_error", "no"), "UNAVAILABLE PROVIDER 201 some_error / failing"),
            (
                401,
                JSON,
                &refusal("unauthorized", "Key not found"),
                "MISCONFIGURED ACCOUNT 401 unauthorized / misconfigured",
            ),
            (
                403,
                JSON,
                &refusal("permission_denied", "no"),
                "MISCONFIGURED ACCOUNT 403 permission_denied / misconfigured",
            ),
            (
                403,
                JSON,
                &refusal("account_under_validation", "no"),
                "MISCONFIGURED ACCOUNT 403 account_under_validation / misconfigured",
            ),
            (
                400,
                JSON,
                &invalid(sender),
                "MISCONFIGURED SENDER_DOMAIN 400 invalid_parameter / misconfigured for domain",
            ),
            (402, JSON, &refusal("not_enough_credits", "no"), "QUOTA_USED_UP ACCOUNT 402 not_enough_credits / resting"),
            (400, JSON, &refusal("not_enough_credits", "no"), "QUOTA_USED_UP ACCOUNT 400 not_enough_credits / resting"),
            (429, "x-sib-ratelimit-reset: 40\r\n", "", "THROTTLED PROVIDER 429 / resting 40s"),
            (429, JSON, SUBJECT.throttle_body, "THROTTLED PROVIDER 429 too_many_requests / resting"),
            (
                400,
                JSON,
                &invalid("email is not valid in to"),
                "RECIPIENT_REJECTED RECIPIENT 400 invalid_parameter / healthy",
            ),
            (
                400,
                JSON,
                &invalid("Unsupported attachment extension"),
                "UNFIT_HERE MESSAGE_AT_PROVIDER 400 invalid_parameter / healthy",
            ),
            (413, "", "", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
            (
                400,
                JSON,
                &invalid("subject has to be a text"),
                "MESSAGE_REJECTED MESSAGE 400 invalid_parameter / healthy",
            ),
            (
                400,
                JSON,
                &refusal("missing_parameter", "no"),
                "MESSAGE_REJECTED MESSAGE 400 missing_parameter / healthy",
            ),
            (422, JSON, &refusal("unprocessable", "no"), "MESSAGE_REJECTED MESSAGE 422 unprocessable / healthy"),
            (400, "", "what", "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy"),
            (
                404,
                JSON,
                &refusal("document_not_found", "no"),
                "MISCONFIGURED PROVIDER 404 document_not_found / misconfigured",
            ),
            (
                405,
                JSON,
                &refusal("method_not_allowed", "no"),
                "MISCONFIGURED PROVIDER 405 method_not_allowed / misconfigured",
            ),
            (406, JSON, &refusal("not_acceptable", "no"), "MISCONFIGURED PROVIDER 406 not_acceptable / misconfigured"),
            // A repeat: the first time it was accepted.
            (400, JSON, &refusal("duplicate_parameter", "no"), "ACCEPTED RECIPIENT 400 duplicate_parameter / healthy"),
            (500, JSON, &refusal("internal_error", "no"), "UNAVAILABLE PROVIDER 500 internal_error / failing"),
        ],
    )
    .await;
    assert_verdicts_under_hold(
        &SUBJECT,
        &[
            (500, "", "", "OUTCOME_UNKNOWN WIRE 500 / failing"),
            (400, JSON, &refusal("duplicate_parameter", "no"), "ACCEPTED RECIPIENT 400 duplicate_parameter / healthy"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_refused_recipient_is_found_by_its_list_or_its_address() {
    let invalid = |message| refusal("invalid_parameter", message);
    assert_verdicts_for(
        &SUBJECT,
        &carried_by_all(),
        &[
            (400, JSON, &invalid("email is not valid in to"), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
            (
                400,
                JSON,
                &invalid("email boris@example.com is not valid in to"),
                "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy",
            ),
            (
                400,
                JSON,
                &invalid("email is not valid in cc"),
                "UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE / healthy",
            ),
            (
                400,
                JSON,
                &invalid("email is not valid in bcc"),
                "UNFIT_HERE UNFIT_HERE UNFIT_HERE RECIPIENT_REJECTED / healthy",
            ),
        ],
    )
    .await;
}
