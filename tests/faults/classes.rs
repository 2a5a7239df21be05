//! The same suite for every kind of provider: whatever it answers has a class, and the row shows it.

use std::sync::Arc;

use postrider::proto::v1::Status;

use super::{gateway, relay};
use crate::support::{
    app::TestApp,
    caller::{email_to, history},
    postgres::Database,
    setup::Setup,
};

/// What a kind of provider answers for each class, as its fault, and the code that stands in the row then.
type Faults = [(&'static str, &'static str, &'static str); 10];

const GATEWAY: Faults = [
    ("ACCEPTED", "none", "200"),
    ("RECIPIENT_REJECTED", "reject:*", "550 5.1.1"),
    ("MESSAGE_REJECTED", "status:400", "400 SANDBOX_FAULT"),
    ("UNFIT_HERE", "status:413", "413 SANDBOX_FAULT"),
    ("DEFERRED", "defer:*", "451 4.7.1"),
    ("UNAVAILABLE", "status:503", "503 SANDBOX_FAULT"),
    ("THROTTLED", "status:429", "429 SANDBOX_FAULT"),
    ("QUOTA_USED_UP", "status:402", "402 SANDBOX_FAULT"),
    ("MISCONFIGURED", "status:401", "401 SANDBOX_FAULT"),
    ("OUTCOME_UNKNOWN", "status:502", "502 SANDBOX_FAULT"),
];

const RELAY: Faults = [
    ("ACCEPTED", "none", "250 2.0.0"),
    ("RECIPIENT_REJECTED", "reject:*", "550 5.1.1"),
    ("MESSAGE_REJECTED", "status:dot:554 5.6.0 not wanted", "554 5.6.0"),
    ("UNFIT_HERE", "status:dot:552 5.3.4 too big", "552 5.3.4"),
    ("DEFERRED", "defer:*", "450 4.2.0"),
    ("UNAVAILABLE", "status:mail:451 4.3.0 mail system full", "451 4.3.0"),
    ("THROTTLED", "status:mail:454 4.7.0 Throttling failure: Maximum sending rate exceeded", "454 4.7.0"),
    ("QUOTA_USED_UP", "status:mail:454 4.7.0 Daily message quota exceeded", "454 4.7.0"),
    ("MISCONFIGURED", "status:rcpt:550 5.7.26 unauthenticated", "550 5.7.26"),
    ("OUTCOME_UNKNOWN", "drop-after-dot", "eof"),
];

/// Under which status a message waits then, or has ended, and whether the round counted.
fn meaning(class: &str) -> (Status, u32) {
    match class {
        "ACCEPTED" => (Status::SuccessSent, 1),
        "RECIPIENT_REJECTED" | "MESSAGE_REJECTED" | "UNFIT_HERE" => (Status::FailedNotRetryable, 1),
        "THROTTLED" | "QUOTA_USED_UP" | "MISCONFIGURED" => (Status::RequiredResend, 0),
        _ => (Status::RequiredResend, 1),
    }
}

/// Sends a message, and looks what the outbox shows of it after its first attempt.
async fn show(setup: &Setup, class: &str, code: &str) {
    // A service of its own for each, to which nothing of the others has happened, and an outbox that knows nothing of it.
    let database = Arc::new(Database::new().await);
    let app = TestApp::start_on(database.clone(), &setup.clone().set("retry.pause", "1h")).await;
    let id = app.send(email_to(&format!("{class}@example.net"))).await;
    let status = app.wait(&id, |status| !status.events.is_empty() && status.status() != Status::InProcess).await;
    assert_eq!(history(&status), [format!("1 ATTEMPT provider {class}")]);
    assert_eq!((status.status(), status.rounds), meaning(class), "{class}");
    let row: (String, String, String) =
        sqlx::query_as("select last_provider, last_outcome::text, last_code from outbox where id = $1::uuid")
            .bind(&id)
            .fetch_one(&database.sql)
            .await
            .unwrap();
    assert_eq!(row, ("provider".into(), class.into(), code.into()));
    app.finish().await;
}

#[tokio::test]
async fn whatever_a_gateway_answers_is_classified_and_shown() {
    let sink = gateway("gateway").await;
    let setup = Setup::new().http("provider", &sink.url());
    for (class, fault, code) in GATEWAY {
        sink.switch().switch_to(fault).unwrap();
        show(&setup, class, code).await;
    }
}

#[tokio::test]
async fn whatever_a_relay_answers_is_classified_and_shown() {
    let sink = relay("relay").await;
    let setup = Setup::new().smtp("provider", sink.address());
    for (class, fault, code) in RELAY {
        sink.switch().switch_to(fault).unwrap();
        show(&setup, class, code).await;
    }
}
