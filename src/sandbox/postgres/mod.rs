//! A private Postgres cluster that stops with the program.
//!
//! Owns the cluster's folder and its server process; holds no SQL and knows nothing of what is stored.

mod binaries;
mod folder;
mod keeper;
mod server;

use std::{fmt, path::PathBuf, sync::Arc};

use super::SandboxError;
use server::Server;

/// How the cluster is to be.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The folder that holds it, kept between runs; made if it is missing. Without one the cluster is in the system's
    /// temporary folder and gone when it is stopped.
    pub dir: Option<PathBuf>,
    /// Whether commits reach the disk. Without it a crash of the machine (not of Postgres) can spoil the data.
    pub fsync: bool,
    /// Further settings of `postgresql.conf`; they outrank the sandbox's own.
    pub settings: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { dir: None, fsync: true, settings: Vec::new() }
    }
}

/// How the server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Connections are closed, a checkpoint is written.
    Fast,
    /// At once, as in a crash: the next start recovers.
    Immediate,
}

/// A running cluster. It listens on 127.0.0.1 and on a socket in its own data folder; its one user `postgres` has a
/// password of its own. Dropping it stops the server, and so does the end of this program, however it ends (where there
/// is `setpriv`, which Linux distributions have; elsewhere a server that was left behind is ended by the next start in
/// the same folder).
///
/// Dropping waits for the server's end (some milliseconds for a temporary cluster, a checkpoint for a kept one).
pub struct Postgres {
    server: Arc<Server>,
}

impl Postgres {
    /// Makes the cluster where there is none yet and starts it; it takes connections when this returns.
    pub async fn start(options: PostgresOptions) -> Result<Self, SandboxError> {
        // If the caller does not wait for the end, the server that comes up is dropped there and so stopped.
        let server = blocking(move || Server::start(&options)).await?;
        Ok(Self { server: Arc::new(server) })
    }

    /// The URL of a database, password included.
    pub fn url(&self, database: &str) -> String {
        self.server.url(database)
    }

    /// The port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The server's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Creates the database if there is none of that name.
    pub async fn create_database(&self, name: &str) -> Result<(), SandboxError> {
        let (server, name) = (self.server.clone(), name.to_owned());
        blocking(move || server.create_database(&name)).await
    }

    /// Stops the server. Nothing happens if it does not run.
    pub async fn stop(&self, mode: Mode) -> Result<(), SandboxError> {
        let server = self.server.clone();
        blocking(move || server.stop(mode)).await
    }

    /// Starts the server anew on the same port, after stopping it in that way if it runs.
    pub async fn restart(&self, mode: Mode) -> Result<(), SandboxError> {
        let server = self.server.clone();
        blocking(move || server.stop(mode).and_then(|()| server.launch())).await
    }
}

/// Without the password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("port", &self.port()).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SandboxError> + Send + 'static,
) -> Result<T, SandboxError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
