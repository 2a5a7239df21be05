//! How the outbox comes to Postgres: directly, through a pooler that lends a connection for a session, and through one
//! that lends it for a transaction.

mod cancel;
mod crowd;
mod hostile;
mod leftovers;
mod schemas;
mod service;

use std::{ops::Deref, time::Duration};

use postrider::{
    config::Pooling,
    delivery::ProviderName,
    outbox::{ClaimRequest, Claimed, LaneClaim, LaneSeen, Outbox},
};
use sqlx::PgConnection;

use crate::support::{
    pgbouncer::{Pgbouncer, SHARED},
    postgres::Database,
};

const BOTH: [Pooling; 2] = [Pooling::Session, Pooling::Transaction];

/// A database as it is seen through a pgbouncer.
struct Pooled {
    pgbouncer: Pgbouncer,
    seen: Database,
    /// The same without it.
    direct: Database,
}

impl Pooled {
    /// A fresh one; `None`, said aloud, where there is no pgbouncer.
    async fn new(pooling: Pooling) -> Option<Self> {
        Self::over(pooling, Database::new().await).await
    }

    async fn over(pooling: Pooling, direct: Database) -> Option<Self> {
        let pgbouncer = Pgbouncer::start(pooling, &direct.url).await?;
        let seen = pgbouncer.in_front_of(&direct).await;
        // From here on every session of ours is one of the pooler's.
        direct.outbox.close().await;
        Some(Self { pgbouncer, seen, direct })
    }

    async fn name(&self) -> String {
        self.scalar("select current_database()::text").await
    }

    /// Closes the connections that pgbouncer has to Postgres.
    async fn terminate_server_connections(&self) {
        self.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and backend_type = 'client backend' and client_addr is null
                and application_name = 'postrider'",
        )
        .await;
    }
}

impl Deref for Pooled {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.seen
    }
}

/// An application that uses the same pooler: one connection for each that the pooler has, all borrowed at once.
struct Neighbour {
    connections: Vec<PgConnection>,
}

impl Neighbour {
    async fn new(pooled: &Pooled) -> Self {
        use sqlx::{ConnectOptions, postgres::PgConnectOptions};
        let name = pooled.name().await;
        let url = secrecy::ExposeSecret::expose_secret(&pooled.pgbouncer.url(Some(&name))).to_owned();
        let options: PgConnectOptions = url.parse().unwrap();
        let options = options.application_name("neighbour").extra_float_digits(None);
        let mut connections = Vec::new();
        for _ in 0..SHARED {
            let mut connection = options.connect().await.unwrap();
            sqlx::raw_sql("begin").execute(&mut connection).await.unwrap();
            connections.push(connection);
        }
        Self { connections }
    }

    /// One value from each server connection. The statements have no names and no parameters.
    async fn ask(&mut self, sql: &'static str) -> Vec<String> {
        let mut answers = Vec::new();
        for connection in &mut self.connections {
            let row = sqlx::raw_sql(sql).fetch_one(connection).await.unwrap();
            answers.push(sqlx::Row::try_get_unchecked::<String, _>(&row, 0).unwrap());
        }
        answers
    }

    /// Does something on each server connection, and gives them back.
    async fn leave(mut self, sql: &'static str) {
        for connection in &mut self.connections {
            sqlx::raw_sql(sql).execute(&mut *connection).await.unwrap();
            sqlx::raw_sql("commit").execute(connection).await.unwrap();
        }
    }
}

/// Claims so many of a chain.
async fn claim_of(outbox: &Outbox, chain: &str, limit: usize) -> Vec<Claimed> {
    let seen = outbox.look().await.unwrap().into_iter().filter(|seen| seen.lane.chain == chain);
    let from_beginning = |seen: LaneSeen| LaneClaim {
        lane: seen.lane.id,
        chain: seen.lane.chain,
        provider: ProviderName::new("primary"),
        since: None,
        limit,
    };
    let request = ClaimRequest {
        lanes: seen.map(from_beginning).collect(),
        limit,
        lease: Duration::from_secs(300),
        max_rounds: 3,
        idempotent: Vec::new(),
        takes_over: true,
    };
    outbox.claim(&request).await.unwrap().messages
}
