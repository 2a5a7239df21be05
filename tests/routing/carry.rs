//! What no provider of a chain can carry: refused at once, or given to a person where it was accepted before.

use std::sync::Arc;

use postrider::{
    proto::v1::{SendEmailRequest, Status},
    sandbox::http::Fault,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{gateway, passed_over, relay, status};
use crate::support::{app::TestApp, caller::email_to, postgres::Database, setup::Setup};

fn large(address: &str) -> SendEmailRequest {
    let mut request = email_to(address);
    request.email.as_mut().unwrap().text = "x".repeat(3_000);
    request
}

#[tokio::test]
async fn what_no_provider_of_its_chain_can_carry_is_refused_with_the_field_and_the_reason() {
    let (first, second, roomy) = (gateway("first").await, gateway("second").await, relay("roomy").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).smtp("roomy", roomy.address());
    let setup = setup
        .set("providers.first.max_bytes", 2_000)
        .set("providers.second.max_bytes", 2_500)
        .set("chains.default", vec!["first", "second"])
        .set("chains.roomy", vec!["first", "roomy"])
        .route("clients = [\"photos\"]", "roomy");
    let app = TestApp::start(&setup).await;
    let refused = app.try_send(large("ada@example.net")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    let named: Vec<(&str, &str)> = details
        .bad_request()
        .expect("BadRequest")
        .field_violations
        .iter()
        .map(|violation| (violation.field.as_str(), violation.description.as_str()))
        .collect();
    let expected = [
        (
            "email",
            "cannot be carried by provider first (message is larger than the 2000 bytes that it takes), nor by any \
             other of chain default",
        ),
        (
            "email",
            "cannot be carried by provider second (message is larger than the 2500 bytes that it takes), nor by any \
             other of chain default",
        ),
    ];
    assert_eq!(named, expected);
    let checked = SendEmailRequest { validate_only: true, ..large("ada@example.net") };
    assert_eq!(app.try_send(checked).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(app.database.count("message").await, 0, "nothing is stored");

    let id = app.send_as("photos", large("ada@example.net")).await;
    let sent = || async { app.database.count(&format!("outbox where id = '{id}' and status = 'SUCCESS_SENT'")).await };
    crate::support::caller::until("it is sent", || async { sent().await == 1 }).await;
    assert_eq!(roomy.inbox().count(), 1);
    app.finish().await;
}

#[tokio::test]
async fn what_was_accepted_is_recalled_though_it_would_be_refused_today() {
    let gateway = gateway("gateway").await;
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().http("gateway", &gateway.url());
    let before = TestApp::start_on(database.clone(), &setup).await;
    let id = before.send(large("ada@example.net")).await;
    before.wait_for(&id, Status::SuccessSent).await;
    before.finish().await;

    let after = TestApp::start_on(database, &setup.set("providers.gateway.max_bytes", 2_000)).await;
    assert_eq!(after.send(large("ada@example.net")).await, id);
    assert_eq!(after.try_send(large("bob@example.net")).await.unwrap_err().code(), Code::InvalidArgument);
    after.finish().await;
}

#[tokio::test]
async fn what_becomes_impossible_later_ends_with_a_person_and_the_reason() {
    let gateway = gateway("gateway").await;
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "1s");
    gateway.set_fault(status(503)).unwrap();
    let before = TestApp::start_on(database.clone(), &setup).await;
    let id = before.send(large("ada@example.net")).await;
    before.wait_for(&id, Status::RequiredResend).await;
    before.finish().await;

    gateway.set_fault(Fault::None).unwrap();
    let after = TestApp::start_on(database, &setup.set("providers.gateway.max_bytes", 2_000)).await;
    let failed = after.wait_for(&id, Status::FailedNotRetryable).await;
    let reason = "message is larger than the 2000 bytes that it takes";
    assert_eq!(passed_over(&failed.skipped), [format!("gateway: {reason}")]);
    assert_eq!(failed.skipped[0].until, None, "never");
    let words = format!("a person: no provider of chain default can carry it: provider gateway: {reason}");
    assert_eq!(failed.waiting_for, words);
    assert_eq!(gateway.inbox().count(), 0);
    after.finish().await;
}

#[tokio::test]
async fn a_process_that_only_answers_calls_refuses_what_it_knows_that_nobody_can_carry() {
    let gateway = gateway("gateway").await;
    let known = Setup::new().http("gateway", &gateway.url()).set("providers.gateway.max_bytes", 2_000);
    let app = TestApp::start(&known.set("process.roles", vec!["api"])).await;
    assert_eq!(app.try_send(large("ada@example.net")).await.unwrap_err().code(), Code::InvalidArgument);
    app.send(email_to("ada@example.net")).await;
    app.finish().await;

    // Without providers in its settings it knows nothing of them.
    let app = TestApp::start(&Setup::new().set("process.roles", vec!["api"])).await;
    let id = app.send(large("ada@example.net")).await;
    assert_eq!(app.status(&id).await.waiting_for, "a free dispatcher");
    app.finish().await;
}
