//! Email addresses and mailboxes, parsed and never printed by accident.
//!
//! Owns the syntax of an address; whether mail may go to it is not decided here.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

/// The longest local part, in octets (RFC 5321, section 4.5.3.1.1).
const MAX_LOCAL: usize = 64;
/// The longest address, in octets (RFC 5321, section 4.5.3.1.3, less the angle brackets of a path).
const MAX_ADDRESS: usize = 254;

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
    #[error("has an invalid local part (what is before the \"@\")")]
    LocalPart,
    /// The part before the "@" is longer than 64 octets (RFC 5321, section 4.5.3.1.1).
    #[error("has a local part of more than 64 bytes")]
    LocalPartTooLong,
    /// The part after the "@" is an IP address in brackets, which RFC 5321 allows and Postrider does not: no provider
    /// delivers there.
    #[error("has an IP address for a domain, which is not accepted")]
    AddressLiteral,
    /// The part after the "@" is not a domain name.
    #[error("has an invalid domain (what is after the \"@\")")]
    Domain,
    /// The part after the "@" is a single label other than `localhost`.
    #[error("has a domain without a dot")]
    SingleLabel,
    /// The whole is longer than 254 octets (RFC 5321, section 4.5.3.1.3).
    #[error("is longer than 254 bytes")]
    TooLong,
}

impl EmailAddress {
    /// Parses `local@domain` (RFC 5321, section 4.1.2, with the letters of RFC 6531).
    ///
    /// The domain becomes its lower-case A-label; what IDNA does not allow is refused, and so are underscores, IP
    /// addresses and single labels other than `localhost`. The local part is a dot-atom or a quoted string; it is
    /// kept as given, but in Unicode's composed form (NFC), and without quotes that it does not need, so that one
    /// mailbox has one spelling. A non-ASCII local part needs SMTPUTF8.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        // No domain holds an "@", but a quoted local part may.
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NoAt)?;
        // Before anything is done in proportion to its length.
        if local.len() > 4 * MAX_LOCAL {
            return Err(AddressError::LocalPartTooLong);
        }
        if domain.len() > 4 * MAX_ADDRESS {
            return Err(AddressError::TooLong);
        }
        let local = parse_local(local)?;
        let domain = parse_domain(domain)?;
        if local.len() + 1 + domain.len() > MAX_ADDRESS {
            return Err(AddressError::TooLong);
        }
        Ok(Self { at: local.len(), text: format!("{local}@{domain}") })
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

fn parse_local(text: &str) -> Result<String, AddressError> {
    let local: String = text.nfc().collect();
    let quoted = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let local = match quoted {
        Some(inside) => requote(inside)?,
        None if is_dot_atom(&local) => local,
        None => return Err(AddressError::LocalPart),
    };
    if local.len() > MAX_LOCAL { Err(AddressError::LocalPartTooLong) } else { Ok(local) }
}

/// The local part that a quoted string's inside stands for: without quotes where it needs none, else with only the
/// backslashes it needs.
fn requote(inside: &str) -> Result<String, AddressError> {
    let mut meant = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => chars.next().filter(char::is_ascii).ok_or(AddressError::LocalPart)?,
            '"' => return Err(AddressError::LocalPart),
            c => c,
        };
        if c != ' ' && !c.is_ascii_graphic() && !is_letter_beyond_ascii(c) {
            return Err(AddressError::LocalPart);
        }
        meant.push(c);
    }
    if is_dot_atom(&meant) {
        return Ok(meant);
    }
    Ok(format!("\"{}\"", meant.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn is_dot_atom(text: &str) -> bool {
    let is_atext =
        |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || is_letter_beyond_ascii(c);
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// Whether a non-ASCII character may stand in a local part: not one that nobody sees (spaces, joiners, direction
/// marks, private use), which would make two addresses look alike.
fn is_letter_beyond_ascii(c: char) -> bool {
    let unseen = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}');
    !c.is_ascii() && !c.is_control() && !c.is_whitespace() && !unseen
}

fn parse_domain(text: &str) -> Result<String, AddressError> {
    if text.starts_with('[') {
        return Err(AddressError::AddressLiteral);
    }
    // IDNA drops what nobody sees; the caller who sent it made a mistake, or means to deceive. The two joiners are
    // left to IDNA, which allows them where a script needs them.
    let joiner = |c: char| matches!(c, '\u{200c}' | '\u{200d}');
    if !text.chars().all(|c| c.is_ascii() || joiner(c) || is_letter_beyond_ascii(c)) {
        return Err(AddressError::Domain);
    }
    let domain = idna::domain_to_ascii_strict(text).map_err(|_| AddressError::Domain)?;
    let Some((_, last)) = domain.rsplit_once('.') else {
        return if domain == "localhost" { Ok(domain) } else { Err(AddressError::SingleLabel) };
    };
    // No top-level domain is a number (RFC 3696, section 2): this is an IP address without its brackets.
    if last.bytes().all(|b| b.is_ascii_digit()) { Err(AddressError::AddressLiteral) } else { Ok(domain) }
}

#[cfg(test)]
mod tests;
