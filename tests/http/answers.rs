//! What the gateway's answers come to, over the wire.

use super::*;

#[tokio::test]
async fn an_accepting_answer_counts_whatever_its_body() {
    for body in ["", "garbage", "{\"id\":", "[]", "\u{0}\u{1}"] {
        let outcome = outcome_of(Behaviour::Answer(response(200, "", body)), message()).await;
        assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
        assert_eq!(outcome.provider_message_id, None);
    }
}

#[tokio::test]
async fn a_200_whose_body_says_error_is_not_sent() {
    let answer = response(200, "", r#"{"status":"error","error":{"class":"throttled"}}"#);
    let outcome = outcome_of(Behaviour::Answer(answer), message()).await;
    assert_outcome(&outcome, Class::Throttled, Scope::Provider, "200", Health::Resting { retry_after: None });
}

#[tokio::test]
async fn statuses_are_judged_with_their_headers() {
    let [resend, hold] = [UnknownOutcome::Resend, UnknownOutcome::Hold];
    let resting = |seconds| Health::Resting { retry_after: Some(Duration::from_secs(seconds)) };
    let failing = |seconds| Health::Failing { retry_after: Some(Duration::from_secs(seconds)) };
    let unnamed = Health::Resting { retry_after: None };
    let dates = "date: Tue, 01 Dec 2026 12:00:00 GMT\r\nretry-after: Tue, 01 Dec 2026 12:01:30 GMT\r\n";
    let table = [
        (429, "", resend, Class::Throttled, Scope::Provider, unnamed),
        (429, "retry-after: 7\r\n", resend, Class::Throttled, Scope::Provider, resting(7)),
        (429, dates, resend, Class::Throttled, Scope::Provider, resting(90)),
        (401, "", resend, Class::Misconfigured, Scope::Account, Health::Misconfigured),
        (413, "", resend, Class::UnfitHere, Scope::MessageAtProvider, Health::Healthy),
        (500, "", resend, Class::Unavailable, Scope::Provider, FAILING),
        (500, "", hold, Class::OutcomeUnknown, Scope::Wire, FAILING),
        (502, "", resend, Class::OutcomeUnknown, Scope::Wire, FAILING),
        (503, "retry-after: 30\r\n", hold, Class::Unavailable, Scope::Provider, failing(30)),
    ];
    for (status, headers, policy, class, scope, health) in table {
        let outcome = outcome_of(Behaviour::Answer(response(status, headers, "")), bare(policy)).await;
        assert_outcome(&outcome, class, scope, &status.to_string(), health);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut elsewhere = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = response(status, &format!("location: {}\r\n", elsewhere.url()), "");
        let outcome = outcome_of(Behaviour::Answer(answer), message()).await;
        assert_outcome(&outcome, Class::Misconfigured, Scope::Provider, &status.to_string(), Health::Misconfigured);
    }
    assert!(elsewhere.is_quiet(), "a redirect was followed");
}

#[tokio::test]
async fn a_web_page_with_status_200_is_a_misconfiguration() {
    let page = response(200, "content-type: text/html\r\n", "<html><body>Sign in</body></html>");
    let outcome = outcome_of(Behaviour::Answer(page), message()).await;
    assert_outcome(&outcome, Class::Misconfigured, Scope::Provider, "200", Health::Misconfigured);
}

#[tokio::test]
async fn an_endless_body_is_cut() {
    let endless = |status: &str| Behaviour::Endless(format!("HTTP/1.1 {status}\r\n\r\n"));
    let outcome = outcome_of(endless("200 OK"), message()).await;
    assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
    let outcome = outcome_of(endless("503 No"), message()).await;
    assert_outcome(&outcome, Class::Unavailable, Scope::Provider, "503", FAILING);
}

#[tokio::test]
async fn a_trickling_body_is_ended_by_the_timeout() {
    let trickle = |status: &str| Behaviour::Trickle(format!("HTTP/1.1 {status}\r\ncontent-length: 60000\r\n\r\n"));
    let outcome = outcome_at_the_timeout(trickle("200 OK")).await;
    assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, "200", FAILING);
    let outcome = outcome_at_the_timeout(trickle("413 No")).await;
    assert_outcome(&outcome, Class::UnfitHere, Scope::MessageAtProvider, "413", FAILING);
}
