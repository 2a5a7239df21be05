//! An HTTP provider: a mail gateway that keeps what it receives, recognises repeats by their `Idempotency-Key`, and has
//! faults to switch on.
//!
//! Owns the gateway from its listener on; the inbox may be shared with others.

mod fault;
mod gateway;
mod ledger;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, extract::DefaultBodyLimit};
use tokio::task::AbortHandle;

pub use self::fault::Fault;
use self::gateway::Gateway;
use super::{
    FaultSwitch, Inbox, SandboxError, SwitchError,
    connection::{Entrance, Line},
    gate::Gate,
};

/// The largest request that is read.
const LARGEST: usize = 128 * 1024 * 1024;

/// How the provider is to be.
#[derive(Clone)]
pub struct HttpOptions {
    /// Its name, in the inbox and the console.
    pub name: String,
    /// Where it listens; without an address at a free port of 127.0.0.1.
    pub address: Option<SocketAddr>,
    /// Where it keeps what it receives.
    pub inbox: Inbox,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { name: "http".to_owned(), address: None, inbox: Inbox::default() }
    }
}

/// A running HTTP provider. Dropping it closes its listener and its connections.
///
/// It takes a POST at any path, since the whole URL is a setting of whoever calls it.
pub struct HttpSink {
    shared: Arc<Shared>,
    serving: AbortHandle,
}

struct Shared {
    gateway: Arc<Gateway>,
    gate: Arc<Gate>,
    /// Held while a fault is switched on, so that fault and gate agree when two do it at once.
    switching: Mutex<()>,
}

impl HttpSink {
    /// Starts it; it takes connections when this returns.
    pub async fn start(options: HttpOptions) -> Result<Self, SandboxError> {
        let gate = Arc::new(Gate::open_at(options.address)?);
        let gateway = Arc::new(Gateway::new(&options.name, options.inbox));
        let router = Router::new()
            .fallback(gateway::answer)
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(gateway.clone())
            .into_make_service_with_connect_info::<Line>();
        let serving = axum::serve(Entrance(gate.clone()), router);
        let serving = tokio::spawn(async move { serving.await }).abort_handle();
        Ok(Self { shared: Arc::new(Shared { gateway, gate, switching: Mutex::default() }), serving })
    }

    /// Where mails are posted.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.gate.address()
    }

    /// What it received.
    pub fn inbox(&self) -> Inbox {
        self.shared.gateway.inbox.clone()
    }

    /// The fault that is on.
    pub fn fault(&self) -> Fault {
        self.shared.gateway.fault()
    }

    /// Switches to that fault; it holds from the next request on, for connections at once.
    pub fn set_fault(&self, fault: Fault) -> Result<(), SandboxError> {
        self.shared.set_fault(fault)
    }

    /// Cuts the connections that are open, as a server does with idle ones.
    pub fn cut_connections(&self) {
        self.shared.gate.cut();
    }

    /// How many connections it took.
    pub fn connections(&self) -> u64 {
        self.shared.gate.taken()
    }

    /// Its faults, for the console.
    pub fn switch(&self) -> Arc<dyn FaultSwitch> {
        self.shared.clone()
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        self.serving.abort();
        self.shared.gate.shut();
    }
}

impl Shared {
    fn url(&self) -> String {
        format!("http://{}/v1/emails", self.gate.address())
    }

    fn set_fault(&self, fault: Fault) -> Result<(), SandboxError> {
        let _switching = self.switching.lock().unwrap_or_else(PoisonError::into_inner);
        let refuses = fault == Fault::Refuse;
        // The fault first: a request that came through the gate before it closed must not be answered after.
        self.gateway.set_fault(fault);
        if refuses {
            self.gate.close();
            return Ok(());
        }
        self.gate.open()
    }
}

impl FaultSwitch for Shared {
    fn name(&self) -> &str {
        &self.gateway.name
    }

    fn url(&self) -> String {
        self.url()
    }

    fn offered(&self) -> &'static [&'static str] {
        fault::OFFERED
    }

    fn current(&self) -> String {
        self.gateway.fault().to_string()
    }

    fn switch_to(&self, fault: &str) -> Result<(), SwitchError> {
        Ok(self.set_fault(fault.parse()?)?)
    }
}
