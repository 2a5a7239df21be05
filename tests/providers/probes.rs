//! The cheap call by which an account that was not set up is found to be so again.

use postrider::{
    config::{ApiService, MailgunRegion},
    delivery::Health,
};

use super::{
    Behaviour, HttpPeer, JSON, Subject, Way, api, brevo, build, gateway, health, mailgun, postmark, resend, response,
    sendgrid, ses,
};

const MAILGUN: Subject = Subject {
    settings: |way: &Way| {
        let domain = Some("shop.example".to_owned());
        api(ApiService::Mailgun { region: MailgunRegion::Us, domain }, way)
    },
    ..mailgun::SUBJECT
};

/// What is asked, and what each answer says of the provider.
async fn assert_probes(subject: &Subject, asked: &str, answers: &[(u16, &str, &str)]) {
    let common = [
        (429, "", "resting"),
        (500, "", "failing"),
        (502, "", "failing"),
        (503, "", "failing"),
        (404, "", "misconfigured"),
        (302, "", "misconfigured"),
        (200, "<!doctype html>", "misconfigured"),
    ];
    let answers: Vec<_> = answers.iter().chain(&common).collect();
    let behaviours: Vec<Behaviour> =
        answers.iter().map(|(status, body, _)| Behaviour::Answer(response(*status, JSON, body))).collect();
    let mut peer = HttpPeer::start(&behaviours).await;
    let account = build(&(subject.settings)(&Way::to(&peer.base())));
    for (status, body, expected) in answers {
        let found = account.probe().expect("a call").await;
        assert_eq!(health(found), *expected, "{}: {status} {body}", subject.kind);
        let request = peer.request().await;
        assert_eq!(request.line, format!("{asked} HTTP/1.1"));
        let keys = ["authorization", "x-postmark-server-token", "api-key"];
        assert!(keys.iter().any(|name| request.header(name).is_some()), "without the key");
    }
}

#[tokio::test]
async fn each_kind_asks_what_sends_nothing() {
    let unauthorized = (401, "", "misconfigured");
    assert_probes(
        &sendgrid::SUBJECT,
        "GET /v3/scopes",
        &[
            (200, r#"{"scopes":["alerts.read","mail.send"]}"#, "healthy"),
            (200, r#"{"scopes":["alerts.read"]}"#, "misconfigured"),
            (200, "{}", "neutral"),
            unauthorized,
            (403, "", "misconfigured"),
        ],
    )
    .await;
    assert_probes(
        &MAILGUN,
        "POST /v3/shop.example/messages",
        &[
            (400, r#"{"message":"from parameter is missing"}"#, "healthy"),
            (400, "bad request", "neutral"),
            (401, "Forbidden", "misconfigured"),
            (404, r#"{"message":"Domain not found: shop.example"}"#, "misconfigured"),
            (200, "Mailgun Magnificent API", "misconfigured"),
        ],
    )
    .await;
    let postmark = [(200, r#"{"ID":1,"Name":"shop"}"#, "healthy"), (401, r#"{"ErrorCode":10}"#, "misconfigured")];
    assert_probes(&postmark::SUBJECT, "GET /server", &postmark).await;
    assert_probes(
        &resend::SUBJECT,
        "GET /domains",
        &[
            (200, r#"{"data":[]}"#, "healthy"),
            (401, r#"{"statusCode":401,"name":"restricted_api_key","message":"only send"}"#, "healthy"),
            (401, r#"{"statusCode":401,"name":"missing_api_key","message":"Missing"}"#, "misconfigured"),
            (400, r#"{"statusCode":400,"name":"validation_error","message":"API key is invalid"}"#, "misconfigured"),
        ],
    )
    .await;
    assert_probes(
        &ses::SUBJECT,
        "GET /v2/email/account",
        &[
            (200, r#"{"SendingEnabled":true,"ProductionAccessEnabled":true}"#, "healthy"),
            (200, r#"{"SendingEnabled":false}"#, "misconfigured"),
            (
                403,
                r#"{"__type":"AccessDeniedException","message":"not authorized to perform: ses:GetAccount"}"#,
                "neutral",
            ),
            (403, r#"{"__type":"UnrecognizedClientException","message":"no"}"#, "misconfigured"),
            (403, "", "misconfigured"),
        ],
    )
    .await;
    let brevo = [(200, r#"{"email":"a@shop.example"}"#, "healthy"), unauthorized];
    assert_probes(&brevo::SUBJECT, "GET /v3/account", &brevo).await;
}

#[tokio::test]
async fn who_has_no_such_call_has_none() {
    let way = Way::to("http://localhost:1");
    assert!(build(&(gateway::SUBJECT.settings)(&way)).probe().is_none());
    // Without a domain of its own there is none to ask for.
    assert!(build(&(mailgun::SUBJECT.settings)(&way)).probe().is_none());
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_failing() {
    let account = build(&(sendgrid::SUBJECT.settings)(&Way::to("http://localhost:1")));
    assert_eq!(account.probe().expect("a call").await, Health::Failing { retry_after: None });
}
