//! Messages that are called off while a dispatcher has them.

use std::{sync::Arc, time::Duration};

use axum::{Router, http::StatusCode};
use postrider::{proto::v1::Status, sandbox::http::Fault};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use super::{arrived, gateway};
use crate::support::{
    app::TestApp,
    caller::{email_to, history},
    setup::Setup,
};

#[tokio::test]
async fn what_waits_for_its_turn_at_a_provider_is_not_sent() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Delay(Duration::from_secs(2))).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url()).set("providers.gateway.concurrency", 1);
    let app = TestApp::start(&setup).await;
    let first = app.send(email_to("first@example.net")).await;
    arrived(&gateway.inbox(), 1).await;
    let second = app.send(email_to("second@example.net")).await;
    app.wait_for(&second, Status::InProcess).await;

    let answer = app.cancel(&second).await;
    assert_eq!((answer.status(), answer.may_have_been_sent), (Status::InProcess, true));
    assert_eq!(app.cancel(&first).await.status(), Status::InProcess);
    let told = app.wait_for(&second, Status::Canceled).await;
    assert_eq!(history(&told), ["CANCELED"]);
    let told = app.wait_for(&first, Status::SuccessSent).await;
    assert_eq!(history(&told), ["1 ATTEMPT gateway ACCEPTED"], "it was under way");
    assert_eq!(gateway.inbox().count(), 1);
    app.finish().await;
}

/// A provider that says when it was asked, and answers 503 once it may.
async fn reluctant(asked: Arc<Notify>, may_answer: Arc<Notify>) -> (String, JoinHandle<()>) {
    let answer = move || {
        let (asked, may_answer) = (asked.clone(), may_answer.clone());
        async move {
            asked.notify_one();
            may_answer.notified().await;
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/emails", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    (url, serving)
}

#[tokio::test]
async fn no_further_provider_is_asked() {
    let (asked, may_answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (primary, serving) = reluctant(asked.clone(), may_answer.clone()).await;
    let backup = gateway().await;
    let app = TestApp::start(&Setup::new().http("primary", &primary).http("backup", &backup.url())).await;
    let id = app.send(email_to("ada@example.net")).await;
    asked.notified().await;
    for _ in 0..2 {
        assert_eq!(app.cancel(&id).await.status(), Status::InProcess);
    }
    may_answer.notify_one();
    let told = app.wait_for(&id, Status::Canceled).await;
    assert_eq!(history(&told), ["1 ATTEMPT primary UNAVAILABLE", "CANCELED"]);
    assert_eq!(backup.inbox().count(), 0);
    assert_eq!(app.cancel(&id).await.status(), Status::Canceled);
    app.finish().await;
    serving.abort();
}
