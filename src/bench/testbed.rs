//! What a scenario runs on: tables of its own, providers of the sandbox, and Postrider itself.
//!
//! Owns their start and their end; measures nothing.

use std::{
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use secrecy::SecretString;
use tokio::time::{Instant, sleep};

use super::{BenchError, Options, Progress, Scale};
use crate::{
    app::App,
    config::{self, DEFAULT_CHAIN, HttpProvider, ProviderKind, Settings, SmtpProvider, SmtpTls},
    outbox::{BENCHMARK_SCHEMA, Outbox},
    sandbox::{
        Inbox, SandboxError,
        http::{self, HttpOptions, HttpSink},
        postgres::{Postgres, PostgresOptions},
        smtp::{self, SmtpOptions, SmtpSink, Stage},
    },
};

/// The longest that is waited for messages to be sent.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked whether the last outcomes are written.
const LOOK: Duration = Duration::from_millis(2);

/// What all scenarios of a run share.
pub(super) struct Testbed<'a> {
    pub(super) scale: &'a Scale,
    pub(super) program: &'a Path,
    progress: &'a Progress,
    url: SecretString,
    schemas: AtomicU32,
    /// Stopped when the run is over.
    _postgres: Option<Postgres>,
}

impl<'a> Testbed<'a> {
    /// Takes the database of the options, or starts a private one.
    pub(super) async fn new(options: &'a Options, progress: &'a Progress) -> Result<Self, BenchError> {
        let (url, postgres) = match &options.database_url {
            Some(url) => (url.clone(), None),
            None => {
                let postgres = Postgres::start(PostgresOptions::default()).await?;
                (SecretString::from(postgres.url("postgres")), Some(postgres))
            }
        };
        Ok(Self {
            scale: &options.scale,
            program: &options.program,
            progress,
            url,
            schemas: AtomicU32::new(0),
            _postgres: postgres,
        })
    }

    /// Says what is done next.
    pub(super) fn say(&self, what: &str) {
        (self.progress)(what);
    }

    /// Fresh tables, in a schema that nobody else has. [`Tables::remove`] must follow.
    pub(super) async fn tables(&self) -> Result<Tables, BenchError> {
        let nth = self.schemas.fetch_add(1, Ordering::Relaxed);
        let mut settings = Settings::default();
        settings.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        settings.database.url = Some(self.url.clone());
        settings.database.schema = format!("{BENCHMARK_SCHEMA}{:08x}_{nth}", rand::random::<u32>());
        let outbox = Outbox::connect(&settings.database, &self.url).await?;
        outbox.migrate().await?;
        outbox.ensure_days(settings.retention.days_ahead).await?;
        Ok(Tables { settings, outbox })
    }
}

/// Tables of one scenario.
pub(super) struct Tables {
    /// Settings with these tables, no provider yet.
    pub(super) settings: Settings,
    /// For floors and for looking.
    pub(super) outbox: Outbox,
}

impl Tables {
    /// The settings with these providers, in this order, in the one chain.
    pub(super) fn with_providers(&self, sinks: &[&Sink]) -> Settings {
        let mut settings = self.settings.clone();
        for sink in sinks {
            settings.providers.insert(sink.name().to_owned(), sink.provider());
        }
        let names = sinks.iter().map(|sink| sink.name().to_owned()).collect();
        settings.chains.insert(DEFAULT_CHAIN.to_owned(), names);
        settings
    }

    /// Postrider with one provider.
    pub(super) async fn start(&self, sink: &Sink) -> Result<App, BenchError> {
        Ok(App::start(&self.with_providers(&[sink])).await?)
    }

    /// Waits until so many mails have arrived in the inbox, and gives how many have.
    pub(super) async fn arrival(&self, inbox: &Inbox, mails: u64) -> Result<u64, BenchError> {
        let arrived = inbox.wait_until(|inbox| inbox.count() >= mails, PATIENCE).await;
        arrived.map_err(|_| stalled(format!("the arrival of {mails} mails, of which {} came,", inbox.count())))?;
        Ok(inbox.count())
    }

    /// Waits until so many mails have arrived in the inbox and nothing is pending.
    pub(super) async fn all_sent(&self, inbox: &Inbox, mails: u64) -> Result<(), BenchError> {
        self.arrival(inbox, mails).await?;
        let deadline = Instant::now() + PATIENCE;
        while self.outbox.count_pending().await? > 0 {
            if Instant::now() >= deadline {
                return Err(stalled("the last settle".to_owned()));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Sees that each of so many messages arrived once and is settled: a figure of lost mail is worth nothing.
    pub(super) async fn check(&self, inbox: &Inbox, sent: u64) -> Result<(), BenchError> {
        let counts = inbox.counts();
        let settled = self.outbox.count_sent().await?;
        if (counts.mails, counts.repeats, settled) == (sent, 0, sent) {
            return Ok(());
        }
        Err(BenchError::Miscounted { sent, arrived: counts.mails, repeats: counts.repeats, settled })
    }

    /// Drops them.
    pub(super) async fn remove(self) -> Result<(), BenchError> {
        self.outbox.drop_benchmark().await?;
        self.outbox.close().await;
        Ok(())
    }
}

fn stalled(what: String) -> BenchError {
    BenchError::Stalled { what, longest: PATIENCE }
}

/// A kind of provider that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Smtp,
    Http,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Smtp, Kind::Http];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Smtp => "smtp",
            Kind::Http => "http",
        }
    }
}

/// A provider of the sandbox.
pub(super) enum Sink {
    Smtp(String, SmtpSink),
    Http(String, HttpSink),
}

impl Sink {
    /// Starts one of that kind, which puts what it receives into the inbox.
    pub(super) async fn start(kind: Kind, name: &str, inbox: &Inbox) -> Result<Self, BenchError> {
        let (name, inbox) = (name.to_owned(), inbox.clone());
        Ok(match kind {
            Kind::Smtp => {
                let options = SmtpOptions { name: name.clone(), inbox, ..SmtpOptions::default() };
                Self::Smtp(name, SmtpSink::start(options).await?)
            }
            Kind::Http => {
                let options = HttpOptions { name: name.clone(), inbox, ..HttpOptions::default() };
                Self::Http(name, HttpSink::start(options).await?)
            }
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Smtp(name, _) | Self::Http(name, _) => name,
        }
    }

    /// The settings by which Postrider uses it; all but the address are the defaults.
    pub(super) fn provider(&self) -> config::Provider {
        config::Provider::new(match self {
            Self::Smtp(_, sink) => {
                let mut smtp = SmtpProvider::new(sink.address().ip().to_string());
                smtp.port = Some(sink.address().port());
                smtp.tls = SmtpTls::None;
                ProviderKind::Smtp(smtp)
            }
            Self::Http(_, sink) => ProviderKind::Http(HttpProvider::new(sink.url())),
        })
    }

    /// From now on it reads and says nothing: by SMTP at MAIL, so that nothing can have been sent; by HTTP after the
    /// whole request, so that nobody can know.
    pub(super) fn fall_silent(&self) -> Result<(), SandboxError> {
        match self {
            Self::Smtp(_, sink) => sink.set_fault(smtp::Fault::Silent { stage: Stage::Mail }),
            Self::Http(_, sink) => sink.set_fault(http::Fault::Silent),
        }
    }
}
