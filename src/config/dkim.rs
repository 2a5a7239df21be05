//! The settings of a DKIM key.
//!
//! Owns what is signed for whom; the signing is the adapter's.

use std::path::PathBuf;

use super::section::{Rule, Section, Visitor};

/// A key that signs what goes over a provider (RFC 6376).
#[derive(Clone, Debug)]
pub struct Dkim {
    /// The domain that signs (`d=`): messages from it and the domains below it are signed. It must be given.
    pub domain: String,
    /// The selector (`s=`): the public key stands in the DNS at `<selector>._domainkey.<domain>`. It must be given.
    pub selector: String,
    /// A file that holds the private key (PEM): RSA of at least 2048 bits, or Ed25519. It must be given.
    pub key_file: PathBuf,
    /// The header fields that are signed where a message has them. `From` must be among them; what relays rewrite does
    /// not belong there.
    pub headers: Vec<String>,
}

impl Dkim {
    /// A key of that domain and selector, its file still to be named, everything else at its default.
    pub fn new(domain: impl Into<String>, selector: impl Into<String>) -> Self {
        let headers = [
            "From",
            "To",
            "Cc",
            "Reply-To",
            "Subject",
            "Date",
            "Message-ID",
            "MIME-Version",
            "In-Reply-To",
            "References",
            "List-Unsubscribe",
            "List-Unsubscribe-Post",
        ];
        Self {
            domain: domain.into(),
            selector: selector.into(),
            key_file: PathBuf::new(),
            headers: headers.map(str::to_owned).to_vec(),
        }
    }

    /// A key of which nothing is known yet.
    pub(super) fn blank() -> Self {
        Self::new("", "")
    }
}

impl Section for Dkim {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let key_file = Some(self.key_file).filter(|file| !file.as_os_str().is_empty());
        Self {
            domain: v.setting("domain", given(self.domain), Rule::Required).unwrap_or_default(),
            selector: v.setting("selector", given(self.selector), Rule::Required).unwrap_or_default(),
            key_file: v.setting("key_file", key_file, Rule::Required).unwrap_or_default(),
            headers: v.any("headers", self.headers),
        }
    }
}
