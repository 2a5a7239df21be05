use std::time::SystemTime;

use reqwest::header::HeaderMap;

use super::*;
use crate::{message::UnknownOutcome, provider::web::Body};

const ADDRESSES: [&str; 3] = ["anna@example.com", "boris@example.com", "vera@example.com"];

fn asked(recipients: usize, unknown_outcome: UnknownOutcome) -> Asked<'static> {
    Asked::example(&ADDRESSES[..recipients], unknown_outcome)
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Answer {
    Answer::example(status, headers, body)
}

fn judged(asked: &Asked<'_>, answer: &Answer) -> Outcome {
    classify(asked, answer)
}

/// An outcome on one line: class, scope, code, health.
fn summary(outcome: &Outcome) -> String {
    let (_, verdict) = &outcome.verdicts[0];
    let health = match outcome.health {
        Health::Healthy => "healthy".to_owned(),
        Health::Failing { retry_after: None } => "failing".to_owned(),
        Health::Failing { retry_after: Some(time) } => format!("failing {}s", time.as_secs()),
        Health::Resting { retry_after: None } => "resting".to_owned(),
        Health::Resting { retry_after: Some(time) } => format!("resting {}s", time.as_secs()),
        Health::Misconfigured => "misconfigured".to_owned(),
        Health::MisconfiguredForSenderDomain => "misconfigured for domain".to_owned(),
        Health::Neutral => "neutral".to_owned(),
    };
    format!("{} {} {} / {health}", verdict.class.as_str(), verdict.scope.as_str(), verdict.code)
}

fn one(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> String {
    summary(&judged(&asked(1, UnknownOutcome::Resend), &answer(status, headers, body)))
}

#[test]
fn each_status_alone_means_what_the_contract_says() {
    let resend = asked(1, UnknownOutcome::Resend);
    let table = [
        (200, "ACCEPTED RECIPIENT 200 / healthy"),
        (201, "ACCEPTED RECIPIENT 201 / healthy"),
        (202, "ACCEPTED RECIPIENT 202 / healthy"),
        (204, "ACCEPTED RECIPIENT 204 / healthy"),
        (207, "ACCEPTED RECIPIENT 207 / healthy"),
        (301, "MISCONFIGURED PROVIDER 301 / misconfigured"),
        (302, "MISCONFIGURED PROVIDER 302 / misconfigured"),
        (304, "MISCONFIGURED PROVIDER 304 / misconfigured"),
        (308, "MISCONFIGURED PROVIDER 308 / misconfigured"),
        (400, "UNFIT_HERE MESSAGE_AT_PROVIDER 400 / healthy"),
        (401, "MISCONFIGURED ACCOUNT 401 / misconfigured"),
        (402, "QUOTA_USED_UP ACCOUNT 402 / resting"),
        (403, "MISCONFIGURED ACCOUNT 403 / misconfigured"),
        (404, "MISCONFIGURED PROVIDER 404 / misconfigured"),
        (405, "MISCONFIGURED PROVIDER 405 / misconfigured"),
        (406, "MISCONFIGURED PROVIDER 406 / misconfigured"),
        (407, "MISCONFIGURED ACCOUNT 407 / misconfigured"),
        (408, "UNAVAILABLE PROVIDER 408 / failing"),
        (409, "OUTCOME_UNKNOWN WIRE 409 / failing"),
        (410, "MISCONFIGURED PROVIDER 410 / misconfigured"),
        (413, "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
        (415, "MISCONFIGURED PROVIDER 415 / misconfigured"),
        (418, "UNFIT_HERE MESSAGE_AT_PROVIDER 418 / healthy"),
        (422, "UNFIT_HERE MESSAGE_AT_PROVIDER 422 / healthy"),
        (425, "UNAVAILABLE PROVIDER 425 / failing"),
        (429, "THROTTLED PROVIDER 429 / resting"),
        (431, "UNFIT_HERE MESSAGE_AT_PROVIDER 431 / healthy"),
        (500, "UNAVAILABLE PROVIDER 500 / failing"),
        (501, "MISCONFIGURED PROVIDER 501 / misconfigured"),
        (502, "OUTCOME_UNKNOWN WIRE 502 / failing"),
        (503, "UNAVAILABLE PROVIDER 503 / failing"),
        (504, "OUTCOME_UNKNOWN WIRE 504 / failing"),
        (511, "MISCONFIGURED ACCOUNT 511 / misconfigured"),
        (520, "OUTCOME_UNKNOWN WIRE 520 / failing"),
        (999, "OUTCOME_UNKNOWN WIRE 999 / failing"),
    ];
    for (status, expected) in table {
        assert_eq!(summary(&judged(&resend, &answer(status, &[], ""))), expected);
    }
}

#[test]
fn under_hold_what_may_have_been_sent_is_unknown_and_the_rest_is_the_same() {
    let hold = asked(1, UnknownOutcome::Hold);
    let error = r#"{"error":"out of memory"}"#;
    let table = [
        (200, "", Class::Accepted),
        (200, error, Class::OutcomeUnknown),
        (408, "", Class::OutcomeUnknown),
        (429, "", Class::Throttled),
        (500, "", Class::OutcomeUnknown),
        (500, r#"{"error":{"class":"unavailable"}}"#, Class::Unavailable),
        (502, "", Class::OutcomeUnknown),
        (503, "", Class::Unavailable),
    ];
    for (status, body, class) in table {
        let outcome = judged(&hold, &answer(status, &[], body));
        assert_eq!(outcome.verdicts[0].1.class, class, "{status} {body}");
    }
}

#[test]
fn the_body_is_read_beside_the_status() {
    let rejected = r#"{"error":{"class":"message_rejected","code":"content","detail":"no"}}"#;
    let domain = r#"{"error":{"class":"misconfigured","scope":"sender_domain"}}"#;
    let table = [
        // A 200 is not an acceptance whatever its body says.
        (200, r#"{"id":"7","status":"accepted"}"#, "ACCEPTED RECIPIENT 200 / healthy"),
        (200, "thank you", "ACCEPTED RECIPIENT 200 / healthy"),
        (200, r#"{"status":"error"}"#, "UNAVAILABLE PROVIDER 200 / failing"),
        (200, r#"{"success":false}"#, "UNAVAILABLE PROVIDER 200 / failing"),
        (200, r#"{"status":"rejected"}"#, "MESSAGE_REJECTED MESSAGE 200 / healthy"),
        (202, r#"{"status":"deferred"}"#, "DEFERRED RECIPIENT_AT_PROVIDER 202 / healthy"),
        (200, rejected, "MESSAGE_REJECTED MESSAGE 200 content / healthy"),
        (200, r#"{"error":{"class":"throttled"}}"#, "THROTTLED PROVIDER 200 / resting"),
        // Its class outranks the status.
        (400, r#"{"error":{"class":"unavailable"}}"#, "UNAVAILABLE PROVIDER 400 / failing"),
        (403, domain, "MISCONFIGURED SENDER_DOMAIN 403 / misconfigured for domain"),
        (429, r#"{"error":{"class":"quota_used_up"}}"#, "QUOTA_USED_UP ACCOUNT 429 / resting"),
        (502, r#"{"error":{"class":"unavailable"}}"#, "UNAVAILABLE PROVIDER 502 / failing"),
        (503, r#"{"error":{"class":"outcome_unknown"}}"#, "OUTCOME_UNKNOWN WIRE 503 / failing"),
        // Whoever redirects is not the gateway.
        (302, r#"{"error":{"class":"unavailable"}}"#, "MISCONFIGURED PROVIDER 302 / misconfigured"),
        // Without a class the status decides, and a refusal counts for every provider only if the gateway made it.
        (400, r#"{"error":{"code":"subject"}}"#, "MESSAGE_REJECTED MESSAGE 400 subject / healthy"),
        (422, r#"{"title":"Bad subject","status":422}"#, "MESSAGE_REJECTED MESSAGE 422 / healthy"),
        (422, "bad subject", "UNFIT_HERE MESSAGE_AT_PROVIDER 422 / healthy"),
        (422, r#"{"error":{"class":"recipient_rejected"}}"#, "RECIPIENT_REJECTED RECIPIENT 422 / healthy"),
        (409, r#"{"status":"in_progress"}"#, "OUTCOME_UNKNOWN WIRE 409 / healthy"),
        (409, "conflict", "OUTCOME_UNKNOWN WIRE 409 / failing"),
        // A class that is none, or that contradicts the error, says nothing.
        (503, r#"{"error":{"class":"tired"}}"#, "UNAVAILABLE PROVIDER 503 / failing"),
        (503, r#"{"error":{"class":"accepted"}}"#, "UNAVAILABLE PROVIDER 503 / failing"),
        (503, r#"{"id":"7","status":"accepted"}"#, "UNAVAILABLE PROVIDER 503 / failing"),
    ];
    for (status, body, expected) in table {
        assert_eq!(one(status, &[], body), expected, "{status} {body}");
    }
}

#[test]
fn a_web_page_is_nobodys_acceptance() {
    let html = [("content-type", "text/html; charset=utf-8")];
    let json = [("content-type", "application/json")];
    let table = [
        (200, &html[..], "<p>Sign in</p>", "MISCONFIGURED PROVIDER 200 / misconfigured"),
        // Some frameworks call whatever they answer HTML.
        (200, &html[..], "", "ACCEPTED RECIPIENT 200 / healthy"),
        (200, &html[..], r#"{"id":"gw-1"}"#, "ACCEPTED RECIPIENT 200 / healthy"),
        (200, &[], "\u{feff}\n<!DOCTYPE HTML><p>Sign in</p>", "MISCONFIGURED PROVIDER 200 / misconfigured"),
        (200, &json[..], "<html></html>", "MISCONFIGURED PROVIDER 200 / misconfigured"),
        (200, &[], "<xml/>", "ACCEPTED RECIPIENT 200 / healthy"),
        (400, &html[..], "<h1>Bad Request</h1>", "MISCONFIGURED PROVIDER 400 / misconfigured"),
        (413, &html[..], "<h1>Too Large</h1>", "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / healthy"),
        (429, &html[..], "<h1>Slow down</h1>", "THROTTLED PROVIDER 429 / resting"),
        (502, &html[..], "<h1>Bad Gateway</h1>", "OUTCOME_UNKNOWN WIRE 502 / failing"),
        (503, &html[..], "<h1>Unavailable</h1>", "UNAVAILABLE PROVIDER 503 / failing"),
    ];
    for (status, headers, body, expected) in table {
        assert_eq!(one(status, headers, body), expected, "{status} {body}");
    }
}

#[test]
fn retry_after_goes_with_what_it_is_about() {
    let seconds = [("retry-after", "120")];
    let table = [
        (429, "", "THROTTLED PROVIDER 429 / resting 120s"),
        (402, "", "QUOTA_USED_UP ACCOUNT 402 / resting 120s"),
        (500, "", "UNAVAILABLE PROVIDER 500 / failing 120s"),
        (503, "", "UNAVAILABLE PROVIDER 503 / failing 120s"),
        (504, "", "OUTCOME_UNKNOWN WIRE 504 / failing 120s"),
        (200, r#"{"error":{"class":"throttled"}}"#, "THROTTLED PROVIDER 200 / resting 120s"),
        (202, "", "ACCEPTED RECIPIENT 202 / healthy"),
    ];
    for (status, body, expected) in table {
        assert_eq!(one(status, &seconds, body), expected, "{status} {body}");
    }
    let date = [("retry-after", "Thu, 01 Jan 1970 00:00:30 GMT")];
    assert_eq!(one(429, &date, ""), "THROTTLED PROVIDER 429 / resting 30s");
}

#[test]
fn an_answer_that_breaks_off_is_judged_by_its_status_unless_that_says_accepted() {
    let table = [
        (200, "OUTCOME_UNKNOWN WIRE 200 / failing"),
        (401, "MISCONFIGURED ACCOUNT 401 / misconfigured"),
        (413, "UNFIT_HERE MESSAGE_AT_PROVIDER 413 / failing"),
        (503, "UNAVAILABLE PROVIDER 503 / failing"),
    ];
    for (status, expected) in table {
        let broken =
            Answer { status, headers: HeaderMap::new(), body: Body::Broken, received_at: SystemTime::UNIX_EPOCH };
        assert_eq!(summary(&judged(&asked(1, UnknownOutcome::Resend), &broken)), expected);
    }
}

#[test]
fn each_recipient_has_its_own_fate() {
    let [a, r, d, u, n] =
        [Class::Accepted, Class::RecipientRejected, Class::Deferred, Class::OutcomeUnknown, Class::UnfitHere];
    let table = [
        (200, r#"{"recipients":[{"index":1,"status":"rejected"},{"index":2,"status":"deferred"}]}"#, [a, r, d]),
        (200, r#"{"recipients":[{"address":"Boris@example.com","status":"rejected"}]}"#, [a, r, a]),
        (200, r#"{"recipients":[{"index":0,"address":"vera@example.com","status":"deferred"}]}"#, [d, a, a]),
        (200, r#"{"recipients":[{"index":7,"status":"rejected"},{"status":"rejected"}]}"#, [a, a, a]),
        (200, r#"{"recipients":[{"index":0,"status":"suppressed"}]}"#, [u, a, a]),
        // Nothing was sent, and those not named are not to blame.
        (422, r#"{"error":{"class":"recipient_rejected"},"recipients":[{"index":0,"status":"rejected"}]}"#, [r, d, d]),
        (422, r#"{"error":{"code":"to"},"recipients":[{"index":0,"status":"rejected"}]}"#, [r, d, d]),
        // It does not say who: another provider may tell.
        (422, r#"{"error":{"class":"recipient_rejected"}}"#, [n, n, n]),
        // Who is said to have been accepted is never offered again, whatever the status.
        (
            503,
            r#"{"recipients":[{"index":0,"status":"accepted"},{"index":1,"status":"deferred"}]}"#,
            [a, d, Class::Unavailable],
        ),
        (
            422,
            r#"{"error":{"class":"message_rejected"},"recipients":[{"index":0,"status":"rejected"}]}"#,
            [r, Class::MessageRejected, Class::MessageRejected],
        ),
    ];
    for (status, body, classes) in table {
        let outcome = judged(&asked(3, UnknownOutcome::Resend), &answer(status, &[], body));
        let got: Vec<Class> = outcome.verdicts.iter().map(|(_, verdict)| verdict.class).collect();
        assert_eq!(got, classes, "{status} {body}");
    }
}

#[test]
fn a_rejected_recipient_says_nothing_against_the_gateway() {
    let bodies = [
        (200, r#"{"recipients":[{"index":0,"status":"rejected","code":"550 5.1.1","detail":"no such user"}]}"#),
        (422, r#"{"error":{"class":"recipient_rejected","code":"550 5.1.1","detail":"no such user"}}"#),
    ];
    for (status, body) in bodies {
        let outcome = judged(&asked(1, UnknownOutcome::Resend), &answer(status, &[], body));
        assert_eq!(outcome.health, Health::Healthy, "{body}");
        assert_eq!(outcome.verdicts[0].1.class, Class::RecipientRejected, "{body}");
        assert_eq!(outcome.verdicts[0].1.detail, "no such user", "{body}");
        assert!(outcome.verdicts[0].1.code.ends_with("550 5.1.1"), "{body}");
    }
}

#[test]
fn the_words_of_the_answer_are_kept_and_a_page_is_named() {
    let table = [
        (503, "down for\r\nmaintenance", "down for  maintenance"),
        (500, r#"{"error":{"detail":"disk full"}}"#, "disk full"),
        (302, "", "a redirect, which is not followed"),
        (404, "<html><body>secret</body></html>", "a web page in place of an answer"),
        (200, "queued as 12", ""),
        (503, r#"{"uptime":3}"#, ""),
    ];
    for (status, body, detail) in table {
        let outcome = judged(&asked(1, UnknownOutcome::Resend), &answer(status, &[], body));
        assert_eq!(outcome.verdicts[0].1.detail, detail, "{status} {body}");
    }
}

#[test]
fn the_gateways_id_is_kept_where_it_gave_one() {
    let id = |body| judged(&asked(1, UnknownOutcome::Resend), &answer(200, &[], body)).provider_message_id;
    assert_eq!(id(r#"{"id":"abc"}"#).as_deref(), Some("abc"));
    assert_eq!(id("{}"), None);
    assert_eq!(id("garbage \u{fffd}"), None);
}

/// The examples of the published contract, each with the status it stands under and what it says Postrider makes of it.
fn published_examples() -> Vec<(u16, String, String)> {
    let mut examples = Vec::new();
    let (mut status, mut promise) = (0, String::new());
    for line in include_str!("../../../../deploy/gateway/openapi.yaml").lines() {
        if let Some(code) = line.strip_prefix("        '").and_then(|rest| rest.strip_suffix("':")) {
            status = code.parse().expect("a status");
        } else if let Some(text) = line.trim().strip_prefix("x-postrider: ") {
            promise = text.to_owned();
        } else if let Some(body) = line.trim().strip_prefix("value: {").filter(|_| !promise.is_empty()) {
            examples.push((status, format!("{{{body}"), std::mem::take(&mut promise)));
        }
    }
    examples
}

#[test]
fn the_published_contract_keeps_its_word() {
    let examples = published_examples();
    assert!(examples.len() >= 17, "only {} examples were found", examples.len());
    for (status, body, promise) in examples {
        let outcome = judged(&asked(2, UnknownOutcome::Resend), &answer(status, &[], &body));
        let health = match outcome.health {
            Health::Failing { .. } => "Failing".to_owned(),
            Health::Resting { .. } => "Resting".to_owned(),
            other => format!("{other:?}"),
        };
        let got = format!("{} / {health}", outcome.verdicts[0].1.class.as_str());
        assert_eq!(got, promise, "{status} {body}");
    }
}
