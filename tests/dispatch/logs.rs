//! What stands in the log when things go wrong: never an address, a subject or a body.

use postrider::{
    proto::v1::{Mailbox, SendEmailRequest, Status},
    sandbox::{http, smtp},
};

use super::{gateway, relay};
use crate::support::{
    caller::{email_to, history, until},
    postgres::Database,
    process::Process,
    setup::Setup,
};

/// What must stand nowhere: each occurs in one of the messages below.
const SECRETS: [&str; 5] = ["ada-secret", "shop-secret", "subject-secret", "body-secret", "name-secret"];

fn secret(nth: usize) -> SendEmailRequest {
    let mut request = email_to(&format!("ada-secret-{nth}@example.net"));
    let email = request.email.as_mut().unwrap();
    email.from = Some(Mailbox { address: "shop-secret@shop.example".into(), name: "name-secret".into() });
    email.subject = "subject-secret".into();
    email.text = "body-secret".into();
    SendEmailRequest { idempotency_key: format!("key-{nth}"), ..request }
}

#[tokio::test]
async fn nothing_of_a_message_is_logged_whatever_fails() {
    let (database, gateway, relay) = (Database::new().await, gateway().await, relay().await);
    let setup = Setup::new().http("gateway", &gateway.url()).smtp("relay", relay.address());
    let setup = setup.set("dispatch.lease", "1s").set("telemetry.log_level", "debug,postrider=trace,sqlx=trace");
    let service = Process::start(&database, &setup).await;

    // A row that the database refuses: the error's DETAIL holds all of it.
    database.execute("alter table message add constraint refused check (sender <> 'shop-secret@shop.example')").await;
    let refused = service.try_send(secret(0)).await.expect_err("the row is refused");
    assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    database.execute("alter table message drop constraint refused").await;

    // An outcome that the database refuses, with the provider's words in it.
    database.execute("alter table event add constraint refused check (detail not like '%secret%')").await;
    gateway.set_fault(http::Fault::Refuse).unwrap();
    let said = smtp::Reply::new(550, "5.1.1 no mailbox ada-secret-1@example.net for subject-secret");
    relay.set_fault(smtp::Fault::Status { stage: smtp::Stage::Rcpt, reply: said }).unwrap();
    let unwritten = service.send(secret(1)).await;
    service.wrote("an outcome cannot be written").await;
    database.execute("alter table event drop constraint refused").await;
    let status = service.wait_for(&unwritten, Status::FailedNotRetryable).await;
    assert!(history(&status).iter().any(|line| line.contains("TAKEOVER")), "its lease ran out");

    // And what goes well, or is answered with words.
    relay.set_fault(smtp::Fault::None).unwrap();
    gateway.set_fault(http::Fault::Status { code: 400, retry_after: None }).unwrap();
    let rejected = service.send(secret(2)).await;
    service.wait_for(&rejected, Status::FailedNotRetryable).await;
    gateway.set_fault(http::Fault::None).unwrap();
    let sent = service.send(secret(3)).await;
    service.wait_for(&sent, Status::SuccessSent).await;
    until("its end is logged", || async { service.log().matches("\"settled\"").count() >= 3 }).await;

    let log = service.log();
    for line in log.lines() {
        assert!(SECRETS.iter().all(|secret| !line.contains(secret)), "{line}");
    }
    service.finish().await;
}
