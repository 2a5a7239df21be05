//! The tables are in a schema of any name, and see no other.

use postrider::{
    config::{self, Pooling, Retention},
    delivery::{Class, Status},
    outbox::{Outbox, Retirement, Settled},
};

use super::{BOTH, Pooled, claim_of};
use crate::{
    outbox::{Draft, attempt, settlement},
    support::postgres::Database,
};

/// Names that are read wrongly where they are not quoted, or are searched for words.
const ODD: [&str; 3] = ["Re set \"Mail\"", "select", "$user, public; --"];

/// An outbox in a schema of its own.
async fn outbox_in(schema: &str, seen: &Database) -> Outbox {
    let settings = config::Database { schema: schema.to_owned(), ..seen.settings.clone() };
    let outbox = Outbox::connect(&settings, &seen.url).await.unwrap();
    outbox.migrate().await.unwrap();
    outbox.ensure_days(1).await.unwrap();
    outbox
}

/// Everything that is done with a message, in schemas by turns.
async fn by_turns(outboxes: &[Outbox]) {
    for round in 1..=4 {
        let mut ids = Vec::new();
        for (nth, outbox) in outboxes.iter().enumerate() {
            ids.push(Draft::keyed(format!("key {round}"), "request").accept(outbox, 1).await);
            Draft::default().accept(outbox, nth).await;
        }
        for (nth, outbox) in outboxes.iter().enumerate() {
            let claimed = claim_of(outbox, "default", 100).await;
            assert_eq!(claimed.len(), nth + 1, "its own alone");
            assert_eq!(outbox.contents(&ids[nth]).await.unwrap().len(), 1);
            let (sent, refused) = claimed.split_at(1);
            let sent = settlement(&sent[0], 1, vec![attempt("primary", &[Class::Accepted])]);
            assert_eq!(outbox.settle(&[sent]).await.unwrap(), [Settled::Done]);
            for one in refused {
                let refused = settlement(one, 1, vec![attempt("primary", &[Class::MessageRejected])]);
                assert_eq!(outbox.settle(&[refused]).await.unwrap(), [Settled::Done]);
            }
        }
        for (nth, outbox) in outboxes.iter().enumerate() {
            for (other, ids) in ids.iter().enumerate() {
                let known = outbox.status(ids, None).await.unwrap();
                assert_eq!(known.len(), usize::from(other == nth));
                assert!(known.iter().all(|one| one.status == Status::SuccessSent));
            }
            assert_eq!(outbox.count_sent().await.unwrap(), round);
            assert_eq!(outbox.count_pending().await.unwrap(), round * nth as u64);
        }
    }
}

async fn of_any_name(seen: &Database) {
    let mut outboxes = Vec::new();
    for schema in ODD {
        outboxes.push(outbox_in(schema, seen).await);
    }
    by_turns(&outboxes).await;
    // What is over in one is not over in another.
    let at_once = Retention { finished: std::time::Duration::ZERO, ..Retention::default() };
    outboxes[1].clock().correct(2 * time::Duration::DAY);
    Retirement::new(outboxes[1].clone(), at_once).turn().await.unwrap();
    for (nth, outbox) in outboxes.iter().enumerate() {
        assert_eq!(outbox.count_sent().await.unwrap(), if nth == 1 { 0 } else { 4 });
        outbox.close().await;
    }
    assert_eq!(seen.count("outbox").await, 0, "nor in the schema of the default name");
    assert_eq!(seen.count("pg_extension").await, 1, "plpgsql, which every database has");
    for table in ["message", "pending"] {
        let tables = format!("pg_class where relkind in ('r', 'p') and relname = '{table}'");
        assert_eq!(seen.count(&tables).await, 1 + ODD.len() as i64);
    }
}

#[tokio::test]
async fn schemas_of_any_name_in_one_database_do_not_see_each_other() {
    for pooling in BOTH {
        let mut db = Database::new().await;
        db.settings.pooling = pooling;
        of_any_name(&db).await;
    }
}

#[tokio::test]
async fn nor_do_they_on_the_shared_connections_of_a_pooler() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    of_any_name(&pooled).await;
}
