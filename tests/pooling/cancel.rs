//! Callers who go away leave nothing behind on the connection that they used.

use std::{future::poll_fn, task::Poll};

use futures_util::FutureExt as _;
use postrider::{config, outbox::Outbox};

use super::BOTH;
use crate::support::{caller::until, postgres::Database};

/// Asks something that takes a transaction, and goes away at the nth time that there is something to do; `false` if the
/// answer came before.
async fn go_away_at(nth: u32, outbox: &Outbox) -> bool {
    let mut asking = Box::pin(outbox.missing_migrations());
    let mut left = nth;
    poll_fn(move |context| {
        left -= 1;
        match asking.poll_unpin(context) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending if left == 0 => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn no_transaction_stays_open_when_its_caller_goes_away() {
    for pooling in BOTH {
        let db = Database::new().await;
        db.outbox.close().await;
        db.sessions_ended().await;
        let settings = config::Database { pooling, max_connections: 2, ..db.settings.clone() };
        let outbox = Outbox::connect(&settings, &db.url).await.unwrap();
        outbox.missing_migrations().await.unwrap();
        let undone = || async {
            let last = "pg_stat_activity where datname = current_database() and application_name = 'postrider'
                and state = 'idle' and query = 'ROLLBACK'";
            db.count(last).await == 1
        };
        // At how many moments it can go away depends on how quickly the answers come.
        for _ in 0..10 {
            let mut nth = 1;
            while go_away_at(nth, &outbox).await {
                until("what was begun is undone", undone).await;
                assert_eq!(outbox.missing_migrations().await.unwrap(), 0);
                nth += 1;
            }
            assert!(nth > 1, "it never went away");
        }
        outbox.close().await;
    }
}
