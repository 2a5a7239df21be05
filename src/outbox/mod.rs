//! Every SQL statement: messages are accepted, claimed, settled, asked about and removed here and nowhere else.
//!
//! Owns the tables and their invariants. Decides nothing about a message's fate: what a settle writes was decided by
//! [`crate::delivery::next`], except for what a claim finds out of order (a lease that ran out, a time that passed).

mod accept;
mod attempts;
mod claim;
mod connect;
mod content;
mod days;
mod error;
mod floor;
mod hand_over;
mod interval;
mod lanes;
mod lease;
mod query;
mod retention;
mod settle;
mod types;

use std::sync::Arc;

use sqlx::{PgPool, postgres::PgConnectOptions};

use crate::message::Clock;
use lanes::Lanes;

pub use floor::{BENCHMARK_SCHEMA, DayOver, Floor, Reader, STATEMENT_TARGET, SURVIVES_ONE_IN, Written};
pub use types::{
    Accepted, ClaimRequest, Claimed, Event, EventKind, Holding, IdempotencyKey, Lease, MessageStatus, NewMessage,
    OutboxError, Settled, Settlement,
};

/// The outbox in Postgres. Cheap to clone: all clones share one pool of connections.
///
/// Every call is one statement (two where it says so) that commits by itself: no transaction is held between calls.
#[derive(Clone)]
pub struct Outbox {
    pool: PgPool,
    clock: Clock,
    lanes: Arc<Lanes>,
    schema: Arc<str>,
    /// How to connect apart from the pool, for what changes the session or the tables.
    apart: PgConnectOptions,
}
