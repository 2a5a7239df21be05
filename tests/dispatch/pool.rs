//! The connections of a process to its database, while a provider holds its messages.

use std::time::Duration;

use postrider::{proto::v1::Status, sandbox::http::Fault};
use tokio::time::timeout;

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{email_to, emails, until},
    setup::Setup,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_provider_holds_no_connection_and_no_caller() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Silent).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url()).set("dispatch.concurrency", 100);
    let setup = setup.set("database.max_connections", 2).set("dispatch.drain_limit", "0ms");
    let app = TestApp::start(&setup).await;
    // The test's own connections must not be taken for the service's.
    app.database.outbox.close().await;
    let held = app.send_all(emails("held", 100)).await;
    until("a hundred sends are held", || async { gateway.connections() == 100 }).await;

    let promptly = Duration::from_secs(2);
    for (nth, id) in held.iter().take(20).enumerate() {
        let call = async {
            let more = app.send(email_to(&format!("more-{nth}@example.net"))).await;
            app.status(&more).await;
            app.status(id).await
        };
        let status = timeout(promptly, call).await.expect("answered while the provider is silent");
        assert_eq!(
            (status.status(), status.waiting_for.as_str()),
            (Status::InProcess, "the answer of provider gateway")
        );
        let (ours, in_transaction): (i64, i64) = sqlx::query_as(
            "select count(*), count(*) filter (where state like 'idle in transaction%') from pg_stat_activity
            where datname = current_database() and application_name = 'postrider' and pid <> pg_backend_pid()",
        )
        .fetch_one(&app.database.sql)
        .await
        .unwrap();
        assert!(ours <= 2, "{ours} connections");
        assert_eq!(in_transaction, 0);
    }
    assert_eq!(gateway.connections(), 100, "no more than there are permits for");
    app.finish().await;
}
