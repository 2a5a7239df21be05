//! Routes: a message takes the first that it meets, and stays with it.

use std::sync::Arc;

use postrider::proto::v1::{Mailbox, Priority, SendEmailRequest, Status};

use super::{gateway, status, taken_by};
use crate::support::{app::TestApp, caller::email_to, postgres::Database, setup::Setup};

fn tagged(address: &str, tag: &str) -> SendEmailRequest {
    let mut request = email_to(address);
    request.email.as_mut().unwrap().tags.push(tag.into());
    request
}

#[tokio::test]
async fn each_message_takes_the_first_route_that_it_meets() {
    let (usual, inside, mass) = (gateway("usual").await, gateway("inside").await, gateway("mass").await);
    let setup = Setup::new().http("inside", &inside.url()).http("mass", &mass.url()).http("usual", &usual.url());
    let setup = setup
        .set("chains.default", vec!["usual"])
        .set("chains.inside", vec!["inside"])
        .set("chains.mass", vec!["mass"])
        .route("recipient_domains = [\"shop.example\"]", "inside")
        .route("priorities = [\"BULK\"]", "mass")
        .route("clients = [\"newsletter\"]\ntags = [\"mass\"]", "mass")
        .route("priorities = [\"HIGH\"]", "default");
    let app = TestApp::start(&setup).await;
    let bulk = |address: &str| SendEmailRequest { priority: Priority::Bulk.into(), ..email_to(address) };
    let high = |address: &str| SendEmailRequest { priority: Priority::High.into(), ..email_to(address) };
    let mut beyond = email_to("a@shop.example");
    let outsider = Mailbox { address: "b@example.net".into(), name: String::new() };
    beyond.email.as_mut().unwrap().bcc.push(outsider);
    let table = [
        ("default", email_to("ada@example.net"), "usual"),
        ("default", email_to("ada@shop.example"), "inside"),
        ("default", beyond, "usual"),
        ("default", bulk("bob@shop.example"), "inside"),
        ("default", bulk("bob@example.net"), "mass"),
        ("default", high("eve@example.net"), "usual"),
        ("default", tagged("tom@example.net", "mass"), "usual"),
        ("newsletter", tagged("tom@example.net", "mass"), "mass"),
        ("newsletter", tagged("tim@example.net", "single"), "usual"),
    ];
    for (client, request, expected) in table {
        let named = format!("{client}: {request:?}");
        let id = app.send_as(client, request).await;
        let chain: String = app.database.scalar(&format!("select chain from message where id = '{id}'")).await;
        assert_eq!(chain, if expected == "usual" { "default" } else { expected }, "{named}");
    }
    let sent = || async { app.database.count("outbox where status = 'SUCCESS_SENT'").await };
    crate::support::caller::until("all are sent", || async { sent().await == 9 }).await;
    assert_eq!((usual.inbox().count(), inside.inbox().count(), mass.inbox().count()), (5, 2, 2));
    app.finish().await;
}

#[tokio::test]
async fn a_message_stays_in_its_chain_when_the_routes_change() {
    let (old, new) = (gateway("old").await, gateway("new").await);
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().http("old", &old.url()).http("new", &new.url()).set("retry.pause", "1s");
    let setup = setup.set("chains.default", vec!["new"]).set("chains.first", vec!["old"]);
    old.set_fault(status(503)).unwrap();
    let routed = setup.clone().route("clients = [\"default\"]", "first");
    let before = TestApp::start_on(database.clone(), &routed).await;
    let id = before.send(email_to("ada@example.net")).await;
    let waiting = before.wait_for(&id, Status::RequiredResend).await;
    assert_eq!(waiting.chain, "first");
    before.finish().await;

    old.set_fault(postrider::sandbox::http::Fault::None).unwrap();
    let after = TestApp::start_on(database, &setup).await;
    let later = after.send(email_to("bob@example.net")).await;
    assert_eq!(taken_by(&after.wait_for(&later, Status::SuccessSent).await), "new");
    assert_eq!(taken_by(&after.wait_for(&id, Status::SuccessSent).await), "old");
    after.finish().await;
}
