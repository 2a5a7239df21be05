//! What the tables themselves refuse, whatever a program writes.

use super::{Draft, claimed_one};
use crate::support::postgres::Database;

/// Changes of a waiting row that make it impossible, and the constraint that refuses each.
const IMPOSSIBLE: [(&str, &str); 16] = [
    ("status = 'SUCCESS_SENT', due_at = null", "pending_is_not_finished"),
    ("status = 'CANCELED'", "pending_is_not_finished"),
    ("due_at = null", "pending_waits_for_a_machine_or_a_person"),
    ("failed_at = now()", "pending_fails_to_a_person"),
    ("failed_at = now(), due_at = null", "pending_fails_to_a_person"),
    ("status = 'FAILED_NOT_RETRYABLE'", "pending_fails_to_a_person"),
    ("token = 7", "pending_in_process_under_a_lease"),
    ("status = 'IN_PROCESS', provider = 'a'", "pending_in_process_under_a_lease"),
    ("status = 'IN_PROCESS', token = 7", "pending_in_process_names_a_provider"),
    ("begun_at = now()", "pending_begun_in_process"),
    ("rounds = 1", "pending_not_yet_sent_is_untried"),
    ("unknown_since = now()", "pending_not_yet_sent_is_untried"),
    ("status = 'REQUIRED_RESEND'", "pending_tried_is_not_untried"),
    ("ask_first = true", "pending_asks_somebody_first"),
    ("open_recipients = '{}'", "pending_has_open_recipients"),
    ("status = 'REQUIRED_RESEND', attempts = 1", "pending_remembers_its_last_attempt"),
];

#[tokio::test]
async fn impossible_states_are_refused() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    for (change, constraint) in IMPOSSIBLE {
        let sql = format!("update pending set {change}");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&db.sql).await.unwrap_err();
        let refused = error.as_database_error().unwrap();
        assert_eq!(refused.constraint(), Some(constraint), "{change}: {error}");
    }
    db.execute("update pending set status = 'IN_PROCESS', token = 7, provider = 'a', begun_at = now()").await;
}

#[tokio::test]
async fn a_message_has_one_final_event() {
    let db = Database::new().await;
    let id = claimed_one(&db, &Draft::default()).await.lease.id;
    let insert = format!(
        "insert into event (message_id, kind, at, status, finished_at, rounds, attempts)
        values ('{id}', 'EXPIRED', now(), 'EXPIRED', now(), 0, 0)"
    );
    db.execute(&insert).await;
    let error = sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&db.sql).await.unwrap_err();
    assert!(error.as_database_error().unwrap().is_unique_violation(), "{error}");
    let waiting = format!(
        "insert into event (message_id, kind, at, status, finished_at, rounds, attempts)
        values ('{id}', 'EXPIRED', now(), 'REQUIRED_RESEND', now(), 0, 0)"
    );
    let error = sqlx::raw_sql(sqlx::AssertSqlSafe(waiting)).execute(&db.sql).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().constraint(), Some("event_finishes_with_a_final_status"));
}
