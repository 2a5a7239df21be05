//! The types that a setting can have: how each is read, how it is shown, and what is said when it is wrong.
//!
//! Owns single values; how they depend on one another is checked elsewhere.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::source::Raw;

/// A type that a setting can have.
pub(super) trait Value: Clone + PartialOrd {
    /// What is expected, in words.
    fn expected() -> String;

    /// The value, if it is one of this type.
    fn read(raw: &Raw) -> Option<Self>;

    /// The value as it would stand in the file.
    fn show(&self) -> String;
}

impl Raw {
    fn as_text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) | Raw::Word(text) => Some(text),
            _ => None,
        }
    }

    /// The value as it stands in the file, shortened, and without what may be secret in a URL.
    pub(super) fn show(&self) -> String {
        match self {
            Raw::Text(text) | Raw::Word(text) => quote(text),
            Raw::Integer(number) => number.to_string(),
            Raw::Float(number) => number.to_string(),
            Raw::Bool(value) => value.to_string(),
            Raw::List(items) => format!("[{}]", items.iter().map(Raw::show).collect::<Vec<_>>().join(", ")),
            Raw::Table(_) => "a table".to_owned(),
            Raw::Other(what) => what.clone(),
        }
    }
}

/// The text in quotation marks: shortened, and without what may be secret in a URL.
pub(super) fn quote(text: &str) -> String {
    let text = redact(text);
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// The text without what may be secret in a URL: user, password and query.
pub(super) fn redact(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    match rest.split_once('?') {
        Some((address, _)) => format!("{scheme}{user}{address}?***"),
        None => format!("{scheme}{user}{rest}"),
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn expected() -> String {
                "a whole number".to_owned()
            }

            fn read(raw: &Raw) -> Option<Self> {
                match raw {
                    Raw::Integer(number) => Self::try_from(*number).ok(),
                    Raw::Word(text) => text.trim().replace('_', "").parse().ok(),
                    _ => None,
                }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

whole_numbers!(u16, u32, u64, usize);

impl Value for f64 {
    fn expected() -> String {
        "a number".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::Float(number) => Some(*number),
            Raw::Integer(number) => i32::try_from(*number).ok().map(f64::from),
            Raw::Word(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::Bool(value) => Some(*value),
            Raw::Word(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Duration {
    fn expected() -> String {
        "a time with its unit, such as \"500ms\", \"30s\" or \"1h 30m\",".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        humantime::parse_duration(raw.as_text()?.trim()).ok()
    }

    fn show(&self) -> String {
        format!("\"{}\"", humantime::format_duration(*self))
    }
}

impl Value for String {
    fn expected() -> String {
        "a text".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        raw.as_text().map(str::to_owned)
    }

    fn show(&self) -> String {
        quote(self)
    }
}

impl Value for PathBuf {
    fn expected() -> String {
        "the path of a file".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        raw.as_text().filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn show(&self) -> String {
        format!("{:?}", self.display().to_string())
    }
}

impl Value for SocketAddr {
    fn expected() -> String {
        "an IP address and a port, such as \"127.0.0.1:50051\"".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        raw.as_text()?.trim().parse().ok()
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for Vec<String> {
    fn expected() -> String {
        "a list of texts, such as [\"a\", \"b\"]".to_owned()
    }

    fn read(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::List(items) => items.iter().map(String::read).collect(),
            // In the environment, words with commas between them.
            Raw::Word(text) => Some(text.split(',').map(|word| word.trim().to_owned()).collect()),
            _ => None,
        }
    }

    fn show(&self) -> String {
        format!("[{}]", self.iter().map(String::show).collect::<Vec<_>>().join(", "))
    }
}

/// A type with a few values, each with its word.
pub(super) trait Choice: Copy + PartialOrd + 'static {
    /// Every value and its word.
    const WORDS: &'static [(Self, &'static str)];
}

impl<T: Choice> Value for T {
    fn expected() -> String {
        let words: Vec<String> = T::WORDS.iter().map(|(_, word)| format!("\"{word}\"")).collect();
        match words.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => words.concat(),
        }
    }

    fn read(raw: &Raw) -> Option<Self> {
        let text = raw.as_text()?.trim();
        T::WORDS.iter().find(|(_, word)| *word == text).map(|(value, _)| *value)
    }

    fn show(&self) -> String {
        let word = T::WORDS.iter().find(|(value, _)| value == self).map(|(_, word)| *word);
        format!("\"{}\"", word.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_of_a_url_is_shown() {
        for (text, shown) in [
            ("https://user:secret@host/path", "https://***@host/path"),
            ("https://us@er:sec@ret@host", "https://***@host"),
            ("https://host/path?key=secret", "https://host/path?***"),
            ("postgres://u:secret@/db?host=/run&password=secret", "postgres://***@/db?***"),
            ("user:secret@host", "***@host"),
            ("postgres://user:se?cret@host/db", "postgres://***@host/db"),
            ("smtp.example.com", "smtp.example.com"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }

    #[test]
    fn a_word_of_the_environment_is_read_as_the_type_asks() {
        let word = |text: &str| Raw::Word(text.to_owned());
        assert_eq!(u32::read(&word("1_000")), Some(1000));
        assert_eq!(String::read(&word("1000")), Some("1000".to_owned()));
        assert_eq!(f64::read(&word("0.25")), Some(0.25));
        assert_eq!(Duration::read(&word("1h 30m")), Some(Duration::from_secs(5400)));
        assert_eq!(Vec::<String>::read(&word("a, b")), Some(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_number_of_the_file_is_no_text_and_a_time_needs_its_unit() {
        assert_eq!(String::read(&Raw::Integer(5)), None);
        assert_eq!(Duration::read(&Raw::Integer(5)), None);
        assert_eq!(u16::read(&Raw::Integer(70_000)), None);
        assert_eq!(u32::read(&Raw::Integer(-1)), None);
        assert_eq!(u32::read(&Raw::Text("5".to_owned())), None);
    }
}
