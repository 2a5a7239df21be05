//! Under load, each message is seen once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use postrider::{delivery::Class, outbox::Settlement};
use tokio::task::JoinSet;

use super::{Draft, attempt, claim, settlement};
use crate::support::postgres::Database;

/// Messages that are accepted and sent by tasks of their own until they are told to stop.
#[derive(Clone)]
struct Traffic {
    db: Arc<Database>,
    begun: Arc<AtomicI64>,
    accepted: Arc<AtomicI64>,
    sent: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
}

impl Traffic {
    async fn accept(self) {
        while !self.stop.load(Ordering::SeqCst) {
            self.begun.fetch_add(10, Ordering::SeqCst);
            Draft::default().accept(&self.db.outbox, 10).await;
            self.accepted.fetch_add(10, Ordering::SeqCst);
        }
    }

    async fn send(self) {
        while !self.stop.load(Ordering::SeqCst) {
            let claimed = claim(&self.db.outbox, 20).await;
            let settlements: Vec<Settlement> =
                claimed.iter().map(|one| settlement(one, 1, vec![attempt("primary", &[Class::Accepted])])).collect();
            self.db.outbox.settle(&settlements).await.unwrap();
            self.sent.fetch_add(claimed.len() as i64, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_statement_counts_each_message_once_while_they_move() {
    let traffic = Traffic {
        db: Arc::new(Database::new().await),
        begun: Arc::default(),
        accepted: Arc::default(),
        sent: Arc::default(),
        stop: Arc::default(),
    };
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        tasks.spawn(traffic.clone().accept());
        tasks.spawn(traffic.clone().send());
    }
    let mut looks = 0;
    while looks < 50 || traffic.sent.load(Ordering::SeqCst) < 500 {
        // What is committed before the statement begins is in it; what is not begun when it ends is not.
        let at_least = traffic.accepted.load(Ordering::SeqCst);
        let sent_at_least = traffic.sent.load(Ordering::SeqCst);
        let (rows, ids, without_status, sent): (i64, i64, i64, i64) = sqlx::query_as(
            "select count(*), count(distinct id), count(*) filter (where status is null),
                count(*) filter (where status = 'SUCCESS_SENT')
            from outbox",
        )
        .fetch_one(&traffic.db.sql)
        .await
        .unwrap();
        let at_most = traffic.begun.load(Ordering::SeqCst);
        assert_eq!((rows, without_status), (ids, 0));
        assert!(at_least <= rows && rows <= at_most, "{at_least} <= {rows} <= {at_most}");
        assert!(sent_at_least <= sent && sent <= rows, "{sent_at_least} <= {sent} <= {rows}");
        looks += 1;
    }
    traffic.stop.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    let accepted = traffic.accepted.load(Ordering::SeqCst);
    assert_eq!(traffic.db.count("outbox").await, accepted);
    let left = traffic.db.count("pending").await;
    assert_eq!(traffic.db.count("event where status = 'SUCCESS_SENT'").await, accepted - left);
    traffic.db.tally_is_exact().await;
}
