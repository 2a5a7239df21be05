//! `postrider status`.

use postrider::sandbox::http::Fault;
use serde_json::{Value, json};

use super::{EMAIL, service};
use crate::support::program::run;

#[tokio::test]
async fn a_message_is_shown_to_people_and_to_scripts() {
    let (gateway, program) = service().await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).expect("a fault");
    let options = ["--correlation-id", "order 4711", "--document-type", "INVOICE", "--wait", "0"];
    let sent = program.run([&EMAIL[..], &options].concat()).await;
    let id = sent.out.split(' ').next().expect("an id").to_owned();
    while program.database().count("event").await == 0 {
        tokio::task::yield_now().await;
    }
    let waiting = program.run(["status", "--json", &id]).await;
    assert_eq!(waiting.code, 10, "{waiting:?}");
    let told: Value = serde_json::from_str(&waiting.out).expect("JSON");
    assert!(told["waiting_for"].is_string() && told["finished_at"].is_null(), "{told}");
    assert_eq!((&told["correlation_id"], &told["document_type"]), (&json!("order 4711"), &json!("INVOICE")));
    let first = &told["events"][0];
    assert_eq!(
        (&first["kind"], &first["outcome"], &first["code"]),
        (&json!("ATTEMPT"), &json!("UNAVAILABLE"), &json!("503 SANDBOX_FAULT"))
    );

    gateway.set_fault(Fault::None).expect("no fault");
    gateway
        .inbox()
        .wait_until(|inbox| inbox.count() == 1, std::time::Duration::from_secs(10))
        .await
        .expect("it is sent");
    while program.database().count("pending").await > 0 {
        tokio::task::yield_now().await;
    }
    let said = program.run(["status", "--json", &id]).await;
    let told: Value = serde_json::from_str(said.well()).expect("JSON");
    assert_eq!((&told["message_id"], &told["status"]), (&json!(id), &json!("SUCCESS_SENT")));
    assert!(told["finished_at"].is_string() && told["next_attempt_at"].is_null() && told["waiting_for"].is_null());
    let events = told["events"].as_array().expect("a list");
    assert_eq!(told["rounds"], events.len());
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["outcome"], &last["code"], &last["provider"]),
        (&json!("ACCEPTED"), &json!("200"), &json!("gateway"))
    );
    assert!(last["provider_message_id"].is_string() && last["duration_seconds"].is_f64(), "{last}");
    let recipient = json!({
        "address": "anna@example.com", "state": "ACCEPTED", "outcome": "ACCEPTED", "provider": "gateway", "code": "200",
        "detail": told["recipients"][0]["detail"],
    });
    assert_eq!(told["recipients"], json!([recipient]));

    let people = program.run(["status", &id]).await;
    let lines: Vec<&str> = people.well().lines().collect();
    assert_eq!(lines[0], format!("{id}  SUCCESS_SENT"));
    for (name, value) in [("correlation", "order 4711"), ("document type", "INVOICE")] {
        assert!(lines.contains(&format!("  {name:<13} {value}").as_str()), "{lines:?}");
    }
    assert!(lines.iter().any(|line| line.contains("anna@example.com  ACCEPTED")), "{lines:?}");
    let attempts = lines.iter().filter(|line| line.contains("  ATTEMPT  gateway  ")).count();
    assert_eq!(attempts, events.len());
    program.stop().await;
}

#[tokio::test]
async fn an_unknown_message_exits_with_4_and_a_stranger_sees_none() {
    let (_gateway, program) = service().await;
    let unknown = program.run(["status", "01a231ab-bfb8-7e39-84bf-7aabb408eade"]).await;
    assert_eq!((unknown.code, unknown.out.as_str()), (4, ""), "{unknown:?}");
    let sent = program.run([&EMAIL[..], &["--client", "shop"]].concat()).await;
    let id = sent.well().split(' ').next().expect("an id");
    assert_eq!(program.run(["status", id]).await.code, 4);
    assert_ne!(program.run(["status", "--client", "shop", id]).await.code, 4);
    let nonsense = program.run(["status", "nonsense"]).await;
    assert_eq!(nonsense.code, 5, "{nonsense:?}");
    assert!(nonsense.err.contains("message_id"), "{nonsense:?}");
    program.stop().await;
}

#[tokio::test]
async fn a_reader_that_has_gone_is_no_failure() {
    let (_gateway, program) = service().await;
    let sent = program.run([&EMAIL[..], &["--wait"]].concat()).await;
    let id = sent.well().split(' ').next().expect("an id");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = program.postrider(["status", id]);
    command.stdout(writer);
    let said = run(command).await;
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    program.stop().await;
}
