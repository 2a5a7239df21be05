//! Several recipients: each has its own fate, and only the open ones are offered again.

use postrider::proto::v1::{GetStatusResponse, Mailbox, RecipientState, SendEmailRequest, Status};

use crate::support::{
    app::TestApp,
    caller::{email_to, history},
    http_peer::{Behaviour, HttpPeer, response},
    setup::Setup,
    smtp_peer::{Script, SmtpPeer, say},
};

const LATER: &str = "later@example.net";

/// To three: one is taken, one rejected, one put off.
fn to_three() -> SendEmailRequest {
    let mut request = email_to("taken@example.net");
    let mailbox = |address: &str| Mailbox { address: address.into(), name: String::new() };
    let email = request.email.as_mut().unwrap();
    email.cc = vec![mailbox("gone@example.net")];
    email.bcc = vec![mailbox(LATER)];
    request
}

fn fates(status: &GetStatusResponse) -> Vec<(&str, RecipientState, &str)> {
    status.recipients.iter().map(|one| (one.address.as_str(), one.state(), one.code.as_str())).collect()
}

/// Sends it, and checks what is told while one recipient is open and in the end.
async fn send_to_three(setup: Setup, codes: [&str; 4]) {
    let [taken, gone, put_off, in_the_end] = codes;
    let app = TestApp::start(&setup.set("retry.pause", "500ms")).await;
    let id = app.send(to_three()).await;
    let waiting = app.wait_for(&id, Status::RequiredResend).await;
    let settled = [
        ("taken@example.net", RecipientState::Accepted, taken),
        ("gone@example.net", RecipientState::Rejected, gone),
        (LATER, RecipientState::Open, put_off),
    ];
    assert_eq!(fates(&waiting), settled);
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(fates(&sent)[..2], settled[..2]);
    assert_eq!(fates(&sent)[2], (LATER, RecipientState::Accepted, in_the_end));
    assert_eq!(history(&sent), ["1 ATTEMPT provider DEFERRED", "2 ATTEMPT provider ACCEPTED"]);
    app.finish().await;
}

#[tokio::test]
async fn a_relay_is_offered_the_one_that_is_open_with_the_same_headers() {
    let script = Script::default()
        .on("RCPT TO:<gone", say("550 5.1.1 no such user"))
        .on("RCPT TO:<later", say("450 4.2.0 greylisted"));
    let relay = SmtpPeer::start([script]).await;
    let codes = ["250 2.0.0", "550 5.1.1", "450 4.2.0", "250 2.0.0"];
    send_to_three(Setup::new().smtp("provider", relay.address), codes).await;

    let seen = relay.seen();
    let offered: Vec<String> =
        seen.commands.concat().into_iter().filter(|command| command.starts_with("RCPT TO:")).collect();
    assert_eq!(offered.len(), 4, "{offered:?}");
    assert!(offered[3].starts_with(&format!("RCPT TO:<{LATER}>")), "{offered:?}");
    assert_eq!(seen.stored.len(), 2);
    assert!(seen.stored[0] == seen.stored[1], "the message itself is the same to the byte");
}

#[tokio::test]
async fn a_gateway_is_offered_the_one_that_is_open_with_the_same_headers_and_key() {
    let fate = |index, status, code| format!(r#"{{"index":{index},"status":"{status}","code":"{code}"}}"#);
    let fates = [fate(1, "rejected", "550 5.1.1"), fate(2, "deferred", "451 4.7.1")].join(",");
    let answer = |body: &str| Behaviour::Answer(response(200, "content-type: application/json\r\n", body));
    let first = answer(&format!(r#"{{"id":"g-1","recipients":[{fates}]}}"#));
    let mut gateway = HttpPeer::start(&[first, answer(r#"{"id":"g-1"}"#)]).await;
    send_to_three(Setup::new().http("provider", &gateway.url()), ["200", "550 5.1.1", "451 4.7.1", "200"]).await;

    let (one, two) = (gateway.request().await, gateway.request().await);
    assert!(gateway.is_quiet());
    assert_eq!(one.header("idempotency-key"), two.header("idempotency-key"));
    let (mut one, mut two) = (one.json(), two.json());
    let (offered, again) = (one["recipients"].take(), two["recipients"].take());
    assert_eq!((offered.as_array().unwrap().len(), again.as_array().unwrap().len()), (3, 1));
    assert_eq!(again[0], offered[2]);
    assert_eq!(one, two, "the message itself is the same");
}
