//! Files of certificates and private keys (PEM) that settings name.
//!
//! Owns their reading, for the check of the settings and for the adapters alike; trusts nobody by itself.

use std::{fs, path::Path};

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// Why a file of certificates, or of a private key, is of no use.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is not PEM, or has no certificate in it.
    #[error("expected a file with certificates in PEM")]
    NoCertificate,
    /// It is not PEM, or has no private key in it.
    #[error("expected a file with a private key in PEM")]
    NoKey,
}

/// The certificates of a file, at least one.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let pem = fs::read(file)?;
    match CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(CertificateError::NoCertificate),
    }
}

/// The private key of a file: PKCS#8, PKCS#1 or SEC1, without a passphrase.
pub fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let pem = fs::read(file)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| CertificateError::NoKey)
}
