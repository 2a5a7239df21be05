//! DKIM signatures (RFC 6376, and RFC 8463 for Ed25519) of what is sent.
//!
//! Owns the keys, whom each speaks for, and the header field. How text is made canonical is in [`canonical`]; what is
//! published in the DNS is the user's business.

mod canonical;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls::{
    SignatureAlgorithm, SignatureScheme,
    crypto::ring::sign::any_supported_type,
    sign::{Signer, SigningKey},
};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use self::canonical::{Field, body_hash, fields, write_relaxed};
use crate::{
    config::{self, CertificateError},
    message::EmailAddress,
};

/// The fields that are listed once more than they occur: a second one would be shown to a reader in place of the one
/// that was signed (RFC 6376, section 8.15).
const SEALED: [&str; 6] = ["from", "to", "cc", "reply-to", "subject", "date"];

/// How long a line of a list or of base64 is.
const LINE: usize = 72;

/// Why there can be no signatures.
#[derive(Debug, thiserror::Error)]
pub enum DkimError {
    /// The file of the key is of no use.
    #[error("dkim.{name}.key_file: {path}: {reason}", path = path.display())]
    KeyFile {
        /// Which key.
        name: String,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: CertificateError,
    },
    /// The key is of a kind that DKIM does not know, or too short.
    #[error("dkim.{name}.key_file: expected an RSA key of at least 2048 bits, or an Ed25519 key")]
    Unsuitable {
        /// Which key.
        name: String,
    },
    /// The library failed to sign.
    #[error("no signature: {0}")]
    Signature(rustls::Error),
}

/// The keys of one provider.
pub(super) struct Keys(Vec<Key>);

/// A key, and whom it speaks for.
struct Key {
    domain: String,
    selector: String,
    signed: BTreeSet<String>,
    algorithm: Algorithm,
    signer: Box<dyn Signer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    RsaSha256,
    Ed25519Sha256,
}

impl Keys {
    /// Reads the keys that the settings name.
    pub(super) fn read(settings: &BTreeMap<String, config::Dkim>) -> Result<Self, DkimError> {
        settings.iter().map(|(name, dkim)| Key::read(name, dkim)).collect::<Result<_, _>>().map(Self)
    }

    /// The header fields that sign a rendered message of that sender, to be put before it: one for each key whose domain
    /// is the sender's or above it, empty where there is none. The same whenever it is asked with the same time.
    pub(super) fn sign(&self, sender: &EmailAddress, at: OffsetDateTime, content: &[u8]) -> Result<String, DkimError> {
        let speaking: Vec<&Key> = self.0.iter().filter(|key| key.speaks_for(sender.domain())).collect();
        if speaking.is_empty() {
            return Ok(String::new());
        }
        let (header, body) = canonical::split(content);
        let (fields, body_hash) = (fields(header), BASE64_STANDARD.encode(body_hash(body)));
        speaking.into_iter().map(|key| key.sign(at, &fields, &body_hash)).collect()
    }
}

impl Key {
    fn read(name: &str, settings: &config::Dkim) -> Result<Self, DkimError> {
        let key = config::read_private_key(&settings.key_file).map_err(|reason| DkimError::KeyFile {
            name: name.to_owned(),
            path: settings.key_file.clone(),
            reason,
        })?;
        let unsuitable = || DkimError::Unsuitable { name: name.to_owned() };
        let (algorithm, signer) =
            any_supported_type(&key).ok().and_then(|key| suitable(&*key)).ok_or_else(unsuitable)?;
        Ok(Self {
            domain: settings.domain.trim_end_matches('.').to_ascii_lowercase(),
            selector: settings.selector.clone(),
            signed: settings.headers.iter().map(|name| name.to_ascii_lowercase()).collect(),
            algorithm,
            signer,
        })
    }

    /// Whether the domain is the key's or below it, so that the signature is aligned with the sender (RFC 7489, section
    /// 3.1.1).
    fn speaks_for(&self, domain: &str) -> bool {
        let domain = domain.to_ascii_lowercase();
        let above = domain.strip_suffix(self.domain.as_str());
        above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    fn sign(&self, at: OffsetDateTime, fields: &[Field<'_>], body_hash: &str) -> Result<String, DkimError> {
        let signed = self.choose(fields);
        let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let unsigned = format!(
            "DKIM-Signature: v=1; a={algorithm}; c=relaxed/relaxed; d={domain};\r\n s={selector}; t={time};\r\n \
             h={names};\r\n bh={body_hash};\r\n b=",
            algorithm = self.algorithm.as_str(),
            domain = self.domain,
            selector = self.selector,
            time = at.unix_timestamp(),
            names = fold_list(&names),
        );
        let mut hashed = Vec::new();
        for field in signed.iter().filter_map(|(_, field)| *field) {
            write_relaxed(field, &mut hashed);
            hashed.extend_from_slice(b"\r\n");
        }
        // The field itself, its signature empty, without a line end.
        fields_of(&unsigned).iter().for_each(|field| write_relaxed(field, &mut hashed));
        let signature = match self.algorithm {
            Algorithm::RsaSha256 => self.signer.sign(&hashed),
            // RFC 8463, section 3: what is signed is the hash.
            Algorithm::Ed25519Sha256 => self.signer.sign(&Sha256::digest(&hashed)),
        };
        let signature = BASE64_STANDARD.encode(signature.map_err(DkimError::Signature)?);
        Ok(format!("{unsigned}{}\r\n", fold_text(&signature)))
    }

    /// The fields to sign, by name, in the order in which they are hashed: of several of one name the last one first
    /// (RFC 6376, section 5.4.2). A sealed name ends with none.
    fn choose<'a>(&self, fields: &'a [Field<'a>]) -> Vec<(String, Option<&'a Field<'a>>)> {
        let mut chosen = Vec::new();
        for name in &self.signed {
            let mut occurring: Vec<_> = fields.iter().filter(|field| field.has_name(name)).map(Some).collect();
            occurring.reverse();
            if SEALED.contains(&name.as_str()) {
                occurring.push(None);
            }
            chosen.extend(occurring.into_iter().map(|field| (name.clone(), field)));
        }
        chosen
    }
}

impl Algorithm {
    fn as_str(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "rsa-sha256",
            Algorithm::Ed25519Sha256 => "ed25519-sha256",
        }
    }
}

/// The key as a signer, if DKIM knows its kind.
fn suitable(key: &dyn SigningKey) -> Option<(Algorithm, Box<dyn Signer>)> {
    let (algorithm, scheme) = match key.algorithm() {
        SignatureAlgorithm::RSA => (Algorithm::RsaSha256, SignatureScheme::RSA_PKCS1_SHA256),
        SignatureAlgorithm::ED25519 => (Algorithm::Ed25519Sha256, SignatureScheme::ED25519),
        _ => return None,
    };
    key.choose_scheme(&[scheme]).map(|signer| (algorithm, signer))
}

fn fields_of(unsigned: &str) -> Vec<Field<'_>> {
    fields(unsigned.as_bytes())
}

/// The names with colons between them, on lines that are not too long.
fn fold_list(names: &[&str]) -> String {
    let (mut folded, mut length) = (String::new(), 0);
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            folded.push(':');
            length += 1;
        }
        if length + name.len() > LINE {
            folded.push_str("\r\n  ");
            length = 0;
        }
        folded.push_str(name);
        length += name.len();
    }
    folded
}

/// Base64 on lines that are not too long.
fn fold_text(text: &str) -> String {
    let lines: Vec<&str> = text.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    lines.join("\r\n  ")
}
