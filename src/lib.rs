//! Postrider sends transactional email for other services.
//!
//! A caller's `SendEmail` is answered once the message is committed to the outbox in Postgres. A dispatcher claims it,
//! offers it to the providers of its chain in their order, and writes each attempt's outcome back.
//!
//! Where this process's own dispatcher has a place and nothing waits in the lane, the message is stored already claimed,
//! and goes to the provider from memory.
//!
//! # What always holds
//!
//! - What was answered is committed.
//! - What a machine must act on has a `due_at`, and nothing else decides when it is taken.
//! - No transaction or connection of the pool is held while a provider is spoken to.
//! - A write-back counts under its lease alone; a late one is added to the history.
//! - No address, content or secret is logged.
//!
//! # The map
//!
//! In reading order. A module uses only what its line allows, besides the plain structs of [`config`] and the
//! instruments of [`telemetry`], which every module may use; a test holds this table against the code.
//!
//! | module | owns | may use |
//! | --- | --- | --- |
//! | [`config`] | the settings: structs with their defaults, how they are read and checked | |
//! | [`message`] | what is sent: message, id, address, attachment; parsing; the MIME form | |
//! | [`delivery`] | status, outcome, retry policy, the transition function; pure | message |
//! | [`telemetry`] | logs, traces and their context, metrics | message, delivery |
//! | [`policy`] | what may be sent, and by which chain | message |
//! | [`health`] | every provider's state, what processes tell each other of it, their shares of its account | delivery |
//! | [`outbox`] | every SQL statement: accept, claim, settle, query, retention | message, delivery, health |
//! | [`provider`] | the trait `Provider`, capabilities, the registry, one file an adapter | message, delivery |
//! | [`chain`] | admission, breaker, rotation, shared places, the layers round one provider, failover | provider, delivery, message, health |
//! | [`dispatcher`] | claim, chain, next, settle; leases; drain | outbox, chain, delivery, message, health |
//! | [`api`] | the gRPC services, protobuf from and to the domain, status codes | outbox, policy, delivery, message, health |
//! | [`sandbox`] | a private Postgres, an HTTP and an SMTP provider with faults to switch on | |
//! | [`app`] | puts it together; the order of start and stop | message, delivery, policy, outbox, provider, health, chain, dispatcher, api, sandbox |
//! | [`bench`] | load, floors, the table of results | app, sandbox, message, delivery, outbox, provider, health |
//! | [`cli`] | commands, output for people and scripts | app, sandbox, bench |
//!
//! [`bench`]: mod@bench

// A dependency that nothing uses is a build time that nobody needs. The tests have some of their own.
#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod api;
pub mod app;
pub mod bench;
pub mod chain;
pub mod cli;
pub mod config;
pub mod delivery;
pub mod dispatcher;
pub mod health;
pub mod message;
pub mod outbox;
pub mod policy;
pub mod provider;
pub mod sandbox;
pub mod telemetry;

/// The protobuf contract as compiled by the build script.
pub mod proto {
    /// The public API.
    #[allow(missing_docs, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("postrider.v1");
    }

    /// How the outbox keeps content.
    #[allow(missing_docs, clippy::all)]
    pub(crate) mod stored {
        tonic::include_proto!("postrider.stored.v1");
    }

    /// The descriptors of every file of the contract, for server reflection.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/postrider.bin"));
}
