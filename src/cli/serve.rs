//! `postrider serve` and `postrider migrate`.

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{ConfigFile, Exit, Failure, check_config::load};
use crate::{
    app::{self, App, StartError},
    telemetry,
};

/// Run the service: the gRPC API, the dispatcher and the clean-up.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    file: ConfigFile,
    /// Create or update the tables first.
    #[arg(long)]
    migrate: bool,
}

impl Serve {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let settings = load(&self.file)?;
        let telemetry = telemetry::init(&settings.telemetry).map_err(|error| Failure::Usage(error.to_string()))?;
        let mut signals = StopSignals::new()?;
        if self.migrate {
            app::connect(&settings).await?.migrate().await.map_err(StartError::from)?;
        }
        let app = App::start(&settings).await?;
        tracing::info!(address = %app.address(), "serving");
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
}

/// Create or update the tables of the outbox.
pub(super) async fn migrate(file: &ConfigFile) -> Result<Exit, Failure> {
    let settings = load(file)?;
    let outbox = app::connect(&settings).await?;
    outbox.migrate().await.map_err(StartError::from)?;
    outbox.ensure_days(settings.retention.days_ahead).await.map_err(StartError::from)?;
    Ok(Exit::Done)
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::Database(crate::outbox::OutboxError::Unavailable(_)) => Self::Unavailable(error.to_string()),
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
