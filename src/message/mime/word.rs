//! Encoded words (RFC 2047): text of any script as ASCII for a header.
//!
//! Owns the encoding and how long each word is; where the words go on lines is the header writer's.

use base64::{Engine, engine::general_purpose::STANDARD};

/// The longest encoded word (RFC 2047, section 2).
const MAX_WORD: usize = 75;
/// What stands round the payload: `=?utf-8?B?` and `?=`.
const FRAME: usize = 12;
/// A first word shorter than this is not worth its frame: it begins on a line of its own.
const MIN_FIRST: usize = 30;

/// The text as encoded words, to be set apart by white space, which readers drop between them. The first word is at
/// most `room` long if that is room enough for one. No character is split between two words, and where one ends at a
/// space it does: some readers (Python's, in display names) show the white space between words.
pub(super) fn encoded_words(text: &str, room: usize) -> Vec<String> {
    let quoted = text.chars().map(quoted_len).sum::<usize>() <= text.len().div_ceil(3) * 4;
    let mut words = Vec::new();
    let mut limit = if room < MIN_FIRST { MAX_WORD } else { room.min(MAX_WORD) };
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(fitting(rest, limit - FRAME, quoted));
        words.push(if quoted { quoted_word(piece) } else { format!("=?utf-8?B?{}?=", STANDARD.encode(piece)) });
        rest = after;
        limit = MAX_WORD;
    }
    words
}

/// How many bytes of the text, whole characters and at least one, fit a payload.
fn fitting(text: &str, payload: usize, quoted: bool) -> usize {
    let mut used = 0;
    for (index, c) in text.char_indices() {
        used += if quoted { quoted_len(c) } else { c.len_utf8() };
        let needed = if quoted { used } else { used.div_ceil(3) * 4 };
        if needed > payload && index > 0 {
            // Not for the price of words that are nearly all frame.
            let space = text[..index].rfind(' ').map_or(0, |space| space + 1);
            return if space > index / 3 { space } else { index };
        }
    }
    text.len()
}

/// What stands for itself in a "Q" word, also in a display name (RFC 2047, section 5, rule 3).
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!*+-/".contains(c)
}

fn quoted_len(c: char) -> usize {
    if is_plain(c) || c == ' ' { 1 } else { 3 * c.len_utf8() }
}

fn quoted_word(text: &str) -> String {
    let mut word = String::from("=?utf-8?Q?");
    for c in text.chars() {
        match c {
            ' ' => word.push('_'),
            c if is_plain(c) => word.push(c),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| word.push_str(&format!("={b:02X}"))),
        }
    }
    word.push_str("?=");
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_encoding_is_taken() {
        assert_eq!(encoded_words("Café au lait", 70), ["=?utf-8?Q?Caf=C3=A9_au_lait?="]);
        assert_eq!(encoded_words("Счёт", 70), ["=?utf-8?B?0KHRh9GR0YI=?="]);
    }

    #[test]
    fn what_would_read_as_an_encoded_word_is_encoded() {
        assert_eq!(encoded_words("see =?x", 70), ["=?utf-8?Q?see_=3D=3Fx?="]);
    }

    #[test]
    fn no_word_is_longer_than_allowed_and_none_splits_a_character() {
        for text in ["я".repeat(300), "a".repeat(300), "é a".repeat(100), "𝒳".repeat(50), "a€".repeat(90)] {
            for room in [0, 29, 30, 31, 32, 33, 67, 75, 500] {
                let words = encoded_words(&text, room);
                assert!(words.iter().all(|w| w.len() <= MAX_WORD), "{words:?}");
                assert!(room < MIN_FIRST || words[0].len() <= room, "{words:?}");
                let raw = format!("Subject: {}\r\n\r\n", words.join("\r\n "));
                let read = mail_parser::MessageParser::default().parse(raw.as_bytes()).expect("is a message");
                assert_eq!(read.subject(), Some(text.as_str()));
            }
        }
    }

    #[test]
    fn a_word_ends_at_a_space_if_one_is_near() {
        let words = encoded_words("Александр Константинович Рождественский", 70);
        let read: Vec<_> = words.iter().map(|w| STANDARD.decode(&w[10..w.len() - 2]).expect("is base64")).collect();
        assert_eq!(read, ["Александр ", "Константинович ", "Рождественский"].map(str::as_bytes));
    }

    #[test]
    fn an_empty_text_has_no_words() {
        assert!(encoded_words("", 70).is_empty());
    }
}
