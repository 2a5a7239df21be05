//! Whom an adapter believes to be its provider.
//!
//! Owns the trusted certificates and the TLS settings of every kind of provider; opens no connection.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::config::{self, CertificateError};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of trusted certificates is of no use.
    #[error("ca_file: {path}: {reason}", path = path.display())]
    CaFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: CertificateError,
    },
    /// A certificate of that file cannot be trusted.
    #[error("ca_file: {path}: {reason}", path = path.display())]
    Certificate {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: rustls::Error,
    },
    /// The TLS library does not work.
    #[error("TLS cannot be set up: {0}")]
    Library(rustls::Error),
}

/// TLS that trusts the public certificate authorities and those of a file.
pub(super) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        let read = config::read_certificates(path);
        for certificate in read.map_err(|reason| TlsError::CaFile { path: path.to_owned(), reason })? {
            roots.add(certificate).map_err(|reason| TlsError::Certificate { path: path.to_owned(), reason })?;
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
