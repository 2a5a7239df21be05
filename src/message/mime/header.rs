//! Header lines: what goes on a line and where the next one begins.
//!
//! Owns folding (RFC 5322, section 2.2.3); which headers there are is not decided here.

use super::{MimeError, word::encoded_words};
use crate::message::Mailbox;

/// The length that lines keep to where they can (RFC 2047, section 2).
const LINE: usize = 76;
/// The longest single word of a header of the caller's that is left as it is: with the name before it, it still fits
/// the 998 characters of a line. A machine may have to read it (the address in List-Unsubscribe), so it is not encoded
/// for beauty.
const MAX_RAW_WORD: usize = 900;
/// The longest quoted string: a longer display name is encoded, since many readers do not unfold quoted strings.
const MAX_QUOTED: usize = 60;

/// Writes headers, one after another.
pub(super) struct HeaderWriter<'a> {
    out: &'a mut Vec<u8>,
    column: usize,
    at_start: bool,
}

impl<'a> HeaderWriter<'a> {
    /// Appends headers to `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, column: 0, at_start: true }
    }

    /// A header of tokens, each of which stays whole.
    pub(super) fn tokens<T: AsRef<str>>(&mut self, name: &str, tokens: impl IntoIterator<Item = T>) {
        self.begin(name);
        for token in tokens {
            self.push(token.as_ref());
        }
        self.end();
    }

    /// A header of mailboxes; nothing at all if there are none.
    pub(super) fn mailboxes(&mut self, name: &str, mailboxes: &[Mailbox]) -> Result<(), MimeError> {
        if mailboxes.is_empty() {
            return Ok(());
        }
        self.begin(name);
        for (index, mailbox) in mailboxes.iter().enumerate() {
            let comma = if index + 1 < mailboxes.len() { "," } else { "" };
            let address = mailbox.address.as_str();
            match mailbox.name.as_deref().filter(|name| !name.is_empty()) {
                Some(display) => {
                    self.phrase(refuse_control(display, "a display name")?);
                    self.push(&format!("<{address}>{comma}"));
                }
                None => self.push(&format!("{address}{comma}")),
            }
        }
        self.end();
        Ok(())
    }

    /// A header that people read: lines are kept short.
    pub(super) fn prose(&mut self, name: &str, text: &str) -> Result<(), MimeError> {
        self.unstructured(name, refuse_control(text, "the subject")?, LINE - name.len() - 2)
    }

    /// A header of the caller's: words are left whole as long as a line can hold them.
    pub(super) fn custom(&mut self, name: &str, value: &str) -> Result<(), MimeError> {
        let is_name = |b: u8| b.is_ascii_graphic() && b != b':';
        if name.is_empty() || name.len() > LINE || !name.bytes().all(is_name) {
            return Err(MimeError::HeaderName);
        }
        self.unstructured(name, refuse_control(value, "the value of a header")?, MAX_RAW_WORD)
    }

    fn unstructured(&mut self, name: &str, text: &str, longest: usize) -> Result<(), MimeError> {
        self.begin(name);
        // Spaces at the ends and in a row do not survive folding and unfolding in every reader.
        let carried = |word: &str| !word.is_empty() && word.len() <= longest;
        if text.bytes().all(|b| (b' '..=b'~').contains(&b)) && !text.contains("=?") && text.split(' ').all(carried) {
            text.split(' ').for_each(|word| self.push(word));
        } else {
            self.words(text);
        }
        self.end();
        Ok(())
    }

    /// A display name (the `phrase` of RFC 5322, section 3.2.5).
    fn phrase(&mut self, name: &str) {
        let is_atext = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
        let printable = name.bytes().all(|b| (b' '..=b'~').contains(&b)) && !name.contains("=?");
        if printable && name.split(' ').all(|w| !w.is_empty() && w.len() < LINE && w.bytes().all(is_atext)) {
            name.split(' ').for_each(|word| self.push(word));
        } else if printable && name.len() <= MAX_QUOTED {
            self.push(&format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
        } else {
            self.words(name);
        }
    }

    fn words(&mut self, text: &str) {
        let mut room = LINE.saturating_sub(self.column + 1);
        // A name later in a list begins a line of its own sooner than it is cut.
        if !self.at_start && encoded_words(text, room).len() > 1 {
            self.fold();
            room = LINE - 1;
        }
        for word in encoded_words(text, room) {
            // A line with an encoded word is at most 76 characters long (RFC 2047, section 2), come what may.
            if self.column + 1 + word.len() > LINE {
                self.fold();
            }
            self.push(&word);
        }
    }

    fn begin(&mut self, name: &str) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b':');
        self.column = name.len() + 1;
        self.at_start = true;
    }

    /// Writes a space and the token, on a new line if this one has no room for it. The first token stays beside the
    /// header's name: some readers take a first line without a value for an empty header.
    fn push(&mut self, token: &str) {
        if !self.at_start && self.column + 1 + token.len() > LINE {
            self.fold();
        }
        self.out.push(b' ');
        self.out.extend_from_slice(token.as_bytes());
        self.column += 1 + token.len();
        self.at_start = false;
    }

    fn fold(&mut self) {
        self.out.extend_from_slice(b"\r\n");
        self.column = 0;
        self.at_start = false;
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The text, if it has nothing that a reader could take for the end of a header.
fn refuse_control<'t>(text: &'t str, what: &'static str) -> Result<&'t str, MimeError> {
    if text.chars().any(char::is_control) { Err(MimeError::Control(what)) } else { Ok(text) }
}
