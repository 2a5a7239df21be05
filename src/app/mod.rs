//! Puts Postrider together, and owns the order of start and stop.
//!
//! Start: database, days, providers, dispatcher, clean-up, and the API last, so that nothing is accepted before it can
//! be sent. Stop: not serving, no new claims, sends under way finish, calls under way finish, outcomes are written.
//! Decides nothing about messages.

mod circuit;
mod maintenance;
mod providers;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{Api, Backend, Readiness},
    config::{self, Settings},
    delivery::RetryPolicy,
    dispatcher::{Dispatcher, Express},
    health::Board,
    outbox::{Intake, Outbox, OutboxError, Wake},
    policy::Policy,
};

pub use circuit::CircuitWatch;
pub use providers::ProviderError;

/// Why Postrider did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database cannot be used.
    #[error("{0}")]
    Database(#[from] OutboxError),
    /// The tables are not those of this version.
    #[error("the database's tables are not up to date: run `postrider migrate` first ({0} migrations are missing)")]
    NotMigrated(usize),
    /// The settings name no database.
    #[error("database.url is not set")]
    NoDatabase,
    /// A provider cannot be built from its settings.
    #[error("{0}")]
    Provider(#[from] ProviderError),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
}

impl StartError {
    /// Whether the database could not be reached, so that another try may go better.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Database(OutboxError::Unavailable(_)))
    }
}

/// A running Postrider.
pub struct App {
    address: SocketAddr,
    board: Board,
    outbox: Outbox,
    stop_sending: CancellationToken,
    stop_serving: CancellationToken,
    stop_maintenance: CancellationToken,
    dispatcher: JoinHandle<()>,
    maintenance: JoinHandle<()>,
    api: JoinHandle<()>,
    failed: CancellationToken,
}

/// Brings the tables up to date, and makes those of the days ahead.
pub async fn migrate(settings: &Settings) -> Result<(), StartError> {
    let outbox = connect(settings).await?;
    outbox.migrate().await?;
    outbox.ensure_days(settings.retention.days_ahead).await?;
    outbox.close().await;
    Ok(())
}

/// Connects to the database of the settings, waiting a while for one that is not up yet. The clock is measured.
async fn connect(settings: &Settings) -> Result<Outbox, StartError> {
    let url: &SecretString = settings.database.url.as_ref().ok_or(StartError::NoDatabase)?;
    let mut pause = Duration::from_millis(200);
    loop {
        match Outbox::connect(&settings.database, url).await {
            Err(OutboxError::Unavailable(reason)) if pause < Duration::from_secs(10) => {
                tracing::warn!(reason, "the database is not available yet");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            answer => return Ok(answer?),
        }
    }
}

impl App {
    /// Starts everything, or nothing.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let listener = TcpListener::bind(settings.server.listen)
            .await
            .map_err(|error| StartError::Listen(settings.server.listen, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Listen(settings.server.listen, error))?;

        let outbox = connect(settings).await?;
        let missing = outbox.missing_migrations().await?;
        if missing > 0 {
            return Err(StartError::NotMigrated(missing));
        }
        outbox.ensure_days(settings.retention.days_ahead).await?;

        let board = Board::default();
        let chains = providers::build_chains(settings, &board, outbox.clock())?;
        let wake = Wake::new(outbox.clock().clone());

        let stop_sending = CancellationToken::new();
        let (openings, express) = Express::new(&settings.dispatch, &chains, &wake, stop_sending.clone());
        let intake = Intake::new(outbox.clone(), settings.server.waiting_bytes, Some(openings), wake.clone());
        let dispatcher = Dispatcher {
            outbox: outbox.clone(),
            chains,
            settings: settings.dispatch.clone(),
            retry: RetryPolicy::from(&settings.retry),
            wake,
            database: watch::Sender::new(true),
        };
        let database = dispatcher.database.subscribe();
        let stop_maintenance = CancellationToken::new();
        let maintenance = maintenance::run(outbox.clone(), settings.retention.clone(), stop_maintenance.clone());

        let stop_serving = CancellationToken::new();
        let api = Api::new(Backend {
            outbox: outbox.clone(),
            policy: Arc::new(Policy::new(&settings.policy)),
            board: board.clone(),
            intake,
            longest_wait: settings.retry.longest_wait,
            retention: settings.retention.clone(),
        });
        let failed = CancellationToken::new();
        let readiness = follow(database, api.readiness(), stop_serving.clone());
        let api = serve(api, listener, settings.server.clone(), stop_serving.clone());
        Ok(Self {
            address,
            board,
            outbox,
            dispatcher: spawn(dispatcher.run(express, stop_sending.clone()), &failed),
            maintenance: spawn(maintenance, &failed),
            api: spawn(while_it_runs(api, readiness), &failed),
            failed,
            stop_sending,
            stop_serving,
            stop_maintenance,
        })
    }

    /// The address that the API listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The state of the providers.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Notes from now on how the circuit of the provider of that name changes.
    pub fn watch_circuit(&self, provider: &str) -> CircuitWatch {
        CircuitWatch::start(provider, self.board.clone(), self.outbox.clock().clone())
    }

    /// The outbox.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Ends when a part of it has ended that should not have: whoever runs it had better start it anew.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Stops: lets sends and calls under way finish within their limits, and writes everything back.
    pub async fn stop(self) {
        self.stop_serving.cancel();
        self.stop_sending.cancel();
        self.stop_maintenance.cancel();
        let (dispatcher, maintenance, api) = tokio::join!(self.dispatcher, self.maintenance, self.api);
        for (part, ended) in [("dispatcher", dispatcher), ("maintenance", maintenance), ("api", api)] {
            if let Err(error) = ended {
                tracing::error!(part, %error, "a part of Postrider did not end well");
            }
        }
        self.outbox.close().await;
    }
}

/// Runs a part of it, and tells when the part has ended, be it by a panic.
fn spawn(part: impl Future<Output = ()> + Send + 'static, failed: &CancellationToken) -> JoinHandle<()> {
    let ended = failed.clone().drop_guard();
    tokio::spawn(async move {
        part.await;
        drop(ended);
    })
}

/// Does the second thing for as long as the first lasts.
async fn while_it_runs(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let second = async {
        second.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = first => {}
        () = second => {}
    }
}

/// Says by `grpc.health.v1` whether the database is there, until the service stops.
async fn follow(mut database: watch::Receiver<bool>, readiness: Readiness, stop: CancellationToken) {
    loop {
        tokio::select! {
            changed = database.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        let is_there = *database.borrow_and_update();
        if is_there { readiness.set_serving().await } else { readiness.set_not_serving().await }
    }
}

async fn serve(api: Api, listener: TcpListener, settings: config::Server, stop: CancellationToken) {
    if let Err(error) = api.serve(listener, &settings, stop.cancelled_owned()).await {
        tracing::error!(%error, "the API ended");
    }
}
