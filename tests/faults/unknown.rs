//! Nobody can know whether it was sent: never another provider blindly, and a duplicate only where that was chosen.

use postrider::{
    proto::v1::Status,
    sandbox::{http, smtp},
};

use super::{arrivals, gateway, relay};
use crate::support::{
    app::TestApp,
    caller::{email_to, held, history},
    http_peer::{Behaviour, HttpPeer, response},
    setup::Setup,
    smtp_peer::{Act, Script, SmtpPeer},
};

fn accepted() -> Behaviour {
    Behaviour::Answer(response(200, "content-type: application/json\r\n", r#"{"id":"g-1"}"#))
}

#[tokio::test]
async fn a_silent_gateway_is_asked_again_under_the_same_key_and_nobody_else() {
    let (mut first, second) = (HttpPeer::start(&[Behaviour::Silent, accepted()]).await, relay("second").await);
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    let app = TestApp::start(&setup.set("providers.first.timeout", "300ms")).await;
    let id = app.send(email_to("ada@example.net")).await;

    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first ACCEPTED"]);
    let (one, two) = (first.request().await, first.request().await);
    assert_eq!(one.header("idempotency-key"), Some(id.as_str()));
    assert_eq!(one.header("idempotency-key"), two.header("idempotency-key"));
    assert_eq!(one.json(), two.json());
    assert_eq!(second.inbox().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn a_relay_that_is_gone_after_the_final_dot_is_sent_the_same_bytes_again_and_nobody_else() {
    for act in [Act::StoreAndClose, Act::Silence] {
        let stores = matches!(act, Act::StoreAndClose);
        let first = SmtpPeer::start([Script::default().on(".", act)]).await;
        let second = gateway("second").await;
        let setup = Setup::new().smtp("first", first.address).http("second", &second.url());
        let app = TestApp::start(&setup.set("providers.first.data_timeout", "300ms")).await;
        let id = app.send(email_to("ada@example.net")).await;

        let status = app.wait_for(&id, Status::SuccessSent).await;
        assert_eq!(history(&status), ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first ACCEPTED"]);
        assert_eq!(second.inbox().count(), 0);
        let stored = first.seen().stored;
        assert_eq!(stored.len(), 1 + usize::from(stores));
        assert!(stored.windows(2).all(|pair| pair[0] == pair[1]), "another Message-ID, Date or boundary");
        assert!(String::from_utf8_lossy(&stored[0]).contains(&format!("Message-ID: <{id}@")));
        app.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_of_the_final_dot_is_definite_and_a_lost_reply_is_not() {
    let relay = relay("relay").await;
    let app = TestApp::start(&Setup::new().smtp("relay", relay.address())).await;
    let reply = smtp::Reply::new(451, "4.2.0 not now");
    for (fault, class) in [
        (smtp::Fault::Status { stage: smtp::Stage::Dot, reply }, "DEFERRED"),
        (smtp::Fault::DropAfterDot { stored: false }, "OUTCOME_UNKNOWN"),
    ] {
        relay.set_fault(fault).unwrap();
        let id = app.send(held(email_to(&format!("{class}@example.net")))).await;
        let status = app.wait(&id, |status| !status.events.is_empty()).await;
        assert_eq!(history(&status)[0], format!("1 ATTEMPT relay {class}"));
        relay.set_fault(smtp::Fault::None).unwrap();
        match class {
            "DEFERRED" => drop(app.wait_for(&id, Status::SuccessSent).await),
            _ => drop(app.wait_for(&id, Status::FailedOutcomeUnknown).await),
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn under_hold_a_person_decides_where_the_relay_may_have_it() {
    let (first, second) = (relay("first").await, gateway("second").await);
    let setup = Setup::new().smtp("first", first.address()).http("second", &second.url());
    let app = TestApp::start(&setup).await;
    first.set_fault(smtp::Fault::DropAfterDot { stored: true }).unwrap();
    let id = app.send(held(email_to("ada@example.net"))).await;

    let status = app.wait_for(&id, Status::FailedOutcomeUnknown).await;
    assert_eq!(history(&status), ["1 ATTEMPT first OUTCOME_UNKNOWN"]);
    assert!(status.waiting_for.starts_with("a person: "), "{}", status.waiting_for);
    let provider: String = app.database.scalar(&format!("select provider from pending where id = '{id}'")).await;
    assert_eq!(provider, "first", "the row says who may have it");
    assert_eq!((arrivals(&first.inbox()), second.inbox().count()), (vec![1], 0));
    app.finish().await;
}

#[tokio::test]
async fn under_hold_a_gateway_that_knows_its_keys_is_asked_again_and_nobody_else() {
    let (first, second) = (gateway("first").await, relay("second").await);
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    let app = TestApp::start(&setup.set("retry.pause", "200ms")).await;
    first.set_fault(http::Fault::DropAfterAccept).unwrap();
    let id = app.send(held(email_to("ada@example.net"))).await;
    app.wait(&id, |status| status.status() == Status::RequiredResend).await;
    // Now it is not there at all: another provider would be asked if it could be.
    first.set_fault(http::Fault::Refuse).unwrap();
    app.wait(&id, |status| status.events.len() >= 2).await;
    first.set_fault(http::Fault::None).unwrap();

    let status = app.wait_for(&id, Status::SuccessSent).await;
    let told = history(&status);
    assert_eq!(told[..2], ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first UNAVAILABLE"]);
    assert!(told.iter().all(|line| line.contains(" first ")) && told.last().unwrap().ends_with("ACCEPTED"), "{told:?}");
    assert_eq!((arrivals(&first.inbox()), second.inbox().count()), (vec![2], 0));
    app.finish().await;
}

#[tokio::test]
async fn what_a_broken_off_answer_leaves_unknown_arrives_once_where_keys_are_known() {
    let gateway = gateway("gateway").await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url()).set("retry.max_rounds", 1000)).await;
    gateway.set_fault(http::Fault::DropAfterAccept).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    app.wait(&id, |status| !status.events.is_empty()).await;
    gateway.set_fault(http::Fault::None).unwrap();

    app.wait_for(&id, Status::SuccessSent).await;
    let mails = gateway.inbox().by_recipient("ada@example.net");
    assert_eq!(mails.len(), 1, "one mail");
    assert!(mails[0].repeats >= 1, "though it came again");
    app.finish().await;
}
