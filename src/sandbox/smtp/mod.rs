//! An SMTP provider: a strict server (RFC 5321) that keeps what it receives and has faults to switch on.
//!
//! Owns the server from its listener on; delivers nothing. The inbox may be shared with others.

mod auth;
mod fault;
mod path;
mod service;
mod session;
mod tls;
mod transaction;
mod wire;

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use tokio::task::AbortHandle;

pub use self::fault::{Fault, Reply, Stage};
use self::service::Service;
use super::{FaultSwitch, Inbox, SandboxError, SwitchError, gate::Gate};

/// How the provider is to be.
#[derive(Clone)]
pub struct SmtpOptions {
    /// Its name, in the inbox and the console.
    pub name: String,
    /// Where it listens; without an address at a free port of 127.0.0.1.
    pub address: Option<SocketAddr>,
    /// Where it keeps what it receives.
    pub inbox: Inbox,
    /// Its certificate; without one it has no TLS.
    pub tls: Option<SmtpTls>,
    /// Who may send; without it anybody. With a certificate they are taken under TLS only.
    pub credentials: Option<SmtpCredentials>,
    /// The largest mail, in bytes.
    pub max_bytes: usize,
    /// The most recipients of one mail.
    pub max_recipients: usize,
}

impl Default for SmtpOptions {
    fn default() -> Self {
        Self {
            name: "smtp".to_owned(),
            address: None,
            inbox: Inbox::default(),
            tls: None,
            credentials: None,
            max_bytes: 64 * 1024 * 1024,
            max_recipients: 1_000,
        }
    }
}

/// A certificate with its key.
#[derive(Clone)]
pub struct SmtpTls {
    /// The chain, the server's own certificate first.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
    /// Whether TLS begins with the first byte (RFC 8314); otherwise the client asks for it with STARTTLS.
    pub implicit: bool,
}

/// A user name and its password.
#[derive(Clone)]
pub struct SmtpCredentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Without the password.
impl fmt::Debug for SmtpCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpCredentials").finish_non_exhaustive()
    }
}

/// A running SMTP provider. Dropping it closes its listener and its connections.
pub struct SmtpSink {
    shared: Arc<Shared>,
    serving: AbortHandle,
}

struct Shared {
    service: Arc<Service>,
    gate: Arc<Gate>,
    /// Held while a fault is switched on, so that fault and gate agree when two do it at once.
    switching: Mutex<()>,
}

impl SmtpSink {
    /// Starts it; it takes connections when this returns.
    pub async fn start(options: SmtpOptions) -> Result<Self, SandboxError> {
        let gate = Arc::new(Gate::open_at(options.address)?);
        let service = Arc::new(Service {
            name: options.name.into(),
            inbox: options.inbox,
            credentials: options.credentials,
            implicit_tls: options.tls.as_ref().is_some_and(|tls| tls.implicit),
            tls: options.tls.as_ref().map(tls::acceptor).transpose()?,
            max_bytes: options.max_bytes,
            max_recipients: options.max_recipients,
            fault: RwLock::default(),
            headers: service::header_parser(),
        });
        let serving = tokio::spawn(accept(gate.clone(), service.clone())).abort_handle();
        Ok(Self { shared: Arc::new(Shared { service, gate, switching: Mutex::default() }), serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.gate.address()
    }

    /// Where it listens, as a URL.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// What it received.
    pub fn inbox(&self) -> Inbox {
        self.shared.service.inbox.clone()
    }

    /// The fault that is on.
    pub fn fault(&self) -> Fault {
        Fault::clone(&self.shared.service.fault())
    }

    /// Switches to that fault; it holds from the next stage of every session on, for connections at once.
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

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.serving.abort();
        self.shared.gate.shut();
    }
}

async fn accept(gate: Arc<Gate>, service: Arc<Service>) {
    loop {
        let (stream, cut) = gate.accept().await;
        let session = session::serve(service.clone(), Box::new(stream));
        // How a connection ends, an error included, is the client's to see: nobody here waits for it.
        tokio::spawn(cut.run_until_cancelled_owned(session));
    }
}

impl Shared {
    fn url(&self) -> String {
        let scheme = if self.service.implicit_tls { "smtps" } else { "smtp" };
        format!("{scheme}://{}", self.gate.address())
    }

    fn set_fault(&self, fault: Fault) -> Result<(), SandboxError> {
        let _switching = self.switching.lock().unwrap_or_else(PoisonError::into_inner);
        let refuses = fault == Fault::Refuse;
        self.service.set_fault(fault);
        if refuses {
            self.gate.close();
            return Ok(());
        }
        self.gate.open()
    }
}

impl FaultSwitch for Shared {
    fn name(&self) -> &str {
        &self.service.name
    }

    fn url(&self) -> String {
        self.url()
    }

    fn offered(&self) -> &'static [&'static str] {
        fault::OFFERED
    }

    fn current(&self) -> String {
        self.service.fault().to_string()
    }

    fn switch_to(&self, fault: &str) -> Result<(), SwitchError> {
        Ok(self.set_fault(fault.parse()?)?)
    }
}
