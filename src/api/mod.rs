//! The gRPC services: protobuf from and to the domain, who calls, status codes, deadlines.
//!
//! Owns no rule about what may be sent (that is [`crate::policy`]) and no row: a call is answered once the outbox has
//! committed it, and nothing here waits for a provider.

mod batch;
mod caller;
mod deadline;
mod email;
mod filter;
mod fingerprint;
mod from_proto;
mod messages;
mod operator;
mod page_token;
mod providers;
mod readiness;
mod selection;
mod send;
mod server;
mod span;
mod standing;
mod status;
mod to_proto;
mod waiting;
mod watch;
mod watchers;

pub use caller::{CLIENT_ID, DEFAULT_CLIENT};
pub use email::{Backend, EmailApi};
pub use operator::OperatorApi;
pub use readiness::{Readiness, Standing};
pub use server::{Api, ServeError};
pub use status::{DOMAIN, Reason};
