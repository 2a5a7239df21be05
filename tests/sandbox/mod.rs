//! The sandbox's parts, spoken to by clients that are not the sandbox's own.

mod postgres;
