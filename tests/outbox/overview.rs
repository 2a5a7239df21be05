//! The outbox in numbers.

use std::time::Duration;

use postrider::{delivery::Class, message::Priority};

use super::{Draft, HOUR, attempt, claim, settlement};
use crate::support::postgres::Database;

async fn oldest_due(db: &Database) -> Vec<(Priority, Duration)> {
    db.outbox.oldest_due().await.unwrap()
}

#[tokio::test]
async fn the_oldest_that_waits_for_a_machine_is_told_by_priority() {
    let db = Database::new().await;
    let none = Priority::ALL.map(|priority| (priority, Duration::ZERO));
    assert_eq!(oldest_due(&db).await, none);
    // Not yet due, and waiting for a person.
    Draft { wait: HOUR, priority: Priority::High, ..Draft::default() }.accept(&db.outbox, 1).await;
    Draft { priority: Priority::Bulk, ..Draft::default() }.accept(&db.outbox, 1).await;
    let claimed = claim(&db.outbox, 1).await.remove(0);
    db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::MessageRejected])])]).await.unwrap();
    assert_eq!(oldest_due(&db).await, none);

    for (client, age) in [("a", 1), ("b", 3), ("c", 2)] {
        Draft { client, ..Draft::default() }.accept(&db.outbox, 2).await;
        db.execute(&format!(
            "update pending set due_at = now() - interval '{age} hours' from lane
            where lane.id = pending.lane and lane.client = '{client}'"
        ))
        .await;
    }
    let oldest = oldest_due(&db).await;
    assert_eq!((oldest[0].1, oldest[2].1), (Duration::ZERO, Duration::ZERO));
    assert!((3 * HOUR..4 * HOUR).contains(&oldest[1].1), "{oldest:?}");
    // What is taken is not waiting, until its lease has run out.
    claim(&db.outbox, 10).await;
    assert_eq!(oldest_due(&db).await, none);
    super::let_leases_run_out(&db).await;
    assert!(oldest_due(&db).await[1].1 >= Duration::from_secs(1));
}
