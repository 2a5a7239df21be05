//! Why a part of the sandbox could not be started.
//!
//! Owns the words for it; a fault that was switched on is not an error.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why a part of the sandbox could not be started, by what whoever started it has to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Postgres is to be installed.
    #[error("PostgreSQL 15 or newer is needed and {found}; on Debian and Ubuntu: apt-get install postgresql")]
    PostgresMissing {
        /// What there is instead.
        found: String,
    },
    /// The folder's data was made by another version of Postgres.
    #[error(
        "the data in {} was made by PostgreSQL {made_by}, which is not installed; install it or remove the folder",
        .folder.display()
    )]
    OtherVersion {
        /// The folder.
        folder: PathBuf,
        /// The major version that made it.
        made_by: String,
    },
    /// Another folder is to be chosen: somebody else runs this one.
    #[error("the folder {} is in use by another sandbox", .folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// Another folder is to be chosen: Postgres does not run as root, and the account it runs as cannot enter this one.
    #[error(
        "Postgres does not run as root, and the account {account} that it runs as here cannot enter {}; choose a \
         folder that it can enter",
        .folder.display()
    )]
    Unreachable {
        /// The folder.
        folder: PathBuf,
        /// The account that Postgres runs as.
        account: String,
    },
    /// The folder cannot be read or written.
    #[error("cannot use {}", .path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One of Postgres's programs could not be run or failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Which.
        program: &'static str,
        /// What it said.
        output: String,
    },
    /// Postgres did not come up.
    #[error("Postgres did not start: {reason}; the end of its log:\n{log}")]
    NotStarted {
        /// In what way.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// It did not go away.
    #[error("Postgres (process {pid}) did not stop")]
    NotStopped {
        /// Its process id.
        pid: u32,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("the certificate or its key cannot be used: {reason}")]
    Certificate {
        /// Why.
        reason: String,
    },
}
