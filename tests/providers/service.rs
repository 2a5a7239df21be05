//! A service whose provider is one of these kinds, from `SendEmail` to what `GetStatus` tells.

use postrider::proto::v1::{GetStatusResponse, Mailbox, RecipientState, SendEmailRequest, Status};

use super::{Behaviour, HttpPeer, JSON, response};
use crate::support::{
    app::TestApp,
    caller::{email_to, history},
    setup::Setup,
    smtp_peer::{Script, SmtpPeer},
};

const ANNA: &str = "anna@example.net";
const BORIS: &str = "boris@example.net";
const VERA: &str = "vera@example.net";

fn to_three() -> SendEmailRequest {
    let mut request = email_to(ANNA);
    let mailbox = |address: &str| Mailbox { address: address.into(), name: String::new() };
    let email = request.email.as_mut().unwrap();
    email.cc = vec![mailbox(BORIS)];
    email.bcc = vec![mailbox(VERA)];
    request
}

fn fates(status: &GetStatusResponse) -> Vec<(&str, RecipientState)> {
    status.recipients.iter().map(|one| (one.address.as_str(), one.state())).collect()
}

#[tokio::test]
async fn a_recipient_that_postmark_leaves_out_is_rejected_and_the_others_are_sent() {
    let message = format!("Message OK, but will not deliver to these inactive addresses: {BORIS}");
    let body = serde_json::json!({"ErrorCode": 0, "Message": message, "MessageID": "pm-1"}).to_string();
    let mut postmark = HttpPeer::start(&[Behaviour::Answer(response(200, JSON, &body))]).await;
    let app = TestApp::start(&Setup::new().api("mail", "postmark", &postmark.base())).await;
    let id = app.send(to_three()).await;
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    let expected =
        [(ANNA, RecipientState::Accepted), (BORIS, RecipientState::Rejected), (VERA, RecipientState::Accepted)];
    assert_eq!(fates(&sent), expected);
    assert_eq!(postmark.request().await.json()["Metadata"]["postrider_id"], id);
    assert!(postmark.is_quiet());
    app.finish().await;
}

#[tokio::test]
async fn who_is_left_when_sendgrid_refuses_one_goes_by_the_next_provider_in_the_same_round() {
    let error = serde_json::json!({"message": "not valid", "field": "personalizations.0.cc.0.email"});
    let body = serde_json::json!({"errors": [error]}).to_string();
    let sendgrid = HttpPeer::start(&[Behaviour::Answer(response(400, JSON, &body))]).await;
    let relay = SmtpPeer::start([Script::default()]).await;
    let setup = Setup::new().api("first", "sendgrid", &sendgrid.base()).smtp("second", relay.address);
    let app = TestApp::start(&setup).await;
    let id = app.send(to_three()).await;
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    let expected =
        [(ANNA, RecipientState::Accepted), (BORIS, RecipientState::Rejected), (VERA, RecipientState::Accepted)];
    assert_eq!(fates(&sent), expected);
    assert_eq!(history(&sent), ["1 ATTEMPT first UNFIT_HERE", "1 ATTEMPT second ACCEPTED"]);
    let commands = relay.seen().commands.concat();
    let offered = commands.iter().filter(|command| command.starts_with("RCPT TO:")).count();
    assert_eq!(offered, 2, "{commands:?}");
    app.finish().await;
}
