//! While no provider is to be had: messages wait, and waiting costs nothing and ends by itself.

use postrider::{proto::v1::Status, sandbox::http};

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{email_to, emails, history},
    http_peer::{Behaviour, HttpPeer, response},
    setup::Setup,
};

#[tokio::test]
async fn behind_an_open_circuit_messages_wait_at_no_cost_and_go_on_by_themselves() {
    let down = Behaviour::Answer(response(503, "", ""));
    let well = Behaviour::Answer(response(200, "content-type: application/json\r\n", r#"{"id":"g-1"}"#));
    let mut gateway = HttpPeer::start(&[down.clone(), down.clone(), down, well]).await;
    let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "100ms");
    let setup = setup.set("providers.gateway.breaker.min_calls", 3).set("providers.gateway.breaker.open_for", "1s");
    let app = TestApp::start(&setup).await;
    let broke = app.send_all(emails("broke", 3)).await;
    for _ in &broke {
        gateway.request().await;
    }
    for id in &broke {
        app.wait(id, |status| status.waiting_for.starts_with("circuit of provider gateway is open until ")).await;
    }

    let waiting = app.send_all(emails("waiting", 20)).await;
    for id in &waiting {
        let status = app.status(id).await;
        assert_eq!((status.status(), status.rounds, status.events.len()), (Status::NotYetSent, 0, 0));
        assert!(status.waiting_for.starts_with("circuit of provider gateway is open until "), "{}", status.waiting_for);
    }
    assert!(gateway.is_quiet(), "the gateway was asked though its circuit is open");

    for status in app.wait_for_all(&waiting, Status::SuccessSent).await {
        assert_eq!((status.rounds, history(&status)), (1, vec!["1 ATTEMPT gateway ACCEPTED".into()]));
    }
    for status in app.wait_for_all(&broke, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 ATTEMPT gateway UNAVAILABLE", "2 ATTEMPT gateway ACCEPTED"]);
    }
    app.finish().await;
}

#[tokio::test]
async fn an_open_circuit_is_passed_over_without_a_call_and_closes_by_itself() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let setup = setup.set("providers.first.breaker.min_calls", 2).set("providers.first.breaker.open_for", "500ms");
    let app = TestApp::start(&setup).await;
    first.set_fault(http::Fault::Status { code: 503, retry_after: None }).unwrap();
    let ids = app.send_all(emails("broke", 2)).await;
    app.wait_for_all(&ids, Status::SuccessSent).await;
    let id = app.send(email_to("meanwhile@example.net")).await;
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT second ACCEPTED"]);

    first.set_fault(http::Fault::None).unwrap();
    for nth in 0.. {
        let id = app.send(email_to(&format!("later-{nth}@example.net"))).await;
        app.wait_for(&id, Status::SuccessSent).await;
        if first.inbox().count() >= 3 {
            break;
        }
        assert!(nth < 10_000, "the circuit never closes");
    }
    app.finish().await;
}
