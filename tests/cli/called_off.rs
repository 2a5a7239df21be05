//! `postrider cancel` and `postrider watch`.

use postrider::sandbox::http::Fault;
use serde_json::{Value, json};

use super::{EMAIL, service};
use crate::support::program::Program;

async fn send(program: &Program, options: &[&str]) -> String {
    let said = program.run([&EMAIL[..], options].concat()).await;
    said.well().split(' ').next().expect("an id").to_owned()
}

#[tokio::test]
async fn what_waits_is_called_off_and_each_is_told() {
    let (gateway, program) = service().await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).expect("a fault");
    let send_at = (time::OffsetDateTime::now_utc() + time::Duration::days(1))
        .format(&time::format_description::well_known::Rfc3339)
        .expect("a time");
    let later = ["--send-at", send_at.as_str()];
    let (one, two) = (send(&program, &later).await, send(&program, &later).await);
    for _ in 0..2 {
        let said = program.run(["cancel", &one, &two]).await;
        assert_eq!(said.well(), format!("{one}  CANCELED\n{two}  CANCELED\n"));
    }
    let said = program.run(["cancel", "--json", &one]).await;
    let told: Value = serde_json::from_str(said.well()).expect("JSON");
    assert_eq!(told, json!({"message_id": one, "status": "CANCELED", "may_have_been_sent": false}));
    let said = program.run(["status", &one]).await;
    assert_eq!(said.code, 12, "{said:?}");

    let three = send(&program, &later).await;
    let unknown = "01a231ab-bfb8-7e39-84bf-7aabb408eade";
    let said = program.run(["cancel", unknown, &three]).await;
    assert_eq!((said.code, said.out), (4, format!("{three}  CANCELED\n")), "the others are called off all the same");
    assert!(said.err.contains(unknown), "{}", said.err);

    gateway.set_fault(Fault::None).expect("no fault");
    let sent = send(&program, &["--wait"]).await;
    let said = program.run(["cancel", &sent]).await;
    assert_eq!((said.code, said.out), (13, format!("{sent}  SUCCESS_SENT  it was sent\n")));
    program.stop().await;
}

#[tokio::test]
async fn each_change_is_shown_until_the_end() {
    let (gateway, program) = service().await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).expect("a fault");
    let id = send(&program, &[]).await;
    let watching = program.run(["watch", "--json", &id]);
    let healing = async {
        while program.database().count("event").await < 2 {
            tokio::task::yield_now().await;
        }
        gateway.set_fault(Fault::None).expect("no fault");
    };
    let (said, ()) = tokio::join!(watching, healing);
    let told: Vec<Value> =
        said.well().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(told.iter().all(|told| told["message_id"] == json!(id)));
    assert_eq!(told.last().expect("a line")["status"], "SUCCESS_SENT");

    let said = program.run(["watch", &id]).await;
    assert!(said.well().ends_with(&format!("{id}  SUCCESS_SENT\n")), "{said:?}");
    assert!(said.out.contains("ATTEMPT  gateway  ACCEPTED"), "{said:?}");

    let said = program.run(["watch", "01a231ab-bfb8-7e39-84bf-7aabb408eade"]).await;
    assert_eq!((said.code, said.out.as_str()), (4, ""), "{said:?}");
    program.stop().await;
}
