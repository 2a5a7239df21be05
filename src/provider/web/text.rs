//! How parts of an email are written for APIs, and how what they say is read.
//!
//! Owns no field of any API: only the forms that several of them share.

use serde_json::{Map, Value};

use crate::message::{Email, Mailbox, Message, mime};

/// Under which name our id of a message is given to providers, to come back with what they report. Short: Postmark takes
/// 20 characters.
pub(in crate::provider) const OUR_ID: &str = "postrider_id";
/// The longest id of a provider's that is kept, in characters.
const LONGEST_ID: usize = 255;
/// The longest label, in characters: what Resend and Amazon SES allow.
const LONGEST_LABEL: usize = 256;

/// A mailbox as a header has it (RFC 5322, section 3.4), but with letters of any script: `"Petrova, Anna" <a@b.example>`.
/// The name is always quoted, so that nothing in it can end it.
pub(in crate::provider) fn mailbox(mailbox: &Mailbox) -> String {
    let address = mailbox.address.as_str();
    match mailbox.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\"")),
        None => address.to_owned(),
    }
}

/// Mailboxes with commas between them.
pub(in crate::provider) fn mailboxes(list: &[Mailbox]) -> String {
    list.iter().map(mailbox).collect::<Vec<_>>().join(", ")
}

/// The caller's headers as an object, their values in ASCII (RFC 2047): what is not would go out in raw bytes from some
/// providers. A name that occurs twice is kept once; capabilities say that such a message is not offered.
pub(in crate::provider) fn single_headers(email: &Email) -> Map<String, Value> {
    email.headers.iter().map(|header| (header.name.clone(), mime::in_ascii(&header.value).into())).collect()
}

/// Whether a control character stands where a provider will write a header of it: a line end there would be the end of
/// the header, wherever nobody encodes it. The policy lets none through; more than one message depends on that.
pub(in crate::provider) fn has_control_in_a_line(email: &Email) -> bool {
    let mailboxes = email.recipients().map(|(_, mailbox)| mailbox).chain(&email.reply_to).chain([&email.from]);
    let names = mailboxes.filter_map(|mailbox| mailbox.name.as_deref());
    let headers = email.headers.iter().flat_map(|header| [header.name.as_str(), header.value.as_str()]);
    let files = email.attachments.iter().flat_map(|file| [file.filename.as_str(), file.content_type.as_str()]);
    let ids = email.attachments.iter().filter_map(|file| file.content_id.as_deref());
    let lines = names.chain(headers).chain(files).chain(ids).chain([email.subject.as_str()]);
    lines.chain(email.tags.iter().map(String::as_str)).any(|line| line.chars().any(char::is_control))
}

/// A text in the alphabet of labels: ASCII letters, digits, `_` and `-`. What is not of it becomes `_`.
pub(in crate::provider) fn label(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().take(LONGEST_LABEL).map(plain).collect()
}

/// Labels with a name and a value each: our id of the message, and the tags.
pub(in crate::provider) fn labels(message: &Message) -> Vec<(String, String)> {
    let tags = message.email.tags.iter().zip(1..).map(|(tag, place)| match place {
        1 => ("tag".to_owned(), label(tag)),
        _ => (format!("tag_{place}"), label(tag)),
    });
    std::iter::once((OUR_ID.to_owned(), message.id.to_string())).chain(tags).collect()
}

/// An object of those fields that have something in them: some APIs refuse empty lists.
pub(in crate::provider) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    fields.into_iter().filter(|(_, value)| !is_empty(value)).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// An id of the provider's: text or a number, without control characters, bounded.
pub(in crate::provider) fn id_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let text: String = text.chars().filter(|c| !c.is_control()).take(LONGEST_ID).collect();
    (!text.is_empty()).then_some(text)
}

/// A code is written to logs and metrics: one that could hold an address or a sentence is left out.
pub(in crate::provider) fn plain_code(value: &Value) -> Option<String> {
    let code = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ._-".contains(&byte);
    (!code.is_empty() && code.len() <= 40 && code.bytes().all(plain)).then_some(code)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::message::EmailAddress;

    #[test]
    fn nothing_in_a_name_ends_it() {
        for (name, expected) in [
            (Some("Petrova, Anna; <x@y.example>"), "\"Petrova, Anna; <x@y.example>\" <a@b.example>"),
            (Some("Ёж \"колючий\" \\"), "\"Ёж \\\"колючий\\\" \\\\\" <a@b.example>"),
            (Some(""), "a@b.example"),
            (None, "a@b.example"),
        ] {
            let address = EmailAddress::parse("a@b.example").unwrap();
            assert_eq!(mailbox(&Mailbox { name: name.map(str::to_owned), address }), expected);
        }
    }

    #[test]
    fn a_label_keeps_to_its_alphabet() {
        assert_eq!(label("№ 7/a-b_c"), "__7_a-b_c");
        assert_eq!(label(&"x".repeat(1000)).len(), 256);
    }

    #[test]
    fn an_id_is_bounded_and_a_code_is_plain() {
        assert_eq!(id_of(&" a\r\nb ".into()).as_deref(), Some("ab"));
        assert_eq!(id_of(&"я".repeat(1000).into()).unwrap().chars().count(), 255);
        assert_eq!(plain_code(&300.into()).as_deref(), Some("300"));
        assert_eq!(plain_code(&"write to <anna@example.com>".into()), None);
    }
}
