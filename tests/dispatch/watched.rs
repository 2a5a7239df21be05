//! Whoever watches a message hears of what every process does with it.

use postrider::{proto::v1::Status, sandbox::http::Fault};
use serde_json::json;

use super::gateway;
use crate::support::{
    caller::{email_to, history},
    postgres::Database,
    process::Process,
    setup::Setup,
};

fn setup(roles: &[&str]) -> Setup {
    Setup::new().set("process.roles", json!(roles))
}

#[tokio::test]
async fn a_process_that_only_answers_calls_tells_what_another_does() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let sending = setup(&["dispatch", "maintain"]).http("gateway", &gateway.url()).set("retry.max_rounds", 1000);
    let (accept, watch) = (setup(&["api"]), setup(&["api"]));
    let (accept, watch, dispatch) = tokio::join!(
        Process::start(&database, &accept),
        Process::start(&database, &watch),
        Process::start(&database, &sending)
    );
    let id = accept.send(email_to("ada@example.net")).await;
    let watching = watch.watch(&id);
    let healing = async {
        accept.wait(&id, |status| status.rounds >= 2).await;
        gateway.set_fault(Fault::None).unwrap();
    };
    let (told, ()) = tokio::join!(watching, healing);
    let (last, before) = told.split_last().expect("it was told");
    assert!(!before.is_empty() && before.iter().all(|told| told.status() != Status::SuccessSent));
    assert_eq!(last.status(), Status::SuccessSent);
    assert_eq!(history(last).last().map(|line| line.ends_with("ATTEMPT gateway ACCEPTED")), Some(true));
    let lengths: Vec<usize> = told.iter().map(|told| told.events.len()).collect();
    assert!(lengths.is_sorted(), "a history only grows: {lengths:?}");
    for process in [accept, watch, dispatch] {
        process.finish().await;
    }
}
