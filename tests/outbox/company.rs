//! Processes that share an outbox: they hear each other, know of each other, and leave nothing lying.

use std::collections::BTreeSet;

use postrider::{
    config::Roles,
    delivery::{ProviderName, Status},
    health::Share,
    message::{ClientId, Priority},
    outbox::{Company, LaneId, News, Presence, Wake},
};

use super::{DAY, Draft, HOUR, claim, claimed_one, let_leases_run_out, request};
use crate::support::postgres::Database;

fn presence(roles: &str, chains: &[&str]) -> Presence {
    let roles: Roles = roles.parse().unwrap();
    Presence::new(&roles, chains.iter().map(|chain| (*chain).to_owned()))
}

/// Says that it is there, and tells how many others send.
async fn others(db: &Database, presence: &Presence) -> usize {
    db.outbox.say_present(presence).await.unwrap().others
}

async fn lane_of(db: &Database, client: &str) -> LaneId {
    let seen = db.outbox.look().await.unwrap();
    seen.into_iter().find(|seen| seen.lane.client == ClientId::new(client)).unwrap().lane.id
}

/// All that is heard until it is that.
async fn heard(wake: &Wake, is_that: impl Fn(&News) -> bool) -> News {
    let mut all = News::default();
    while !is_that(&all) {
        wake.rung().await;
        let News { now, later, look_anew } = wake.take();
        all.now.extend(now);
        all.later.extend(later);
        all.look_anew |= look_anew;
    }
    all
}

/// Ends the connections that listen, and says how many there were.
async fn end_listeners(db: &Database) -> i64 {
    db.scalar(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and application_name = 'postrider listener'",
    )
    .await
}

#[tokio::test]
async fn what_one_process_accepted_another_hears_of_in_one_statement() {
    let db = Database::new().await;
    let other = db.another_process().await;
    Draft { client: "now", ..Draft::default() }.accept(&db.outbox, 1).await;
    Draft { client: "later", ..Draft::default() }.accept(&db.outbox, 1).await;
    let (now, later) = (lane_of(&db, "now").await, lane_of(&db, "later").await);
    let (here, there) = (Wake::new(db.outbox.clock().clone()), Wake::new(other.clock().clone()));
    let listener = other.listener().await.unwrap().expect("it listens");
    let hearing = {
        let there = there.clone();
        tokio::spawn(async move { listener.hear(&there).await })
    };
    there.rung().await;
    assert!(there.is_listening() && there.take().look_anew, "what was said before nobody heard");

    let due_at = (db.outbox.clock().now() + HOUR).truncate_to_millisecond();
    for _ in 0..100 {
        here.accepted(now, db.outbox.clock().now());
        here.accepted(later, due_at);
    }
    db.outbox.tell_others(&here).await.unwrap();
    let news = heard(&there, |news| !news.now.is_empty() && !news.later.is_empty()).await;
    let lanes: Vec<LaneId> = news.now.into_keys().collect();
    assert_eq!((lanes, news.later), (vec![now], BTreeSet::from([(due_at, later)])));
    db.outbox.tell_others(&here).await.unwrap();
    here.lanes_changed();
    db.outbox.tell_others(&here).await.unwrap();
    heard(&there, |news| news.look_anew).await;

    assert_eq!(end_listeners(&db).await, 1);
    hearing.await.unwrap().expect("a lost connection is no failure");
    assert!(!there.is_listening(), "it has to look for itself");
}

#[tokio::test]
async fn processes_know_how_many_others_send() {
    let db = Database::new().await;
    let (one, two, api) = (
        presence("dispatch,maintain", &["default"]),
        presence("api,dispatch", &["default", "bulk"]),
        presence("api", &[]),
    );
    assert_eq!(others(&db, &one).await, 0);
    assert_eq!(others(&db, &two).await, 1);
    assert_eq!(others(&db, &api).await, 2);
    assert_eq!(others(&db, &one).await, 1, "who does not send is not counted");
    assert_eq!(db.count("dispatcher").await, 3);
    db.execute("update dispatcher set seen_at = now() - interval '31 seconds' where 'maintain' = any (roles)").await;
    assert_eq!(others(&db, &api).await, 1, "who says nothing is gone");
    db.execute("update dispatcher set seen_at = now() - interval '2 hours' where 'maintain' = any (roles)").await;
    assert_eq!(others(&db, &api).await, 1);
    assert_eq!(db.count("dispatcher").await, 2, "and forgotten");
    db.outbox.say_gone(&two).await.unwrap();
    assert_eq!(others(&db, &api).await, 0);
    assert_eq!(others(&db, &one).await, 0, "it comes back as it went");
    assert_eq!(db.count("dispatcher").await, 3, "its chains are remembered for a while");
}

#[tokio::test]
async fn an_account_is_shared_by_those_that_send_through_it() {
    let db = Database::new().await;
    let through = |providers: &[&str]| {
        let kinds: Vec<_> = providers.iter().map(|name| ((*name).to_owned(), "http".to_owned())).collect();
        presence("dispatch", &["default"]).with_providers(kinds)
    };
    let share = |company: &Company, provider: &str| company.shares[&ProviderName::new(provider)];
    let (both, one) = (through(&["a", "b"]), through(&["b"]));
    let alone = db.outbox.say_present(&both).await.unwrap();
    assert_eq!((share(&alone, "a"), share(&alone, "b")), (Share::WHOLE, Share::WHOLE));
    let second = db.outbox.say_present(&one).await.unwrap();
    assert_eq!((share(&second, "b"), second.shares.len()), (Share::new(1, 1), 1));
    let first = db.outbox.say_present(&both).await.unwrap();
    assert_eq!((share(&first, "a"), share(&first, "b")), (Share::WHOLE, Share::new(0, 1)));

    // An older version does not say, and may send through any; who does not send has no part.
    db.outbox.say_present(&presence("api", &[])).await.unwrap();
    db.outbox.say_present(&presence("dispatch", &["default"])).await.unwrap();
    db.execute("update dispatcher set providers = null where providers = '{}'").await;
    let first = db.outbox.say_present(&both).await.unwrap();
    assert_eq!((share(&first, "a"), share(&first, "b")), (Share::new(0, 1), Share::new(0, 2)));

    db.execute("update dispatcher set seen_at = now() - interval '31 seconds' where providers is null").await;
    db.outbox.say_gone(&both).await.unwrap();
    let left = db.outbox.say_present(&one).await.unwrap();
    assert_eq!((share(&left, "b"), left.others), (Share::WHOLE, 0), "it follows when one goes");
}

#[tokio::test]
async fn messages_of_a_chain_that_nobody_has_go_on_in_the_default_chain() {
    let db = Database::new().await;
    let old = Draft { chain: "old", priority: Priority::High, client: "shop", ..Draft::default() };
    let waiting = old.accept(&db.outbox, 2500).await;
    let later = Draft { wait: DAY, ..old.clone() }.accept(&db.outbox, 1).await[0];
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 0, "nobody sends for the default chain yet");
    let both = presence("dispatch", &["default", "old"]);
    db.outbox.say_present(&both).await.unwrap();
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 0, "somebody has the chain");
    db.outbox.say_gone(&both).await.unwrap();
    db.outbox.say_present(&presence("dispatch", &["default"])).await.unwrap();
    db.outbox.say_present(&presence("api", &["old"])).await.unwrap();
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 0, "it may only be started anew");
    db.execute("update dispatcher set seen_at = seen_at - interval '10 minutes' where roles = '{dispatch}' and 'old' = any (chains)").await;

    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 2501);
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 0);
    let status = db.outbox.status(&[waiting[7], later], None).await.unwrap();
    assert!(status.iter().all(|status| status.chain == "default"));
    let claimed = claim(&db.outbox, 3000).await;
    assert_eq!(claimed.len(), 2500);
    assert_eq!(claimed.iter().map(|one| one.lease.id).collect::<BTreeSet<_>>(), waiting.into_iter().collect());
    let lanes = db.count("lane where chain = 'default' and priority = 'HIGH' and client = 'shop'").await;
    assert_eq!((lanes, db.count("lane").await), (1, 2));
}

#[tokio::test]
async fn what_somebody_holds_is_moved_when_his_lease_has_run_out() {
    let db = Database::new().await;
    let held = claimed_one(&db, &Draft::default()).await;
    db.execute("update lane set chain = 'old'").await;
    db.outbox.say_present(&presence("dispatch", &["default"])).await.unwrap();
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 0);
    let_leases_run_out(&db).await;
    assert_eq!(db.outbox.adopt_lanes().await.unwrap(), 1);
    let taken_over = claim(&db.outbox, 10).await;
    assert_eq!((taken_over[0].lease.id, taken_over[0].rounds), (held.lease.id, 1));
}

#[tokio::test]
async fn a_lane_is_paused_at_once_and_for_everybody() {
    let db = Database::new().await;
    let other = db.another_process().await;
    let ids = Draft::default().accept(&db.outbox, 2).await;
    let asked = request(&other, 10).await;
    let (shop, normal) = (ClientId::new("shop"), Priority::Normal);
    assert!(db.outbox.set_lane_mode("default", normal, &shop, true).await.unwrap());
    assert!(other.claim(&asked).await.unwrap().messages.is_empty(), "it had asked before it could know");
    assert!(db.outbox.set_lane_mode("default", normal, &shop, false).await.unwrap());
    assert_eq!(other.claim(&asked).await.unwrap().messages.len(), 2);
    assert_eq!(db.outbox.status(&ids, None).await.unwrap()[0].status, Status::InProcess);

    assert!(!db.outbox.set_lane_mode("defualt", normal, &shop, true).await.unwrap(), "nobody knows that chain");
    assert!(db.outbox.set_lane_mode("default", Priority::Bulk, &shop, true).await.unwrap(), "before anything comes");
    assert_eq!(db.count("lane where paused").await, 1);
    Draft { priority: Priority::Bulk, ..Draft::default() }.accept(&db.outbox, 1).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
}
