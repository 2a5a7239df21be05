//! Processes that send through the same accounts: they share limits, and what is known of a provider.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, http::Uri};
use postrider::{
    proto::v1::{Priority, SendEmailRequest, Status},
    sandbox::http::Fault,
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{email_to, emails, history, until},
    postgres::Database,
    process::Process,
    setup::Setup,
};

/// A provider that counts its calls. Each process calls it at a path of its own.
struct Counting {
    address: String,
    calls: Arc<Mutex<Vec<(Instant, String)>>>,
    most_at_once: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Counting {
    /// One that takes that long to answer.
    async fn start(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (calls, most_at_once, at_once) =
            (Arc::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (noted, most): (Arc<Mutex<Vec<_>>>, _) = (Arc::clone(&calls), most_at_once.clone());
        let answer = async move |uri: Uri| {
            noted.lock().unwrap().push((Instant::now(), uri.path().to_owned()));
            most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(takes).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Json(json!({ "id": "mail" }))
        };
        let router = Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, calls, most_at_once, serving }
    }

    fn url(&self, process: &str) -> String {
        format!("{}/{process}", self.address)
    }

    fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Waits until there were so many calls.
    async fn called(&self, times: usize) {
        until(&format!("{times} calls"), || async { self.count() >= times }).await;
    }

    /// The calls after the first so many: how many of a process, and the most in any second.
    fn after(&self, first: usize) -> (impl Fn(&str) -> usize, usize) {
        let calls = self.calls.lock().unwrap()[first..].to_vec();
        let within = |from: Instant| {
            let of_second = |at: Instant| at >= from && at < from + Duration::from_secs(1);
            calls.iter().filter(|(at, _)| of_second(*at)).count()
        };
        let most = calls.iter().map(|(at, _)| within(*at)).max().unwrap_or(0);
        (move |process: &str| calls.iter().filter(|(_, path)| path.trim_start_matches('/') == process).count(), most)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Two processes that have heard of each other.
async fn pair(database: &Database, gateway: &Counting, change: impl Fn(Setup) -> Setup) -> (Process, Process) {
    let setup = |name: &str| change(Setup::new().http("gateway", &gateway.url(name)));
    let (one, other) = (setup("one"), setup("other"));
    let (one, other) = tokio::join!(Process::start(database, &one), Process::start(database, &other));
    for process in [&one, &other] {
        process.wrote("\"processes\":2").await;
    }
    (one, other)
}

#[tokio::test]
async fn a_rate_belongs_to_the_account_and_who_is_left_takes_the_whole() {
    let (database, gateway) = (Database::new().await, Counting::start(Duration::ZERO).await);
    let (one, other) = pair(&database, &gateway, |setup| setup.set("providers.gateway.rate_per_second", 20)).await;
    one.send_all(emails("both", 100)).await;
    gateway.called(80).await;
    let (calls_of, most) = gateway.after(0);
    // Each of them would have made twenty.
    assert!((15..=26).contains(&most), "{most} in a second");
    assert!(calls_of("one") >= 20 && calls_of("other") >= 20, "{} and {}", calls_of("one"), calls_of("other"));

    other.kill().await;
    // As if half a minute had passed.
    database.execute("update dispatcher set seen_at = now() - interval '31 seconds'").await;
    database.execute("select pg_notify('postrider', 'company')").await;
    one.wrote("\"processes\":1").await;
    let before = gateway.count();
    one.send_all(emails("left", 100)).await;
    gateway.called(before + 60).await;
    let (calls_of, most) = gateway.after(before);
    assert!((15..=26).contains(&most), "{most} in a second");
    assert_eq!(calls_of("other"), 0);
    one.kill().await;
}

#[tokio::test]
async fn places_belong_to_the_account() {
    let (database, gateway) = (Database::new().await, Counting::start(Duration::from_millis(20)).await);
    let (one, other) = pair(&database, &gateway, |setup| setup.set("providers.gateway.concurrency", 3)).await;
    let ids = one.send_all(emails("ada", 100)).await;
    other.wait_for_all(&ids, Status::SuccessSent).await;
    assert_eq!(gateway.most_at_once.load(Ordering::SeqCst), 3);
    let (calls_of, _) = gateway.after(0);
    assert!(calls_of("one") >= 10 && calls_of("other") >= 10, "{} and {}", calls_of("one"), calls_of("other"));
    one.finish().await;
    other.finish().await;
}

#[tokio::test]
async fn with_more_processes_than_places_nothing_waits_for_one_that_has_none() {
    let (database, gateway) = (Database::new().await, Counting::start(Duration::from_millis(1)).await);
    let (one, other) = pair(&database, &gateway, |setup| setup.set("providers.gateway.concurrency", 1)).await;
    // Whichever has none: the other hears of what it accepts.
    let mut ids = one.send_all(emails("one", 10)).await;
    ids.extend(other.send_all(emails("other", 10)).await);
    one.wait_for_all(&ids, Status::SuccessSent).await;
    assert_eq!(gateway.most_at_once.load(Ordering::SeqCst), 1);
    let (calls_of, _) = gateway.after(0);
    assert!(calls_of("one") == 20 || calls_of("other") == 20, "{} and {}", calls_of("one"), calls_of("other"));
    one.finish().await;
    other.finish().await;
}

#[tokio::test]
async fn a_fresh_process_does_not_ask_a_provider_that_others_know_to_be_down_or_at_rest() {
    let faults = [
        (Fault::Status { code: 503, retry_after: None }, "open_until"),
        (Fault::Status { code: 429, retry_after: Some(3600) }, "resting_until"),
        (Fault::Status { code: 402, retry_after: Some(3600) }, "resting_until"),
    ];
    for (fault, column) in faults {
        let (database, broken, backup) = (Database::new().await, gateway().await, gateway().await);
        broken.set_fault(fault.clone()).unwrap();
        let setup = Setup::new().http("broken", &broken.url()).http("backup", &backup.url());
        let setup = setup.set("providers.broken.breaker.min_calls", 2);
        let setup =
            setup.set("providers.broken.breaker.open_for", "1h").set("providers.broken.breaker.open_longest", "1h");
        let knows = Process::start(&database, &setup).await;
        let ids = knows.send_all(emails("first", 2)).await;
        knows.wait_for_all(&ids, Status::SuccessSent).await;
        let known = format!("provider_state where provider = 'broken' and {column} > now() + interval '50 minutes'");
        until("it is known to all", || async { database.count(&known).await == 1 }).await;
        // It says no farewell, and is still counted.
        knows.kill().await;

        let fresh = Process::start(&database, &setup).await;
        for nth in 0..5 {
            let id = fresh.send(email_to(&format!("second-{nth}@example.net"))).await;
            let status = fresh.wait_for(&id, Status::SuccessSent).await;
            assert_eq!(history(&status), ["1 ATTEMPT backup ACCEPTED"], "{fault}");
        }
        fresh.finish().await;
    }
}

#[tokio::test]
async fn a_process_that_runs_hears_at_once_of_what_another_found_out() {
    let (database, broken, backup) = (Arc::new(Database::new().await), gateway().await, gateway().await);
    broken.set_fault(Fault::Status { code: 429, retry_after: Some(3600) }).unwrap();
    let setup = Setup::new().http("broken", &broken.url()).http("backup", &backup.url());
    let (one, other) = (
        TestApp::start_on(database.clone(), &setup).await,
        TestApp::start_on(database.clone(), &setup.clone().set("process.roles", json!(["dispatch", "maintain"]))).await,
    );
    let id = one.send(email_to("ada@example.net")).await;
    let status = one.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT broken THROTTLED", "1 ATTEMPT backup ACCEPTED"]);
    // Whichever of them sent it.
    until("both know", || async { one.waits("broken") && other.waits("broken") }).await;
    one.finish().await;
    other.finish().await;
}

#[tokio::test]
async fn a_provider_is_tried_out_with_what_matters_least() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "10ms").set("retry.max_rounds", 1000);
    let at = |key: &str| format!("providers.gateway.breaker.{key}");
    let setup = setup.set(&at("min_calls"), 2).set(&at("probes"), 1);
    let app = TestApp::start(&setup.set(&at("open_for"), "300ms").set(&at("open_longest"), "300ms")).await;
    let of = |name: &str, priority: Priority| {
        let set = move |request| SendEmailRequest { priority: priority.into(), ..request };
        emails(name, 5).into_iter().map(set).collect::<Vec<_>>()
    };
    let mut ids = app.send_all(of("high", Priority::High)).await;
    let open = "provider_state where open_until is not null";
    until("its circuit has opened", || async { app.database.count(open).await == 1 }).await;
    let bulk = app.send_all(of("bulk", Priority::Bulk)).await;
    let normal = app.send_all(of("normal", Priority::Normal)).await;
    for id in &bulk {
        app.wait(id, |status| !status.events.is_empty()).await;
    }
    for id in &normal {
        assert!(app.status(id).await.events.is_empty(), "something that matters less was there");
    }
    gateway.set_fault(Fault::None).unwrap();
    ids.extend(bulk.into_iter().chain(normal));
    app.wait_for_all(&ids, Status::SuccessSent).await;
    let first = gateway.inbox().all().into_iter().min_by_key(|mail| mail.number).unwrap();
    assert!(first.recipients[0].starts_with("bulk"), "{:?}", first.recipients);
    app.finish().await;
}
