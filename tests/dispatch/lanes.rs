//! Lanes share a dispatcher, can be paused, and contents do not fill the memory.

use std::time::Duration;

use postrider::{
    api::DEFAULT_CLIENT,
    proto::v1::{Attachment, Priority, SetLaneModeRequest, Status},
    sandbox::{Inbox, http::Fault},
};
use tonic::Code;

use super::{arrived, gateway};
use crate::support::{
    app::TestApp,
    caller::{PATIENCE, email_to, emails, until},
    setup::Setup,
};

async fn arrived_at(inbox: &Inbox, address: &str) {
    let arrived = inbox.wait_until(|inbox| !inbox.by_recipient(address).is_empty(), PATIENCE).await;
    arrived.expect("it arrives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_floods_delays_another_by_no_more_than_what_is_taken_already() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Delay(Duration::from_millis(5))).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url()).set("providers.gateway.concurrency", 2);
    let app = TestApp::start(&setup).await;
    // Its lane is known.
    app.send_as("single", email_to("first@example.net")).await;
    arrived_at(&gateway.inbox(), "first@example.net").await;
    let flood = app.send_all(emails("flood", 400)).await;
    let before = gateway.inbox().count();
    app.send_as("single", email_to("single@example.net")).await;
    arrived_at(&gateway.inbox(), "single@example.net").await;
    let mail = gateway.inbox().by_recipient("single@example.net").remove(0);
    // What is taken is twice what is sent at once; the rest comes while it is accepted and claimed.
    assert!(mail.number < before + 60, "{} came before it, {before} before it was accepted", mail.number);
    assert!(gateway.inbox().count() < 401, "the flood was over by then");
    app.wait_for_all(&flood, Status::SuccessSent).await;
    app.finish().await;
}

fn lane(paused: bool) -> SetLaneModeRequest {
    SetLaneModeRequest {
        chain: "default".into(),
        priority: Priority::Normal.into(),
        client: DEFAULT_CLIENT.into(),
        paused,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_lane_waits_until_it_goes_on_and_the_others_do_not() {
    let gateway = gateway().await;
    let setup = Setup::new().http("gateway", &gateway.url());
    let app = TestApp::start(&setup.set("dispatch.poll_shortest", "30s").set("dispatch.poll_longest", "30s")).await;
    let first = app.send(email_to("first@example.net")).await;
    app.wait_for(&first, Status::SuccessSent).await;
    assert!(app.set_lane_mode(lane(true)).await.unwrap());
    // Once it has heard of it, nothing of the lane goes straight to the provider either.
    let mut paused = Vec::new();
    for nth in 0.. {
        let id = app.send(email_to(&format!("paused-{nth}@example.net"))).await;
        let other = format!("other-{nth}@example.net");
        app.send_as("other", email_to(&other)).await;
        arrived_at(&gateway.inbox(), &other).await;
        match app.status(&id).await.status() {
            Status::NotYetSent if paused.len() == 5 => break,
            Status::NotYetSent => paused.push(id),
            _ => assert!(paused.is_empty() && nth < 100, "it was sent though the lane is paused"),
        }
    }
    assert!(!app.set_lane_mode(lane(false)).await.unwrap());
    app.wait_for_all(&paused, Status::SuccessSent).await;

    let refused = app.set_lane_mode(SetLaneModeRequest { chain: "defualt".into(), ..lane(true) }).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let empty = SetLaneModeRequest { priority: 0, client: String::new(), ..lane(true) };
    assert!(app.set_lane_mode(empty).await.unwrap_err().message().contains("2 violations"));
    until("nothing waits", || async { app.database.count("pending").await == 0 }).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_content_is_held_than_the_settings_allow() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Silent).unwrap();
    // With its MIME form each takes half of it.
    let setup = Setup::new().http("gateway", &gateway.url()).set("dispatch.content_bytes", 1024 * 1024);
    let app = TestApp::start(&setup.set("dispatch.drain_limit", "0ms")).await;
    let large = |nth: usize| {
        let mut request = email_to(&format!("ada-{nth}@example.net"));
        let content = vec![b'x'; 210_000];
        let attachment = Attachment {
            filename: "a.txt".into(),
            content_type: "text/plain".into(),
            content: content.into(),
            ..Default::default()
        };
        request.email.as_mut().unwrap().attachments.push(attachment);
        request
    };
    let ids = app.send_all((0..20).map(large)).await;
    let taken = || async { app.database.count("pending where status = 'IN_PROCESS'").await == 20 };
    until("all are taken", taken).await;
    until("two are sent", || async { gateway.connections() == 2 }).await;
    // What waits keeps its lease, and goes on as soon as there is room.
    gateway.set_fault(Fault::Delay(Duration::from_millis(5))).unwrap();
    gateway.cut_connections();
    arrived(&gateway.inbox(), 18).await;
    app.wait_for_all(&ids, Status::SuccessSent).await;
    app.finish().await;
}
