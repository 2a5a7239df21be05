//! What the tests of every part need.

pub mod postgres;
pub mod statements;
