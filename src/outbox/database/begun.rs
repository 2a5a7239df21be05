//! A transaction of several statements.
//!
//! Owns that its statements have no names where others use the connection next; it was begun by the database.

use futures_util::{future::BoxFuture, stream::BoxStream};
use sqlx::{
    Connection as _, Describe, Either, Execute, Executor, PgConnection, Postgres, SqlStr, Transaction,
    error::BoxDynError,
    postgres::{PgArguments, PgQueryResult, PgRow, PgStatement, PgTypeInfo},
};

use crate::config::Pooling;

/// A transaction under way.
#[derive(Debug)]
pub(in crate::outbox) struct Begun {
    transaction: Transaction<'static, Postgres>,
    pooling: Pooling,
}

impl Begun {
    /// One that has begun on a connection which is lent like that.
    pub(super) fn new(transaction: Transaction<'static, Postgres>, pooling: Pooling) -> Self {
        Self { transaction, pooling }
    }

    /// The connection, for what brings its own statements. What it prepares under a name has to be forgotten before
    /// the transaction ends: see [`Begun::forget_names`].
    pub(in crate::outbox) fn connection(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }

    /// Forgets the statements that were prepared on this connection under a name, where others may use it next.
    pub(in crate::outbox) async fn forget_names(&mut self) -> sqlx::Result<()> {
        if self.pooling == Pooling::Transaction {
            self.transaction.clear_cached_statements().await?;
        }
        Ok(())
    }

    /// Commits.
    pub(in crate::outbox) async fn commit(self) -> sqlx::Result<()> {
        self.transaction.commit().await
    }
}

/// A statement without a name.
struct Unnamed<E>(E);

impl<'q, E: Execute<'q, Postgres>> Execute<'q, Postgres> for Unnamed<E> {
    fn sql(self) -> SqlStr {
        self.0.sql()
    }

    fn statement(&self) -> Option<&PgStatement> {
        self.0.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        self.0.take_arguments()
    }

    fn persistent(&self) -> bool {
        false
    }
}

impl<'c> Executor<'c> for &'c mut Begun {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        match self.pooling {
            Pooling::Session => self.transaction.fetch_many(query),
            Pooling::Transaction => self.transaction.fetch_many(Unnamed(query)),
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        match self.pooling {
            Pooling::Session => self.transaction.fetch_optional(query),
            Pooling::Transaction => self.transaction.fetch_optional(Unnamed(query)),
        }
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        self.transaction.prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'c: 'e,
    {
        self.transaction.describe(sql)
    }
}
