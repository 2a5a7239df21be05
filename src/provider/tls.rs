//! Whom an adapter believes to be its provider, and by which certificate the provider knows us.
//!
//! Owns the certificates and the TLS settings of every kind of provider; opens no connection.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, client::WantsClientCert, crypto::ring};

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
    /// The file of our own certificate, or that of its key, is of no use.
    #[error("{setting}: {path}: {reason}", path = path.display())]
    OwnFile {
        /// Which of the two.
        setting: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: CertificateError,
    },
    /// Our own certificate and its key are not a pair, or of a kind that is not known.
    #[error("certificate_file and key_file: {0}")]
    Identity(rustls::Error),
    /// The TLS library does not work.
    #[error("TLS cannot be set up: {0}")]
    Library(rustls::Error),
}

/// TLS that trusts the public certificate authorities and those of a file.
pub(super) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    Ok(trusting(ca_file)?.with_no_client_auth())
}

/// The same, and the provider is shown a certificate of our own (mutual TLS).
pub(super) fn client_config_with_identity(
    ca_file: Option<&Path>,
    certificate_file: &Path,
    key_file: &Path,
) -> Result<ClientConfig, TlsError> {
    let chain = config::read_certificates(certificate_file).map_err(|reason| TlsError::OwnFile {
        setting: "certificate_file",
        path: certificate_file.to_owned(),
        reason,
    })?;
    let key = config::read_private_key(key_file).map_err(|reason| TlsError::OwnFile {
        setting: "key_file",
        path: key_file.to_owned(),
        reason,
    })?;
    trusting(ca_file)?.with_client_auth_cert(chain, key).map_err(TlsError::Identity)
}

fn trusting(ca_file: Option<&Path>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
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
        .with_root_certificates(roots))
}
