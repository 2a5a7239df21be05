//! What is known of providers: found out by one process, read by all.

use std::collections::BTreeMap;

use postrider::{
    config::Roles,
    delivery::ProviderName,
    health::{Findings, Known, Mode, Opened, Reason, Rest, SharedState},
    outbox::{Outbox, Presence},
};
use time::{Duration, OffsetDateTime};

use crate::support::postgres::Database;

/// A process that sends through those providers is there.
async fn is_there(outbox: &Outbox, providers: &[&str]) -> Presence {
    let roles: Roles = "dispatch".parse().unwrap();
    let kinds = providers.iter().map(|name| ((*name).to_owned(), "http".to_owned()));
    let presence = Presence::new(&roles, ["default".to_owned()]).with_providers(kinds);
    outbox.say_present(&presence).await.unwrap();
    presence
}

/// So many seconds from now, as the database keeps it.
fn later(seconds: i64) -> OffsetDateTime {
    let time = OffsetDateTime::now_utc() + Duration::seconds(seconds);
    time.replace_microsecond(time.microsecond()).unwrap()
}

async fn find_out(outbox: &Outbox, findings: Findings) -> SharedState {
    outbox.find_out(&ProviderName::new("gateway"), &findings).await.unwrap().expect("the provider is known")
}

async fn only(outbox: &Outbox) -> SharedState {
    let states = outbox.provider_states().await.unwrap();
    assert_eq!(states.len(), 1);
    states.into_iter().next().unwrap()
}

#[tokio::test]
async fn what_one_process_finds_out_another_reads() {
    let db = Database::new().await;
    let other = db.another_process().await;
    is_there(&db.outbox, &["gateway"]).await;
    let fresh = only(&other).await;
    assert_eq!((fresh.kind.as_str(), fresh.mode, &fresh.known), ("http", Mode::On, &Known::default()));

    let known = Known {
        circuit: Some(Opened { until: later(10), reopened: 3 }),
        rest: Some(Rest { reason: Reason::Throttled, until: later(20) }),
        misconfigured_until: Some(later(30)),
        domains: BTreeMap::from([("shop.example".to_owned(), later(40)), ("bank.example".to_owned(), later(50))]),
    };
    let written = find_out(&db.outbox, Findings::between(&Known::default(), &known)).await;
    assert_eq!(written, only(&other).await);
    assert_eq!((written.known, written.version), (known.clone(), fresh.version + 1));

    // Of what it says nothing of, the others' word stands.
    let closed = Findings { circuit: Some(None), ..Findings::default() };
    assert_eq!(find_out(&other, closed).await.known, Known { circuit: None, ..known.clone() });
    let domains = BTreeMap::from([("shop.example".to_owned(), None), ("new.example".to_owned(), Some(later(60)))]);
    let changed = find_out(&other, Findings { domains, ..Findings::default() }).await.known;
    assert_eq!(changed.domains.keys().collect::<Vec<_>>(), ["bank.example", "new.example"]);
    let set_up = Findings { misconfigured_until: Some(None), ..Findings::default() };
    assert_eq!(find_out(&other, set_up).await.known.misconfigured_until, None);
}

#[tokio::test]
async fn a_rest_is_not_cut_short_by_who_knows_of_a_shorter_one() {
    let db = Database::new().await;
    is_there(&db.outbox, &["gateway"]).await;
    let rest = |reason, until| Findings { rest: Some(Rest { reason, until }), ..Findings::default() };
    let (shorter, longer) = (later(10), later(1000));
    for (reason, until, expected) in [
        (Reason::Throttled, shorter, Reason::Throttled),
        (Reason::QuotaUsedUp, longer, Reason::QuotaUsedUp),
        (Reason::AskedToWait, shorter, Reason::QuotaUsedUp),
    ] {
        let known = find_out(&db.outbox, rest(reason, until)).await.known;
        assert_eq!(known.rest.map(|rest| rest.reason), Some(expected));
    }
    assert_eq!(only(&db.outbox).await.known.rest.map(|rest| rest.until), Some(longer));
}

#[tokio::test]
async fn an_operators_word_stays_whatever_is_found_out_and_whoever_is_restarted() {
    let db = Database::new().await;
    let gateway = ProviderName::new("gateway");
    assert_eq!(db.outbox.set_provider_mode(&gateway, Mode::Off).await.unwrap(), None, "nobody sends through it");
    let presence = is_there(&db.outbox, &["gateway"]).await;
    for mode in Mode::ALL.into_iter().rev() {
        let set = db.outbox.set_provider_mode(&gateway, mode).await.unwrap().expect("it is known");
        assert_eq!((set.mode, only(&db.outbox).await), (mode, set));
    }
    db.outbox.set_provider_mode(&gateway, Mode::Drain).await.unwrap();
    let opened = Opened { until: later(10), reopened: 0 };
    find_out(&db.outbox, Findings { circuit: Some(Some(opened)), ..Findings::default() }).await;
    db.outbox.say_gone(&presence).await.unwrap();
    is_there(&db.outbox, &["gateway"]).await;
    assert_eq!(only(&db.outbox).await.mode, Mode::Drain);
}

#[tokio::test]
async fn what_an_operator_puts_back_is_tried_anew() {
    let db = Database::new().await;
    is_there(&db.outbox, &["gateway"]).await;
    let known = Known {
        circuit: Some(Opened { until: later(10), reopened: 3 }),
        rest: Some(Rest { reason: Reason::Throttled, until: later(20) }),
        misconfigured_until: Some(later(30)),
        domains: BTreeMap::from([("shop.example".to_owned(), later(40))]),
    };
    find_out(&db.outbox, Findings::between(&Known::default(), &known)).await;
    for (mode, expected) in [(Mode::Off, known.clone()), (Mode::Drain, known), (Mode::On, Known::default())] {
        let set = db.outbox.set_provider_mode(&ProviderName::new("gateway"), mode).await.unwrap();
        assert_eq!(set.map(|state| state.known), Some(expected), "{mode:?}");
    }
}

#[tokio::test]
async fn a_provider_that_no_process_has_any_more_is_not_spoken_of() {
    let db = Database::new().await;
    is_there(&db.outbox, &["gateway", "relay"]).await;
    assert_eq!(db.outbox.provider_states().await.unwrap().len(), 2);
    let before = is_there(&db.outbox, &["gateway"]).await;
    db.execute("update dispatcher set seen_at = now() - interval '11 minutes' where 'relay' = any (providers)").await;
    assert_eq!(only(&db.outbox).await.provider.as_str(), "gateway");
    let relay = ProviderName::new("relay");
    assert_eq!(db.outbox.set_provider_mode(&relay, Mode::Off).await.unwrap(), None);

    // By one figure it shows whether there is anything new.
    let states = db.outbox.say_present(&before).await.unwrap().states;
    assert_eq!(db.outbox.say_present(&before).await.unwrap().states, states);
    find_out(&db.outbox, Findings { circuit: Some(None), ..Findings::default() }).await;
    assert_ne!(db.outbox.say_present(&before).await.unwrap().states, states);
}
