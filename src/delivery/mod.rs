//! What becomes of a message: its status, what attempts tell, and the pure function that decides what is next.
//!
//! Owns no clock, no database and no provider: everything here is a value or a function of values.

mod outcome;
mod policy;
mod round;
mod status;

pub use outcome::{Class, Health, Outcome, ProviderName, Scope, Verdict};
pub use policy::{Growth, Next, RetryPolicy, Standing, next};
pub use round::{Attempt, Round, Skip};
pub use status::Status;
