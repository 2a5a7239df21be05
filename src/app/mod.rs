//! Puts Postrider together, and owns the order of start and stop.
//!
//! Start: database, providers and what others know of them, days, dispatcher, clean-up, and the API last, so that nothing is accepted before it can
//! be sent; of these what the roles of the process ask for. Stop: not serving, no new claims, sends under way finish,
//! calls under way finish, outcomes are written. Decides nothing about messages.

mod accounts;
mod circuit;
mod company;
mod maintenance;
mod outlook;
mod providers;
mod pulse;
mod readiness;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use secrecy::SecretString;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    api::{Api, Backend},
    chain::{Chain, Links},
    config::{self, Role, Settings},
    delivery::RetryPolicy,
    dispatcher::{Dispatcher, Express},
    health::Board,
    outbox::{DaysMade, Intake, Openings, Outbox, OutboxError, Presence, Wake},
    policy::Policy,
    telemetry::OutboxGauges,
};

use accounts::Accounts;
use company::Company;
use maintenance::Maintenance;
use readiness::Signs;

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
    take_leave: CancellationToken,
    sending: JoinHandle<()>,
    maintenance: JoinHandle<()>,
    company: JoinHandle<()>,
    api: JoinHandle<()>,
    failed: CancellationToken,
    /// Whoever drops it without stopping it first stops it nonetheless, and waits for nothing.
    _stop: DropGuard,
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

/// Connects to the database of the settings, whose tables must be up to date.
async fn open(settings: &Settings) -> Result<Outbox, StartError> {
    let outbox = connect(settings).await?;
    match outbox.missing_migrations().await? {
        0 => Ok(outbox),
        missing => Err(StartError::NotMigrated(missing)),
    }
}

impl App {
    /// Starts everything that the process's roles ask for, or nothing.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let (listener, address) = listen(settings.server.listen).await?;
        let outbox = open(settings).await?;
        let parts = Parts {
            settings,
            outbox: &outbox,
            board: Board::default(),
            wake: Wake::new(outbox.clock().clone()),
            database: watch::Sender::new(true),
            providers: watch::Sender::new(true),
        };
        let stop = CancellationToken::new();
        let [stop_sending, stop_maintenance, stop_serving, take_leave] = std::array::from_fn(|_| stop.child_token());
        let (links, chains) = providers::build_chains(settings, &parts.board, outbox.clock())?;
        let (openings, sending) = parts.sending(&chains, &stop_sending);
        let company = parts.company(parts.has(Role::Dispatch).then_some(links));
        company.arrive().await;
        let maintenance = parts.maintenance();
        maintenance.see_to_days().await;
        let signs = Signs {
            database: parts.database.subscribe(),
            days: maintenance.days.subscribe(),
            providers: parts.providers.subscribe(),
        };
        let api = parts.api(openings, chains);
        let readiness = readiness::follow(signs, api.readiness(), stop_serving.clone());
        let api = serve(api, listener, settings.server.clone(), stop_serving.clone());
        let failed = CancellationToken::new();
        Ok(Self {
            address,
            sending: spawn(sending, &failed),
            maintenance: spawn(maintenance.run(stop_maintenance.clone()), &failed),
            api: spawn(while_it_runs(api, readiness), &failed),
            company: spawn(company.keep(take_leave.clone()), &failed),
            board: parts.board.clone(),
            outbox,
            failed,
            stop_sending,
            stop_serving,
            stop_maintenance,
            take_leave,
            _stop: stop.drop_guard(),
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
        let (sending, maintenance, api) = tokio::join!(self.sending, self.maintenance, self.api);
        self.take_leave.cancel();
        let company = self.company.await;
        let parts = [("dispatcher", sending), ("maintenance", maintenance), ("api", api), ("company", company)];
        for (part, ended) in parts {
            if let Err(error) = ended {
                tracing::error!(part, %error, "a part of Postrider did not end well");
            }
        }
        self.outbox.close().await;
    }
}

/// What the parts are made of.
struct Parts<'a> {
    settings: &'a Settings,
    outbox: &'a Outbox,
    board: Board,
    /// Rung by the API, heard by the dispatcher.
    wake: Wake,
    /// Whether the database is there, as whoever asks it most often has found.
    database: watch::Sender<bool>,
    /// Whether there is a provider of each chain that would be asked now.
    providers: watch::Sender<bool>,
}

impl Parts<'_> {
    fn has(&self, role: Role) -> bool {
        self.settings.process.roles.has(role)
    }

    /// What sends, with the openings that it has for what is accepted here; in a process that does not, what sees whether
    /// the database is there.
    fn sending(
        &self,
        chains: &BTreeMap<String, Chain>,
        stop: &CancellationToken,
    ) -> (Option<Openings>, BoxFuture<'static, ()>) {
        if !self.has(Role::Dispatch) {
            let pulse = pulse::run(self.outbox.clone(), self.database.clone(), stop.clone());
            return (None, pulse.boxed());
        }
        let outlook = outlook::watch(chains.clone(), self.providers.clone());
        let (openings, express) = Express::new(&self.settings.dispatch, chains, &self.wake, stop.clone());
        let dispatcher = Dispatcher {
            outbox: self.outbox.clone(),
            chains: chains.clone(),
            settings: self.settings.dispatch.clone(),
            retry: RetryPolicy::from(&self.settings.retry),
            wake: self.wake.clone(),
            database: self.database.clone(),
        };
        (Some(openings), while_it_runs(dispatcher.run(express, stop.clone()), outlook).boxed())
    }

    /// Its dealings with others: with these providers, where it sends.
    fn company(&self, links: Option<Links>) -> Company {
        let Settings { chains, providers, process, .. } = self.settings;
        let presence = match links {
            Some(_) => {
                let kinds = providers.iter().map(|(name, provider)| (name.clone(), provider.kind.as_str().to_owned()));
                Presence::new(&process.roles, chains.keys().cloned()).with_providers(kinds)
            }
            None => Presence::new(&process.roles, []),
        };
        Company {
            outbox: self.outbox.clone(),
            wake: self.wake.clone(),
            presence,
            accounts: links.map(|links| Accounts::new(self.outbox.clone(), self.wake.clone(), links)),
            maintains: self.has(Role::Maintain),
        }
    }

    fn maintenance(&self) -> Maintenance {
        Maintenance {
            outbox: self.outbox.clone(),
            settings: self.settings.retention.clone(),
            roles: self.settings.process.roles.clone(),
            gauges: OutboxGauges::exported(),
            days: watch::Sender::new(DaysMade { is_enough: true, ahead: u32::MAX }),
        }
    }

    /// What answers calls; in a process that does not, what answers for its health.
    fn api(&self, openings: Option<Openings>, chains: BTreeMap<String, Chain>) -> Api {
        if !self.has(Role::Api) {
            return Api::of_health();
        }
        let waiting_bytes = self.settings.server.waiting_bytes;
        Api::new(Backend {
            outbox: self.outbox.clone(),
            policy: Arc::new(Policy::new(&self.settings.policy)),
            routes: providers::routes(self.settings, chains),
            board: self.board.clone(),
            wake: self.wake.clone(),
            intake: Intake::new(self.outbox.clone(), waiting_bytes, openings, self.wake.clone()),
            longest_wait: self.settings.retry.longest_wait,
            retention: self.settings.retention.clone(),
            max_watchers: self.settings.server.max_watchers,
        })
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening.await.map_err(|error| StartError::Listen(address, error))
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

async fn serve(api: Api, listener: TcpListener, settings: config::Server, stop: CancellationToken) {
    if let Err(error) = api.serve(listener, &settings, stop.cancelled_owned()).await {
        tracing::error!(%error, "the API ended");
    }
}
