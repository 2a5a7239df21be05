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
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_in_one_spelling() {
        let table = [
            ("a@example.com", "a@example.com"),
            ("first.last+tag@Example.COM", "first.last+tag@example.com"),
            ("!#$%&'*+-/=?^_`{|}~@example.com", "!#$%&'*+-/=?^_`{|}~@example.com"),
            ("Case.Kept@example.com", "Case.Kept@example.com"),
            ("user@localhost", "user@localhost"),
            ("user@LOCALHOST", "user@localhost"),
            ("user@münchen.example", "user@xn--mnchen-3ya.example"),
            ("user@MÜNCHEN.example", "user@xn--mnchen-3ya.example"),
            ("user@xn--mnchen-3ya.example", "user@xn--mnchen-3ya.example"),
            ("user@почта.рф", "user@xn--80a1acny.xn--p1ai"),
            ("user@例え。jp", "user@xn--r8jz45g.jp"),
            ("иван@example.com", "иван@example.com"),
            ("jose\u{301}@example.com", "jos\u{e9}@example.com"),
            ("\"john doe\"@example.com", "\"john doe\"@example.com"),
            ("\"john.doe\"@example.com", "john.doe@example.com"),
            ("\"j\\ohn\"@example.com", "john@example.com"),
            ("\"a@b\"@example.com", "\"a@b\"@example.com"),
            ("\"a\\\"b\\\\c\"@example.com", "\"a\\\"b\\\\c\"@example.com"),
            ("\"\"@example.com", "\"\"@example.com"),
            ("a@a-b.c-d.example", "a@a-b.c-d.example"),
            ("a@1and1.example", "a@1and1.example"),
        ];
        for (given, kept) in table {
            let parsed = EmailAddress::parse(given);
            assert_eq!(parsed.as_ref().map(EmailAddress::as_str), Ok(kept), "{given}");
            let again = EmailAddress::parse(kept).map(|a| a.as_str().to_owned());
            assert_eq!(again.as_deref(), Ok(kept), "{given} is not stable");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        use AddressError::*;
        let table = [
            ("", Empty),
            ("nobody", NoAt),
            ("example.com", NoAt),
            ("@example.com", LocalPart),
            (".a@example.com", LocalPart),
            ("a.@example.com", LocalPart),
            ("a..b@example.com", LocalPart),
            ("a b@example.com", LocalPart),
            (" a@example.com", LocalPart),
            ("a\r\nRCPT TO:<b@c.d>@example.com", LocalPart),
            ("a\0@example.com", LocalPart),
            ("a\t@example.com", LocalPart),
            ("a<b>@example.com", LocalPart),
            ("Ann <ann@example.com>", LocalPart),
            ("a,b@example.com", LocalPart),
            ("a(comment)@example.com", LocalPart),
            ("a@b@example.com", LocalPart),
            ("\"a\"b@example.com", LocalPart),
            ("\"a\"b\"@example.com", LocalPart),
            ("\"a\\\"@example.com", LocalPart),
            ("\"a\rb\"@example.com", LocalPart),
            ("\"@example.com", LocalPart),
            ("a\u{200b}b@example.com", LocalPart),
            ("a\u{202e}b@example.com", LocalPart),
            ("a\u{a0}b@example.com", LocalPart),
            ("a\u{85}b@example.com", LocalPart),
            ("a@", Domain),
            ("a@ example.com", Domain),
            ("a@example.com ", Domain),
            ("a@example.com\r\nDATA", Domain),
            ("a@example..com", Domain),
            ("a@.example.com", Domain),
            ("a@example.com.", Domain),
            ("a@-example.com", Domain),
            ("a@example-.com", Domain),
            ("a@ex_ample.com", Domain),
            ("a@exam\u{200b}ple.com", Domain),
            ("a@exa\u{202e}mple.com", Domain),
            ("a@exa\u{ad}mple.com", Domain),
            ("a@exam\u{200d}ple.com", Domain),
            ("a@example.com>", Domain),
            ("a@xn--zzzzzzzz-.example", Domain),
            ("a@example", SingleLabel),
            ("a@[1.2.3.4]", AddressLiteral),
            ("a@[999.1.1.1]", AddressLiteral),
            ("a@[IPv6:::1]", AddressLiteral),
            ("a@1.2.3.4", AddressLiteral),
        ];
        for (given, reason) in table {
            assert_eq!(EmailAddress::parse(given).map(|_| ()), Err(reason), "{given:?}");
        }
    }

    #[test]
    fn lengths_are_counted_in_bytes_of_what_is_sent() {
        let parse = |local: String, domain: String| EmailAddress::parse(&format!("{local}@{domain}")).map(|_| ());
        let domain = |n: usize| format!("{}.com", vec!["d".repeat(n); 3].join("."));
        assert_eq!(parse("l".repeat(64), "example.com".into()), Ok(()));
        assert_eq!(parse("l".repeat(65), "example.com".into()), Err(AddressError::LocalPartTooLong));
        assert_eq!(parse("я".repeat(33), "example.com".into()), Err(AddressError::LocalPartTooLong));
        assert_eq!(parse("l".repeat(1_000_000), "example.com".into()), Err(AddressError::LocalPartTooLong));
        assert_eq!(parse("l".into(), domain(63)), Ok(()));
        assert_eq!(parse("l".into(), domain(64)), Err(AddressError::Domain));
        assert_eq!(parse("l".repeat(58), domain(63)), Ok(()));
        assert_eq!(parse("l".repeat(59), domain(63)), Err(AddressError::TooLong));
        assert_eq!(parse("l".into(), "d.".repeat(1_000_000)), Err(AddressError::TooLong));
    }

    #[test]
    fn nothing_prints_an_address() {
        let address = EmailAddress::parse("ann@example.com").expect("is valid");
        let mailbox = Mailbox { name: Some("Ann".into()), address: address.clone() };
        assert_eq!(format!("{address:?} {mailbox:?}"), "EmailAddress(…) Mailbox(…)");
    }

    #[test]
    fn an_address_tells_its_parts() {
        let address = EmailAddress::parse("\"a@b\"@Example.com").expect("is valid");
        assert_eq!((address.local(), address.domain(), address.is_ascii()), ("\"a@b\"", "example.com", true));
        assert!(!EmailAddress::parse("иван@example.com").expect("is valid").is_ascii());
    }
}
