//! Whom the adapter believes to be the gateway.
//!
//! Owns the trusted certificates and the TLS settings; opens no connection.

use std::{fs, path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::HttpProviderError;

/// TLS that trusts the public certificate authorities and those of a file.
pub(super) fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, HttpProviderError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpProviderError::Client(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), HttpProviderError> {
    let refused = |reason: String| HttpProviderError::CaFile { path: path.to_owned(), reason };
    let pem = fs::read(path).map_err(|error| refused(error.to_string()))?;
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.len() == before {
        return Err(refused("holds no certificate".to_owned()));
    }
    Ok(())
}
