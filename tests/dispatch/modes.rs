//! Providers that an operator takes out of rotation, and puts back: in every process, and for as long as he wants.

use std::{sync::Arc, time::Duration};

use postrider::proto::v1::{CircuitState, ProviderMode, Status};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{email_to, history, until},
    postgres::Database,
    setup::Setup,
};

#[tokio::test]
async fn an_operator_turns_a_provider_off_and_on_again_in_every_process() {
    let (database, first, second) = (Arc::new(Database::new().await), gateway().await, gateway().await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let one = TestApp::start_on(database.clone(), &setup).await;
    let other = TestApp::start_on(database.clone(), &setup).await;
    let set = one.set_provider_mode("first", ProviderMode::Off).await.unwrap();
    assert_eq!((set.mode(), set.circuit()), (ProviderMode::Off, CircuitState::Closed));
    until("both know", || async { one.mode_is("first", "off") && other.mode_is("first", "off") }).await;
    for (nth, app) in [&one, &other].into_iter().enumerate() {
        let id = app.send(email_to(&format!("off-{nth}@example.net"))).await;
        assert_eq!(history(&app.wait_for(&id, Status::SuccessSent).await), ["1 ATTEMPT second ACCEPTED"]);
    }
    assert_eq!(first.inbox().count(), 0);

    // With neither, everything waits and says for what.
    one.set_provider_mode("second", ProviderMode::Drain).await.unwrap();
    until("both know", || async { one.mode_is("second", "drain") && other.mode_is("second", "drain") }).await;
    let id = other.send(email_to("waits@example.net")).await;
    let status = other.status(&id).await;
    assert_eq!((status.status(), status.rounds), (Status::NotYetSent, 0));
    assert_eq!(
        status.waiting_for,
        "provider first is turned off by an operator; provider second is being drained for an operator"
    );
    until("it is told", || async { !one.is_serving("postrider.providers").await }).await;
    assert!(one.is_ready().await, "what is accepted is accepted");

    let listed = other.list_providers().await;
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.kind.as_str(), one.mode())).collect();
    assert_eq!(listed, [("first", "http", ProviderMode::Off), ("second", "http", ProviderMode::Drain)]);
    other.set_provider_mode("first", ProviderMode::On).await.unwrap();
    assert_eq!(history(&other.wait_for(&id, Status::SuccessSent).await), ["1 ATTEMPT first ACCEPTED"]);
    until("it is told", || async { one.is_serving("postrider.providers").await }).await;

    for (provider, mode) in [("third", ProviderMode::On), ("first", ProviderMode::Unspecified)] {
        let refused = one.set_provider_mode(provider, mode).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    one.finish().await;
    other.finish().await;
}

#[tokio::test]
async fn an_operators_word_outlives_the_processes() {
    let (database, first, second) = (Arc::new(Database::new().await), gateway().await, gateway().await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let app = TestApp::start_on(database.clone(), &setup).await;
    app.set_provider_mode("first", ProviderMode::Off).await.unwrap();
    app.finish().await;
    let app = TestApp::start_on(database.clone(), &setup).await;
    let id = app.send(email_to("ada@example.net")).await;
    assert_eq!(history(&app.wait_for(&id, Status::SuccessSent).await), ["1 ATTEMPT second ACCEPTED"]);
    app.finish().await;
}

#[tokio::test]
async fn a_process_that_cannot_be_told_reads_an_operators_word_while_it_sends() {
    let (database, first, second) = (Arc::new(Database::new().await), gateway().await, gateway().await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let one = TestApp::start_on(database.clone(), &setup.clone().set("database.pooling", "transaction")).await;
    let other = TestApp::start_on(database.clone(), &setup.set("process.roles", json!(["api"]))).await;
    other.set_provider_mode("first", ProviderMode::Off).await.unwrap();
    let began = Instant::now();
    for nth in 0.. {
        let id = one.send(email_to(&format!("ada-{nth}@example.net"))).await;
        if history(&one.wait_for(&id, Status::SuccessSent).await) == ["1 ATTEMPT second ACCEPTED"] {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(8), "it would have read it by saying that it is there");
    }
    one.finish().await;
    other.finish().await;
}
