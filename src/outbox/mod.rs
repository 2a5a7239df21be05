//! Every SQL statement: messages are accepted, claimed, settled, asked about and removed here and nowhere else.
//!
//! Owns the tables and their invariants. Decides nothing about a message's fate: what a settle writes was decided by
//! [`crate::delivery::next`], except for what a claim finds out of order (a lease that ran out, a time that passed).

mod accept;
mod accept_one;
mod adopt;
mod attempts;
mod cancel;
mod claim;
mod claimed;
mod connect;
mod content;
mod database;
mod days;
mod detach;
mod error;
mod floor;
mod hand_over;
mod intake;
mod interval;
mod lanes;
mod lease;
mod list;
mod locks;
mod look;
mod notify;
mod openings;
mod overview;
mod presence;
mod provider_state;
mod query;
mod recover;
mod remove;
mod retention;
mod retire;
mod retry;
mod settle;
mod skips;
mod tally;
mod types;
mod wake;

use std::sync::Arc;

use crate::message::Clock;
use database::Database;
use lanes::Lanes;

pub use claimed::{ClaimRequest, Claimed, Claims, LaneClaim, LaneFound, Rest};
pub use days::DaysMade;
pub use floor::{BENCHMARK_SCHEMA, DayOver, Floor, Reader, STATEMENT_TARGET, SURVIVES_ONE_IN, Written};
pub use intake::{Intake, IntakeError, Receipt};
pub use lanes::{Lane, LaneId};
pub use list::{Cursor, Filter, Page, Summary};
pub use look::LaneSeen;
pub use notify::Listener;
pub use openings::{Opening, Openings};
pub use presence::{Company, Presence};
pub use query::{StatusVersion, Told};
pub use retention::{Removed, Retirement};
pub use retry::Retry;
pub use types::{
    Accepted, Event, EventKind, Holding, IdempotencyKey, Lease, MessageStatus, NewMessage, OutboxError, Settled,
    Settlement,
};
pub use wake::{Heard, News, Wake};

/// The outbox in Postgres. Cheap to clone: all clones share one pool of connections.
///
/// Every call says how many statements or transactions it makes. Each commits before the call returns: none is held
/// between calls.
#[derive(Clone)]
pub struct Outbox {
    database: Database,
    /// For what is done all the time.
    hot: Database,
    clock: Clock,
    lanes: Arc<Lanes>,
    schema: Arc<str>,
}
