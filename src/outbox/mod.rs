//! Every SQL statement: messages are accepted, claimed, settled, asked about and removed here and nowhere else.
//!
//! Owns the tables and their invariants. Decides nothing about a message's fate: what a settle writes was decided by
//! [`crate::delivery::next`], except for what a claim finds out of order (a lease that ran out, a time that passed).

mod types;

pub use types::{
    Accepted, ClaimRequest, Claimed, Event, EventKind, Holding, IdempotencyKey, Lease, MessageStatus, NewMessage,
    OutboxError, Settled, Settlement,
};
