//! The API over an outbox on a real Postgres, on a free port. No dispatcher runs in it.

use std::{net::SocketAddr, sync::Arc};

use postrider::{
    api::{Api, Backend, Readiness, ServeError},
    config::Settings,
    health::Board,
    outbox::{Intake, Outbox, Wake},
    policy::{Policy, Routes},
};
use sqlx::{Postgres, Transaction};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use tonic::transport::{Channel, Endpoint};

use super::postgres::Database;

/// A running service.
pub struct Service {
    pub address: SocketAddr,
    pub wake: Wake,
    pub readiness: Readiness,
    pub database: Arc<Database>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

/// A service with the default settings.
pub async fn service() -> Service {
    service_with(|_| {}).await
}

/// A service with other settings.
pub async fn service_with(change: impl FnOnce(&mut Settings)) -> Service {
    let database = Database::new().await;
    let outbox = database.outbox.clone();
    start(Arc::new(database), outbox, change).await
}

/// A service whose database cannot be reached: it was there when the service started, and is gone.
pub async fn service_without_database() -> Service {
    let database = Database::new().await;
    let outbox = database.another_process().await;
    outbox.close().await;
    start(Arc::new(database), outbox, |_| {}).await
}

async fn start(database: Arc<Database>, outbox: Outbox, change: impl FnOnce(&mut Settings)) -> Service {
    let mut settings = Settings::default();
    change(&mut settings);
    let wake = Wake::new(outbox.clock().clone());
    let intake = Intake::new(outbox.clone(), settings.server.waiting_bytes, None, wake.clone());
    let api = Api::new(Backend {
        outbox,
        intake,
        wake: wake.clone(),
        policy: Arc::new(Policy::new(&settings.policy)),
        routes: Routes::new(&settings.routes, |_, _| Vec::new()),
        board: Board::default(),
        longest_wait: settings.retry.longest_wait,
        retention: settings.retention.clone(),
        max_watchers: settings.server.max_watchers,
    });
    let readiness = api.readiness();
    readiness.set_serving().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let served =
        tokio::spawn(async move { api.serve(listener, &settings.server, async { drop(stopped.await) }).await });
    Service { address, wake, readiness, database, stop, served }
}

impl Service {
    /// A second service on the same database, with other settings.
    pub async fn beside(&self, change: impl FnOnce(&mut Settings)) -> Service {
        start(self.database.clone(), self.database.another_process().await, change).await
    }

    /// A connection of its own.
    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("an address");
        endpoint.connect().await.expect("the service listens")
    }

    /// Holds every commit until what it gives is dropped.
    pub async fn hold_commits(&self) -> Transaction<'static, Postgres> {
        let mut lock = self.database.sql.begin().await.expect("a transaction");
        sqlx::query("lock table pending in share mode").execute(&mut *lock).await.expect("the lock");
        lock
    }

    /// Waits until a commit is held.
    pub async fn commit_held(&self) {
        let held = "select exists (select from pg_locks join pg_database on pg_database.oid = pg_locks.database \
                    where datname = current_database() and not granted)";
        while !self.database.scalar::<bool>(held).await {
            tokio::task::yield_now().await;
        }
    }

    /// Tells it to stop, and gives what waits for the end.
    pub fn stop(self) -> JoinHandle<Result<(), ServeError>> {
        drop(self.stop);
        self.served
    }
}
