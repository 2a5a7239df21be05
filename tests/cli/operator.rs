//! `postrider list`, `show` and `retry`.

use postrider::sandbox::http::Fault;
use serde_json::Value;

use super::{EMAIL, service};
use crate::support::program::Program;

async fn send(program: &Program, options: &[&str]) -> String {
    let said = program.run([&EMAIL[..], options].concat()).await;
    said.out.split(' ').next().expect("an id").to_owned()
}

fn lines(out: &str) -> Vec<Vec<&str>> {
    out.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[tokio::test]
async fn messages_are_listed_shown_and_tried_again() {
    let (gateway, program) = service().await;
    gateway.set_fault(Fault::Status { code: 422, retry_after: None }).expect("a fault");
    let refused = send(&program, &["--subject", "Invoice 7", "--wait"]).await;
    gateway.set_fault(Fault::None).expect("no fault");
    let sent = send(&program, &["--wait"]).await;

    let said = program.run(["list"]).await;
    let shown = lines(said.well());
    assert_eq!(shown[0], ["MESSAGE", "STATUS", "ACCEPTED", "CLIENT", "ATTEMPTS", "PROVIDER", "OUTCOME", "CODE"]);
    assert_eq!((shown[1][0], shown[1][1], shown[1][5]), (sent.as_str(), "SUCCESS_SENT", "gateway"));
    assert_eq!((shown[2][0], shown[2][1]), (refused.as_str(), "FAILED_NOT_RETRYABLE"));
    let said = program.run(["list", "--json", "--status", "failed"]).await;
    let told: Value = serde_json::from_str(said.well().trim()).expect("one line of JSON");
    assert_eq!((&told["message_id"], &told["finished_at"]), (&refused.as_str().into(), &Value::Null));
    let said = program.run(["list", "--limit", "1"]).await;
    assert_eq!(lines(said.well()).len(), 2);
    assert!(said.err.contains("--limit 1 is reached"), "{said:?}");

    let said = program.run(["show", &refused]).await;
    assert!(said.well().contains("subject     Invoice 7"), "{said:?}");
    let said = program.run(["show", "--eml", &refused]).await;
    assert!(said.well().contains(&format!("Message-ID: <{refused}@shop.example>")), "{said:?}");
    let said = program.run(["show", "--json", &refused]).await;
    let told: Value = serde_json::from_str(said.well()).expect("JSON");
    assert_eq!(told["request"]["email"]["subject"], "Invoice 7");
    assert_eq!(told["status"]["status"], "FAILED_NOT_RETRYABLE");

    for options in [&[&*refused][..], &["--status", "failed"], &["--all"]] {
        let said = program.run([&["retry", "--dry-run"], options].concat()).await;
        assert_eq!(said.well(), "1 would be tried again\n");
    }
    let said = program.run(["retry", "--json", &refused]).await;
    assert_eq!(said.well(), "{\"count\":1,\"dry_run\":false}\n");
    let said = program.run(["watch", &refused]).await;
    assert!(said.well().ends_with(&format!("{refused}  SUCCESS_SENT\n")), "{said:?}");
    assert_eq!(gateway.inbox().count(), 2);
    program.stop().await;
}

#[tokio::test]
async fn nothing_is_tried_again_by_mistake() {
    let (_gateway, program) = service().await;
    for wrong in [
        &["retry"][..],
        &["retry", "--dry-run"],
        &["retry", "--all", "01a231ab-bfb8-7e39-84bf-7aabb408eade"],
        &["retry", "--status", "lost"],
        &["list", "--outcome", "lost"],
        &["list", "--since", "yesterday"],
    ] {
        let said = program.run(wrong).await;
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{wrong:?}: {said:?}");
    }
    let said = program.run(["show", "01a231ab-bfb8-7e39-84bf-7aabb408eade"]).await;
    assert_eq!(said.code, 4, "{said:?}");
    program.stop().await;
}
