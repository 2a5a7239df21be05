//! How a statement comes to Postgres: over connections that keep their settings, or through a pooler that lends one for
//! each transaction.
//!
//! Owns the connections and what is done when one is lost; knows no table. What a session begins with, and what a
//! transaction of several statements is, stands in the files beside.

mod begun;
mod session;

use std::{
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _, StreamExt as _, TryStreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use secrecy::{ExposeSecret, SecretString};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection as _, Describe, Either, Execute, Executor, PgConnection, PgPool,
    Postgres, SqlStr,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};
use tokio::time::timeout;
use tracing::Instrument as _;

use self::session::{BEGIN, session_begins, transaction_begins};
pub(super) use self::{
    begun::Begun,
    session::{Plans, quoted},
};
use super::{
    OutboxError,
    error::{is_collision, is_lost_connection},
};
use crate::config::{self, Pooling};

/// A connection that was used this recently is taken for alive; another is asked before it is used.
const FRESH: Duration = Duration::from_secs(1);

/// How long to wait before a statement that collided with another is made again, each time a little longer.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

/// How often a statement is made again at once whose connection was closed.
const RECONNECTIONS: u32 = 2;

/// The database as the outbox's statements see it: an executor that makes each a transaction of its own.
///
/// Behind a pooler that lends a connection for a transaction, statements have no names (another client's may be on
/// the same connection) and the settings come with each transaction. Either way nothing is left behind in a session.
#[derive(Clone)]
pub(super) struct Database {
    pool: PgPool,
    options: PgConnectOptions,
    pooling: Pooling,
    /// The settings as a session begins with them, where sessions last.
    at_connect: Arc<str>,
    /// The settings as a transaction begins with them, where sessions do not.
    at_begin: Arc<str>,
    doubt: Doubt,
}

/// Since when no idle connection is taken for alive: one was used, and had been closed.
#[derive(Clone, Default)]
struct Doubt(Arc<Mutex<Option<Instant>>>);

impl Doubt {
    fn arise(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection that was idle for that long may be closed without our knowing.
    fn concerns(&self, idle_for: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle_for >= FRESH || since.is_some_and(|since| since.elapsed() <= idle_for)
    }
}

impl Database {
    /// The database at `url`; nothing is connected yet.
    pub(super) fn new(
        settings: &config::Database,
        url: &SecretString,
        connections: u32,
        plans: Plans,
    ) -> Result<Self, OutboxError> {
        // The error of a URL that cannot be parsed is not passed on: it may hold the password.
        let options = PgConnectOptions::from_str(url.expose_secret())
            .map_err(|_| OutboxError::Refused("the database's URL cannot be parsed".into()))?
            .application_name("postrider")
            // A pooler does not know it, and no number here is a float.
            .extra_float_digits(None);
        let at_connect = match settings.pooling {
            Pooling::Session => session_begins(settings, plans),
            Pooling::Transaction => String::new(),
        };
        let at_begin = match settings.pooling {
            Pooling::Session => String::new(),
            Pooling::Transaction => transaction_begins(settings, plans),
        };
        let at_connect: Arc<str> = at_connect.into();
        let doubt = Doubt::default();
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(settings.acquire_timeout)
            .test_before_acquire(false)
            .before_acquire({
                let doubt = doubt.clone();
                move |connection, about| {
                    let is_asked = doubt.concerns(about.idle_for);
                    Box::pin(async move { Ok(!is_asked || connection.ping().await.is_ok()) })
                }
            })
            .after_connect({
                let at_connect = at_connect.clone();
                move |connection, _| {
                    let sql = at_connect.clone();
                    Box::pin(async move { execute(connection, &sql).await })
                }
            })
            .connect_lazy_with(options.clone());
        Ok(Self { pool, options, pooling: settings.pooling, at_connect, at_begin: at_begin.into(), doubt })
    }

    /// A connection beside the pool, for what cannot be part of a transaction. It has the settings of a session where
    /// there are sessions, else none: not even the schema is known to it.
    pub(super) async fn connection_apart(&self) -> Result<PgConnection, OutboxError> {
        let mut connection = self.options.connect().await?;
        execute(&mut connection, &self.at_connect).await?;
        Ok(connection)
    }

    /// Connections to the same schema that keep to what Postgres does by itself.
    pub(super) fn plain_pool(&self, settings: &config::Database, connections: u32) -> PgPool {
        let search_path = quoted(&settings.schema);
        PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(settings.acquire_timeout)
            .test_before_acquire(false)
            .connect_lazy_with(self.options.clone().options([("search_path", search_path)]))
    }

    /// A connection beside the pools that can listen. It is not made anew when it is lost.
    pub(super) async fn listener(&self) -> Result<PgListener, OutboxError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(self.options.clone().application_name("postrider listener"));
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        Ok(listener)
    }

    /// A transaction of several statements, on a connection of the pool; `with` holds more settings for it, each ended
    /// by a semicolon. Dropped without [`Begun::commit`] it leaves nothing behind.
    pub(super) async fn begin(&self, with: &str) -> sqlx::Result<Begun> {
        let sql = format!("{BEGIN} {} {with}", self.at_begin);
        let (pool, pooling) = (self.pool.clone(), self.pooling);
        let begin = async move { pool.begin_with(AssertSqlSafe(sql)).await };
        // Apart, so that it comes to its end also where the caller goes away meanwhile: a transaction that is dropped
        // is rolled back, but a connection on which one was about to begin would be given back with it open, and lend
        // its time to whoever comes next.
        let begun = tokio::spawn(begin.in_current_span());
        // Behind a pooler it is here that a connection to the database is waited for, and a database that is away has
        // to be noticed.
        let begun = timeout(self.pool.options().get_acquire_timeout(), begun).await;
        let transaction = begun.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::WorkerCrashed)??;
        Ok(Begun::new(transaction, pooling))
    }

    /// Runs a statement again while it collides with another (a serialization failure, a deadlock), a few times, and at
    /// once where its connection turns out to be closed. It has to be one that may be made again after its answer was
    /// lost.
    pub(super) async fn repeat<T, Run>(&self, mut run: impl FnMut() -> Run) -> Result<T, OutboxError>
    where
        Run: Future<Output = sqlx::Result<T>>,
    {
        let mut pauses = PAUSES.into_iter();
        let mut reconnections = 0..RECONNECTIONS;
        loop {
            match run().await {
                Err(error) if is_lost_connection(&error) => {
                    self.doubt();
                    if reconnections.next().is_none() {
                        return Err(error.into());
                    }
                }
                Err(error) if is_collision(&error) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await,
                    None => return Err(error.into()),
                },
                result => return result.map_err(OutboxError::from),
            }
        }
    }

    /// Takes no connection for alive that is idle by now: another turned out to be closed.
    pub(super) fn doubt(&self) {
        self.doubt.arise();
    }

    /// Gives the connections back. Statements made afterwards fail.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether a session lasts from one transaction to the next.
    pub(super) fn keeps_sessions(&self) -> bool {
        self.pooling == Pooling::Session
    }

    async fn in_transaction<'q, E>(&self, query: E) -> sqlx::Result<Vec<Either<PgQueryResult, PgRow>>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let mut begun = self.begin("").await?;
        let answer = begun.fetch_many(query).try_collect().await?;
        begun.commit().await?;
        Ok(answer)
    }
}

async fn execute(connection: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
    if sql.is_empty() {
        return Ok(());
    }
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("pooling", &self.pooling).finish_non_exhaustive()
    }
}

impl<'c> Executor<'c> for &'c Database {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        match self.pooling {
            Pooling::Session => self.pool.fetch_many(query),
            // What is passed on is committed.
            Pooling::Transaction => stream::once(self.in_transaction(query))
                .map_ok(|answer| stream::iter(answer).map(Ok))
                .try_flatten()
                .boxed(),
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        match self.pooling {
            Pooling::Session => self.pool.fetch_optional(query),
            Pooling::Transaction => async move {
                let answer = self.in_transaction(query).await?;
                Ok(answer.into_iter().find_map(Either::right))
            }
            .boxed(),
        }
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'c: 'e,
    {
        self.pool.describe(sql)
    }
}
