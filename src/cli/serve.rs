//! `postrider serve` and `postrider migrate`.
//!
//! Owns the signals and the exit code; what is started and stopped, and in which order, is the app's.

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    ConfigFile, Exit, Failure,
    check_config::{load, load_for},
};
use crate::{
    app::{self, App, StartError},
    config::{Roles, Settings},
    telemetry,
};

/// Run the service: the gRPC API, the dispatcher and the clean-up, or some of them.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    file: ConfigFile,
    /// Create or update the tables first.
    #[arg(long)]
    migrate: bool,
    /// What this process does, of api, dispatch and maintain; without it all, or what the settings say.
    #[arg(long, value_name = "ROLE,…")]
    roles: Option<Roles>,
}

impl Serve {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let settings = load_for(&self.file, self.roles.as_ref())?;
        let telemetry = telemetry::init(&settings.telemetry).map_err(|error| Failure::Usage(error.to_string()))?;
        settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let mut signals = StopSignals::new()?;
        let app = tokio::select! {
            app = self.start(&settings) => app?,
            // A database that is not there is waited for; whoever wants it to stop must not wait as well.
            () = signals.received() => {
                telemetry.shutdown().await;
                return Ok(Exit::Done);
            }
        };
        tracing::info!(address = %app.address(), roles = %settings.process.roles, "serving");
        let failed = tokio::select! {
            () = signals.received() => false,
            () = app.failed() => true,
        };
        tracing::info!("stopping; a signal now stops at once");
        tokio::select! {
            () = app.stop() => tracing::info!("stopped"),
            () = signals.received() => tracing::warn!("stopped at once"),
        }
        telemetry.shutdown().await;
        if failed { Err(Failure::Other("a part of Postrider ended by itself".to_owned())) } else { Ok(Exit::Done) }
    }

    async fn start(&self, settings: &Settings) -> Result<App, StartError> {
        if self.migrate {
            app::migrate(settings).await?;
        }
        App::start(settings).await
    }
}

/// Create or update the tables of the outbox.
pub(super) async fn migrate(file: &ConfigFile) -> Result<Exit, Failure> {
    let settings = load(file)?;
    // A database that is waited for is worth a line in the log.
    let telemetry = telemetry::init(&settings.telemetry).map_err(|error| Failure::Usage(error.to_string()))?;
    app::migrate(&settings).await?;
    telemetry.shutdown().await;
    Ok(Exit::Done)
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match &error {
            _ if error.is_unavailable() => Self::Unavailable(error.to_string()),
            StartError::NoDatabase | StartError::Provider(_) | StartError::NotMigrated(_) => {
                Self::Usage(error.to_string())
            }
            StartError::Database(_) | StartError::Listen(..) => Self::Other(error.to_string()),
        }
    }
}

/// SIGTERM and SIGINT.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(super) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Other(format!("cannot listen for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
