//! The provider's certificate.
//!
//! Owns its reading; makes none.

use std::sync::Arc;

use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

use super::SmtpTls;
use crate::sandbox::SandboxError;

/// What accepts TLS with that certificate.
pub(super) fn acceptor(tls: &SmtpTls) -> Result<TlsAcceptor, SandboxError> {
    let failed = |reason: String| SandboxError::Certificate { reason };
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(tls.certificate_pem.as_bytes()).collect();
    let chain = chain.map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(tls.key_pem.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| failed(error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
