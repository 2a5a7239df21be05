//! A whole Postrider on this machine: a private Postgres, two sandbox providers and the service over them.
//!
//! Owns their start and stop in the right order; `dev` and `demo` say what is done with it.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::Failure;
use crate::{
    app::{self, App},
    config::{Breaker, DEFAULT_CHAIN, HttpProvider, Provider, ProviderKind, Settings, SmtpProvider, SmtpTls},
    sandbox::{
        Inbox, SandboxError,
        http::{HttpOptions, HttpSink},
        postgres::{Mode, Postgres, PostgresOptions},
        smtp::{SmtpOptions, SmtpSink},
    },
};

/// The provider that is asked first, over HTTP.
pub(super) const PRIMARY: &str = "primary";
/// The provider that is asked when the first one cannot, over SMTP.
pub(super) const BACKUP: &str = "backup";

const DATABASE: &str = "postrider";

/// Everything that runs.
pub(super) struct LocalSystem {
    pub(super) primary: HttpSink,
    pub(super) backup: SmtpSink,
    pub(super) inbox: Inbox,
    pub(super) app: App,
    postgres: Postgres,
}

/// Where it is to be.
#[derive(Default)]
pub(super) struct Places {
    /// The folder of the database; without it one that is gone afterwards.
    pub(super) data: Option<PathBuf>,
    /// Where the service listens; without it at a free port.
    pub(super) listen: Option<SocketAddr>,
}

impl LocalSystem {
    /// Starts everything.
    pub(super) async fn start(places: Places) -> Result<Self, Failure> {
        let postgres = Postgres::start(PostgresOptions { dir: places.data, ..PostgresOptions::default() }).await?;
        postgres.create_database(DATABASE).await?;
        let inbox = Inbox::default();
        let primary =
            HttpSink::start(HttpOptions { name: PRIMARY.to_owned(), address: None, inbox: inbox.clone() }).await?;
        let backup =
            SmtpSink::start(SmtpOptions { name: BACKUP.to_owned(), inbox: inbox.clone(), ..SmtpOptions::default() })
                .await?;

        let mut settings = Settings::default();
        settings.database.url = Some(postgres.url(DATABASE).into());
        settings.server.listen = places.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        settings.retry.pause = Duration::from_secs(2);
        settings.providers = [
            (PRIMARY.to_owned(), provider(ProviderKind::Http(HttpProvider::new(primary.url())))),
            (BACKUP.to_owned(), provider(ProviderKind::Smtp(relay(backup.address())))),
        ]
        .into();
        settings.chains = [(DEFAULT_CHAIN.to_owned(), [PRIMARY, BACKUP].into_iter().collect())].into();

        app::migrate(&settings).await?;
        let app = App::start(&settings).await?;
        Ok(Self { primary, backup, inbox, app, postgres })
    }

    /// Where Postgres is, for `psql`.
    pub(super) fn database_url(&self) -> String {
        self.postgres.url(DATABASE)
    }

    /// Stops everything, the service first.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.app.stop().await;
        self.postgres.stop(Mode::Fast).await?;
        Ok(())
    }
}

/// A provider whose circuit opens and is tried again while somebody watches.
fn provider(kind: ProviderKind) -> Provider {
    let breaker = Breaker {
        window: Duration::from_secs(3),
        open_for: Duration::from_secs(1),
        open_longest: Duration::from_secs(10),
        slow_call: Duration::from_secs(5),
        ..Breaker::default()
    };
    Provider { breaker, ..Provider::new(kind) }
}

fn relay(address: SocketAddr) -> SmtpProvider {
    let mut relay = SmtpProvider::new(address.ip().to_string());
    relay.port = Some(address.port());
    relay.tls = SmtpTls::None;
    relay.command_timeout = Duration::from_secs(10);
    relay.data_timeout = Duration::from_secs(20);
    relay
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self::Other(text)
    }
}
