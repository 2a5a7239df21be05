//! The rules of the outbox, gone through exhaustively in a small model, and the model held against a real Postgres.
//!
//! [`record`], [`write_back`], [`dispatcher`] and [`world`] are the model: one message, those who may have it, and what
//! can happen. [`properties`] says what must be true. [`exhaustive`] goes through every state; [`interleavings`] lets
//! model and Postgres go the same random ways and compares them after each step, by way of [`outbox_driver`].

mod choices;
mod dispatcher;
mod essence;
mod exhaustive;
mod explore;
mod interleavings;
mod outbox_driver;
mod properties;
mod record;
mod seen;
mod values;
mod world;
mod write_back;
