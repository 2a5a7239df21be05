//! Email addresses and mailboxes, parsed and never printed by accident.

use std::fmt;

/// An email address, parsed: the local part as given, the domain as lower-case A-label.
///
/// `Debug` masks it. There is no `Display`: whoever needs the text asks for it by name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EmailAddress {
    text: String,
    at: usize,
}

/// Why a text is not an email address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// There is no "@".
    #[error("has no \"@\"")]
    NoAt,
    /// The part before the "@" is not a local part of RFC 5321, section 4.1.2.
    #[error("has an invalid local part")]
    LocalPart,
    /// The part before the "@" is longer than 64 octets (RFC 5321, section 4.5.3.1.1).
    #[error("has a local part of more than 64 bytes")]
    LocalPartTooLong,
    /// The part after the "@" is not a domain name.
    #[error("has an invalid domain")]
    Domain,
    /// The whole is longer than 254 octets (RFC 5321, section 4.5.3.1.3).
    #[error("is longer than 254 bytes")]
    TooLong,
}

impl EmailAddress {
    /// Parses an address. Non-ASCII domains become A-labels; a non-ASCII local part is kept (it needs SMTPUTF8).
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NoAt)?;
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| AddressError::Domain)?;
        let parsed = Self { text: format!("{local}@{domain}"), at: local.len() };
        Ok(parsed)
    }

    /// The part before the "@".
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// The part after the "@": lower-case, ASCII.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a provider without SMTPUTF8 (RFC 6531) can carry it.
    pub fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }
}

impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmailAddress(…)")
    }
}

/// An address and, where it is known, the name of who reads it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    /// The display name.
    pub name: Option<String>,
    /// The address.
    pub address: EmailAddress,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox(…)")
    }
}
