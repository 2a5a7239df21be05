//! Others who use the pooler's connections find nothing of ours on them, and we nothing of theirs.

use postrider::{
    config::{self, Pooling},
    outbox::Outbox,
};
use tokio::task::JoinSet;

use super::{BOTH, Neighbour, Pooled, claim_of};
use crate::{
    outbox::Draft,
    support::{
        pgbouncer::{Pgbouncer, SHARED},
        postgres::Database,
    },
};

/// The same value from every connection that the pooler has.
async fn everywhere(neighbour: &mut Neighbour, sql: &'static str, value: &str) {
    assert_eq!(neighbour.ask(sql).await, vec![value; SHARED], "{sql}");
}

/// Whether each connection is as a server gives it out, and was used by us before.
async fn nothing_is_left(pooled: &Pooled) {
    let used: Vec<String> = pooled
        .scalar(
            "select array_agg(pid::text order by pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and application_name = 'postrider'",
        )
        .await;
    let mut neighbour = Neighbour::new(pooled).await;
    let mut lent = neighbour.ask("select pg_backend_pid()::text").await;
    lent.sort_by_key(|pid| pid.parse::<i32>().unwrap());
    assert!(used.len() > 1 && used.iter().all(|pid| lent.contains(pid)), "{used:?} were used, {lent:?} are lent");
    everywhere(&mut neighbour, "show search_path", r#""$user", public"#).await;
    everywhere(&mut neighbour, "show plan_cache_mode", "auto").await;
    everywhere(&mut neighbour, "show default_transaction_isolation", "read committed").await;
    everywhere(&mut neighbour, "show lock_timeout", "0").await;
    everywhere(&mut neighbour, "select count(*)::text from pg_prepared_statements", "0").await;
    everywhere(&mut neighbour, "select count(*)::text from pg_cursors where name <> ''", "0").await;
    let advisory = "select count(*)::text from pg_locks join pg_database on pg_database.oid = pg_locks.database
        where locktype = 'advisory' and datname = current_database()";
    everywhere(&mut neighbour, advisory, "0").await;
    let changed = "select count(*)::text from pg_settings where source = 'session' and name <> 'application_name'";
    let changed = neighbour.ask(changed).await;
    // The five that a client names when it connects, which a pooler hands on.
    assert!(changed.iter().all(|count| count.parse::<u32>().unwrap() <= 5), "{changed:?}");
    neighbour.leave("select").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_through_a_transaction_pooler_by_several_at_once_and_nothing_is_left() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    let settings = config::Database { schema: "mail".into(), ..pooled.settings.clone() };
    let mut processes = JoinSet::new();
    for _ in 0..4 {
        let (settings, url) = (settings.clone(), pooled.url.clone());
        processes.spawn(async move {
            let outbox = Outbox::connect(&settings, &url).await.unwrap();
            outbox.missing_migrations().await.unwrap();
            for _ in 0..2 {
                outbox.migrate().await.unwrap();
                assert_eq!(outbox.missing_migrations().await.unwrap(), 0);
            }
            let made = outbox.ensure_days(5).await.unwrap();
            assert_eq!(outbox.ensure_days(5).await.unwrap(), 0);
            let ids = Draft::default().accept(&outbox, 2).await;
            (outbox, made, ids)
        });
    }
    let processes = processes.join_all().await;
    assert_eq!(processes.iter().map(|(_, made, _)| made).sum::<usize>(), 7, "each day is made by one of them");
    assert_eq!(pooled.count("mail.outbox").await, 8);
    nothing_is_left(&pooled).await;
    for (outbox, _, ids) in processes {
        assert_eq!(outbox.status(&ids, None).await.unwrap().len(), 2);
        outbox.close().await;
    }
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_and_is_made_again() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    // In the way of the second migration, after the first is recorded.
    pooled.execute("create schema mail; create table mail.dispatcher (id integer)").await;
    let settings = config::Database { schema: "mail".into(), ..pooled.settings.clone() };
    let outbox = Outbox::connect(&settings, &pooled.url).await.unwrap();
    for _ in 0..2 * SHARED {
        let error = outbox.migrate().await.unwrap_err();
        assert!(error.to_string().contains("already exists") && error.to_string().contains("dispatcher"), "{error}");
    }
    nothing_is_left(&pooled).await;
    pooled.execute("drop table mail.dispatcher").await;
    outbox.migrate().await.unwrap();
    assert_eq!(outbox.missing_migrations().await.unwrap(), 0);
    outbox.close().await;
}

#[tokio::test]
async fn what_others_left_on_a_connection_is_not_taken_for_ours() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    let neighbour = Neighbour::new(&pooled).await;
    neighbour
        .leave(
            "set search_path = elsewhere; set plan_cache_mode = force_generic_plan; set synchronous_commit = off;
            set default_transaction_isolation = serializable; create temporary table pending (n integer);
            create temporary table message (n integer); create temporary table event (n integer)",
        )
        .await;
    let outbox = pooled.another_process().await;
    for _ in 0..2 * SHARED {
        let ids = Draft::default().accept(&outbox, 3).await;
        let claimed = claim_of(&outbox, "default", 3).await;
        assert_eq!(claimed.len(), 3);
        assert_eq!(outbox.status(&ids, None).await.unwrap().len(), 3);
        assert_eq!(outbox.release(&[claimed[0].lease]).await.unwrap(), 1);
        let leases = [claimed[1].lease, claimed[2].lease];
        assert_eq!(outbox.postpone(&leases, std::time::Duration::from_secs(60)).await.unwrap(), 2);
        claim_of(&outbox, "default", 3).await;
    }
    outbox.close().await;
}

/// How many round trips it takes to connect, to make a statement so often on one connection, and to close.
async fn round_trips(pooling: Pooling, statements: u32) -> Option<i64> {
    let db = Database::new().await;
    let pgbouncer = Pgbouncer::start(pooling, &db.url).await?;
    let name: String = db.scalar("select current_database()::text").await;
    let settings = config::Database { pooling, max_connections: 2, ..db.settings.clone() };
    let outbox = Outbox::connect(&settings, &pgbouncer.url(Some(&name))).await.unwrap();
    for _ in 0..statements {
        outbox.count_pending().await.unwrap();
    }
    outbox.close().await;
    pgbouncer.console("show stats_totals", "query_count", &name).await
}

#[tokio::test]
async fn a_statement_costs_the_round_trips_that_the_settings_tell_of() {
    let mut costs = Vec::new();
    for pooling in BOTH {
        // From the second on it is prepared, where a session keeps it.
        let (Some(one), Some(eleven)) = (round_trips(pooling, 1).await, round_trips(pooling, 11).await) else { return };
        costs.push(eleven - one);
    }
    // The statement and, afterwards, whether the connection is well; then the beginning, the preparing and the end too.
    // A connection that is closed at once may not be asked any more, and one that lay idle on a slow machine is once more.
    assert!((15..=30).contains(&costs[0]) && (40..=60).contains(&costs[1]), "{costs:?}");
}
