//! Callers who go away leave nothing behind on the connection that they used.

use std::{collections::BTreeSet, time::Duration};

use futures_util::FutureExt as _;
use postrider::{config, outbox::Outbox};

use super::BOTH;
use crate::{
    outbox::Draft,
    support::{caller::until, postgres::Database},
};

/// Asks, and goes away after so many polls, each when there is something to do; `false` if the answer came before.
async fn go_away_after(polls: u32, outbox: &Outbox) -> bool {
    let mut asking = Box::pin(outbox.status(&[], None));
    let mut left = polls;
    std::future::poll_fn(move |context| {
        let answered = asking.poll_unpin(context).is_ready();
        left -= 1;
        match answered || left == 0 {
            true => std::task::Poll::Ready(!answered),
            false => std::task::Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn no_transaction_stays_open_when_its_caller_goes_away() {
    for pooling in BOTH {
        let db = Database::new().await;
        let settings = config::Database { pooling, max_connections: 2, ..db.settings.clone() };
        let outbox = Outbox::connect(&settings, &db.url).await.unwrap();
        let ids = Draft::default().accept(&outbox, 1).await;
        let mut went_away = BTreeSet::new();
        for polls in 1..20 {
            if go_away_after(polls, &outbox).await {
                went_away.insert(polls);
            }
            let closed = || async {
                let open = "pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
                db.count(open).await == 0
            };
            until("no transaction is open", closed).await;
            assert_eq!(outbox.status(&ids, None).await.unwrap().len(), 1);
        }
        assert!(went_away.len() > 1 && went_away.len() < 19, "{went_away:?}");
        let before = outbox.clock().now();
        outbox.measure_clock().await.unwrap();
        assert!(outbox.clock().now() - before < Duration::from_secs(60));
        outbox.close().await;
    }
}
