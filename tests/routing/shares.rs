//! Providers that share a place: load by weight, the same choice each time, the others next in line.

use std::collections::BTreeMap;

use postrider::{proto::v1::Status, sandbox::http::Fault};

use super::{gateway, status, taken_by};
use crate::support::{
    app::TestApp,
    caller::{email_to, emails, history},
    setup::Setup,
};

#[tokio::test]
async fn load_is_shared_by_weight_and_the_backup_gets_nothing() {
    let (east, west, backup) = (gateway("east").await, gateway("west").await, gateway("backup").await);
    let setup = Setup::new().http("east", &east.url()).http("west", &west.url()).http("backup", &backup.url());
    for express in [true, false] {
        let setup = setup.clone().set("dispatch.express", express);
        let app = TestApp::start(&setup.default_chain("[{ east = 3, west = 1 }, \"backup\"]")).await;
        let ids = app.send_all(emails("ada", 200)).await;
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for status in app.wait_for_all(&ids, Status::SuccessSent).await {
            assert_eq!(status.events.len(), 1, "{:?}", history(&status));
            *counts.entry(taken_by(&status)).or_default() += 1;
        }
        // 150 and 50, give or take four standard deviations.
        assert!((125..=175).contains(&counts["east"]) && counts["east"] + counts["west"] == 200, "{counts:?}");
        app.finish().await;
    }
    assert_eq!(backup.inbox().count(), 0);
}

#[tokio::test]
async fn whoever_shares_the_place_is_next_and_the_order_is_the_same_at_each_try() {
    let (east, west, backup) = (gateway("east").await, gateway("west").await, gateway("backup").await);
    let setup = Setup::new().http("east", &east.url()).http("west", &west.url()).http("backup", &backup.url());
    let setup = setup.set("retry.max_rounds", 3).set("retry.pause", "10ms");
    let app = TestApp::start(&setup.default_chain("[{ east = 1, west = 1 }, \"backup\"]")).await;
    for sink in [&east, &west, &backup] {
        sink.set_fault(status(503)).unwrap();
    }
    let ids = app.send_all(emails("down", 20)).await;
    let mut lines: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for status in app.wait_for_all(&ids, Status::FailedRetriesExhausted).await {
        let asked: Vec<String> = status.events.iter().map(|event| event.provider.clone()).collect();
        let (first, rest) = asked.split_at(3);
        assert_eq!(rest, [first, first].concat(), "another order at another try");
        assert_eq!(first[2], "backup");
        *lines.entry(first.to_vec()).or_default() += 1;
    }
    assert_eq!(lines.len(), 2, "each of the two is first for some: {lines:?}");

    west.set_fault(Fault::None).unwrap();
    for nth in 0..20 {
        let id = app.send(email_to(&format!("up-{nth}@example.net"))).await;
        let status = app.wait_for(&id, Status::SuccessSent).await;
        assert_eq!((status.rounds, taken_by(&status)), (1, "west".to_owned()));
    }
    app.finish().await;
}
