//! Amazon SES: what it is told and how that is signed, and what its answers come to.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::{config::ApiService, message::mime};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    Behaviour, HttpPeer, JSON, KEY, Received, Subject, Way, api, build, carried_by_all, response, sent, submission,
    verdicts::{assert_verdicts, assert_verdicts_for, assert_verdicts_under_hold},
};
use crate::support::specimen::message as everything;

pub const SUBJECT: Subject = Subject {
    kind: "ses",
    settings: |way: &Way| api(ApiService::ses("eu-central-1", "AKIDEXAMPLE"), way),
    accept: || response(200, JSON, r#"{"MessageId":"id-1"}"#),
    accept_status: 200,
    refuse: || response(400, MESSAGE_REJECTED, &refusal("Email is not accepted: it has a virus.")),
    bad_credentials: || response(403, SIGNATURE, &refusal("The security token included in the request is invalid.")),
    throttle_body: r#"{"message":"Too many requests"}"#,
};

const MESSAGE_REJECTED: &str = "x-amzn-errortype: MessageRejected\r\n";
const SIGNATURE: &str = "x-amzn-errortype: UnrecognizedClientException:http://internal.amazon.com/coral/\r\n";

fn refusal(message: &str) -> String {
    json!({"message": message}).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA256 (RFC 2104), so that the signature is not checked by the crate that made it.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// Makes sure of the signature as AWS describes it
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html>).
fn assert_signed(request: &Received) {
    let authorization = request.header("authorization").unwrap();
    let field = |name: &str| {
        let value = authorization.split_once(&format!("{name}=")).unwrap().1;
        value.split(',').next().unwrap().to_owned()
    };
    let date = request.header("x-amz-date").unwrap();
    let scope = format!("{}/eu-central-1/ses/aws4_request", &date[..8]);
    assert_eq!(field("Credential"), format!("AKIDEXAMPLE/{scope}"));

    let signed = field("SignedHeaders");
    for name in ["content-type", "host", "x-amz-date"] {
        assert!(signed.split(';').any(|header| header == name), "{name} is not signed: {signed}");
    }
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", request.header(name).unwrap().trim())).collect();
    let path = request.line.split(' ').nth(1).unwrap();
    let body = hex(&Sha256::digest(&request.body));
    let canonical = format!("POST\n{path}\n\n{headers}\n{signed}\n{body}");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let steps = [&date[..8], "eu-central-1", "ses", "aws4_request"];
    let key = steps.iter().fold(format!("AWS4{KEY}").into_bytes(), |key, step| hmac(&key, step.as_bytes()).to_vec());
    assert_eq!(field("Signature"), hex(&hmac(&key, text.as_bytes())));
}

#[tokio::test]
async fn an_email_is_told_as_the_api_documents_it_and_signed() {
    let message = everything();
    let (request, outcome) = sent(&SUBJECT, message.clone()).await;
    assert_eq!(outcome.provider_message_id.as_deref(), Some("id-1"));
    assert_eq!(request.line, "POST /v2/email/outbound-emails HTTP/1.1");
    assert_signed(&request);

    let mut json = request.json();
    let data = json["Content"]["Raw"]["Data"].take();
    let content = BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
    assert!(content == mime::render(&message).unwrap(), "the MIME is not the one of SMTP");
    assert_eq!(
        json,
        json!({
            "Destination": {
                "ToAddresses": ["anna@example.com", "boris@xn--e1afmkfd.xn--p1ai"],
                "CcAddresses": ["vera@example.com"],
                "BccAddresses": ["archive@shop.example"],
            },
            "Content": {"Raw": {"Data": null}},
            "EmailTags": [
                {"Name": "postrider_id", "Value": message.id.to_string()},
                {"Name": "tag", "Value": "invoice"},
            ],
        })
    );
}

#[tokio::test]
async fn only_the_open_recipients_are_in_the_envelope_and_the_set_is_named() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer((SUBJECT.accept)())]).await;
    let service = ApiService::Ses {
        region: "eu-central-1".to_owned(),
        access_key_id: "AKIDEXAMPLE".to_owned(),
        configuration_set: Some("events".to_owned()),
    };
    build(&api(service, &Way::to(&peer.base()))).send(submission(carried_by_all(), &[3])).await;
    let request = peer.request().await;
    assert_signed(&request);
    let json = request.json();
    assert_eq!(json["Destination"], json!({"BccAddresses": ["archive@shop.example"]}));
    assert_eq!(json["ConfigurationSetName"], "events");
}

#[tokio::test]
async fn each_answer_has_its_verdict() {
    let kind = |name: &str| format!("x-amzn-errortype: {name}\r\n");
    let no = refusal("no");
    let identities = refusal(
        "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: shop.example",
    );
    let in_body = r#"{"__type":"com.amazonaws.sesv2#AccountSuspendedException:http://x","message":"no"}"#;
    let length = refusal("Message length is more than 41943040 bytes long: '50000000'.");
    let bad_request = kind("BadRequestException");
    let mut rows: Vec<(u16, String, String, String)> = vec![
        (200, JSON.to_owned(), r#"{"MessageId":"a"}"#.to_owned(), "ACCEPTED RECIPIENT 200 / healthy".to_owned()),
        (
            400,
            JSON.to_owned(),
            in_body.to_owned(),
            "MISCONFIGURED ACCOUNT 400 AccountSuspendedException / misconfigured".to_owned(),
        ),
    ];
    let mut row = |status, headers: &str, body: &str, expected: &str| {
        rows.push((status, headers.to_owned(), body.to_owned(), expected.to_owned()));
    };
    for name in [
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "AccessDeniedException",
    ] {
        row(403, &kind(name), &no, &format!("MISCONFIGURED ACCOUNT 403 {name} / misconfigured"));
    }
    row(400, SIGNATURE, &no, "MISCONFIGURED ACCOUNT 400 UnrecognizedClientException / misconfigured");
    for name in ["AccountSuspendedException", "SendingPausedException"] {
        row(400, &kind(name), &no, &format!("MISCONFIGURED ACCOUNT 400 {name} / misconfigured"));
    }
    let domain = "MISCONFIGURED SENDER_DOMAIN 400 {} / misconfigured for domain";
    let name = "MailFromDomainNotVerifiedException";
    row(400, &kind(name), &no, &domain.replace("{}", name));
    row(400, MESSAGE_REJECTED, &identities, &domain.replace("{}", "MessageRejected"));
    row(
        400,
        MESSAGE_REJECTED,
        &refusal("Daily message quota exceeded."),
        "QUOTA_USED_UP ACCOUNT 400 MessageRejected / resting",
    );
    row(
        429,
        &kind("TooManyRequestsException"),
        &refusal("Daily message quota exceeded."),
        "QUOTA_USED_UP ACCOUNT 429 TooManyRequestsException / resting",
    );
    row(400, &kind("LimitExceededException"), &no, "QUOTA_USED_UP ACCOUNT 400 LimitExceededException / resting");
    row(429, &kind("TooManyRequestsException"), &no, "THROTTLED PROVIDER 429 TooManyRequestsException / resting");
    row(
        400,
        &kind("ThrottlingException"),
        &refusal("Maximum sending rate exceeded."),
        "THROTTLED PROVIDER 400 ThrottlingException / resting",
    );
    row(429, "retry-after: 9\r\n", "", "THROTTLED PROVIDER 429 / resting 9s");
    row(
        400,
        &bad_request,
        &refusal("Illegal address"),
        "RECIPIENT_REJECTED RECIPIENT 400 BadRequestException / healthy",
    );
    row(400, &bad_request, &length, "UNFIT_HERE MESSAGE_AT_PROVIDER 400 BadRequestException / healthy");
    row(413, "", "", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy");
    row(400, MESSAGE_REJECTED, &no, "MESSAGE_REJECTED MESSAGE 400 MessageRejected / healthy");
    row(400, &bad_request, &no, "MESSAGE_REJECTED MESSAGE 400 BadRequestException / healthy");
    row(400, &kind("SomethingNew"), &no, "UNFIT_HERE MESSAGE_AT_PROVIDER 400 SomethingNew / healthy");
    row(400, "", "what", "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy");
    row(404, &kind("NotFoundException"), &no, "MISCONFIGURED PROVIDER 404 NotFoundException / misconfigured");
    row(500, &kind("InternalFailure"), &no, "UNAVAILABLE PROVIDER 500 InternalFailure / failing");
    row(503, &kind("ServiceUnavailable"), &no, "UNAVAILABLE PROVIDER 503 ServiceUnavailable / failing");
    let rows: Vec<_> = rows.iter().map(|(s, h, b, e)| (*s, h.as_str(), b.as_str(), e.as_str())).collect();
    assert_verdicts(&SUBJECT, &rows).await;
    let internal = kind("InternalFailure");
    assert_verdicts_under_hold(
        &SUBJECT,
        &[(500, &internal, &no, "OUTCOME_UNKNOWN WIRE 500 InternalFailure / failing")],
    )
    .await;
}

#[tokio::test]
async fn a_refused_recipient_is_found_by_its_address() {
    let bad_request = "x-amzn-errortype: BadRequestException\r\n";
    assert_verdicts_for(
        &SUBJECT,
        &carried_by_all(),
        &[
            (
                400,
                bad_request,
                &refusal("Illegal address <boris@example.com>"),
                "UNFIT_HERE RECIPIENT_REJECTED UNFIT_HERE UNFIT_HERE / healthy",
            ),
            (400, bad_request, &refusal("Illegal address"), "UNFIT_HERE UNFIT_HERE UNFIT_HERE UNFIT_HERE / healthy"),
        ],
    )
    .await;
}
