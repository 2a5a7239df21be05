//! What a scenario runs on: a database, tables of its own, and what says how far it has come.
//!
//! Owns their start and their end; measures nothing.

use std::{
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use secrecy::SecretString;
use tokio::time::{Instant, interval_at, sleep, timeout};

use super::{BenchError, Options, Progress, Scale, sink::Sink};
use crate::{
    app::App,
    config::{DEFAULT_CHAIN, Settings},
    outbox::{BENCHMARK_SCHEMA, Outbox},
    sandbox::{
        Inbox,
        postgres::{Postgres, PostgresOptions},
    },
};

/// The longest that is waited for messages to be sent.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a long step says how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(3);

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

    /// Does it, and says every few seconds how far it has come.
    pub(super) fn telling<T>(
        &self,
        how_far: impl Fn() -> String,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // What is worth telling of is a large future.
        let mut work = Box::pin(work);
        async move {
            let mut ticks = interval_at(Instant::now() + TELL_EVERY, TELL_EVERY);
            loop {
                tokio::select! {
                    done = &mut work => return done,
                    _ = ticks.tick() => self.say(&how_far()),
                }
            }
        }
    }

    /// Whether it is time to say again how far a step has come that last did so then.
    pub(super) fn is_time_to_tell(&self, last: &mut Instant) -> bool {
        let is_time = last.elapsed() >= TELL_EVERY;
        if is_time {
            *last = Instant::now();
        }
        is_time
    }

    /// Does what lets mails arrive, and says every few seconds how many have.
    pub(super) fn telling_mails<T>(
        &self,
        what: &str,
        inbox: &Inbox,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        self.say(what);
        self.telling(move || format!("{what}: {} mails have arrived", inbox.count()), work)
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

    /// Waits until so many mails have arrived in the inbox, for as long as any arrive, and gives how many have.
    pub(super) async fn arrival(&self, inbox: &Inbox, mails: u64) -> Result<u64, BenchError> {
        loop {
            let before = inbox.count();
            if inbox.wait_until(|inbox| inbox.count() >= mails, PATIENCE).await.is_ok() {
                return Ok(inbox.count());
            }
            if inbox.count() == before {
                return Err(stalled(format!("the arrival of {mails} mails, of which {before} came,")));
            }
        }
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

    /// Waits for it, but not for ever.
    pub(super) async fn in_time<T>(&self, what: &str, work: impl Future<Output = T>) -> Result<T, BenchError> {
        timeout(PATIENCE, work).await.map_err(|_| stalled(what.to_owned()))
    }

    /// Sees that each of so many messages arrived once and is settled: a figure of lost mail is worth nothing.
    pub(super) async fn check(&self, inbox: &Inbox, sent: u64) -> Result<(), BenchError> {
        self.check_beside(0, inbox, sent).await
    }

    /// Sees to the same where so many more are settled that never came this way.
    pub(super) async fn check_beside(&self, others: u64, inbox: &Inbox, sent: u64) -> Result<(), BenchError> {
        let counts = inbox.counts();
        let settled = self.outbox.count_sent().await?.saturating_sub(others);
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
