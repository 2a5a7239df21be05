//! Parameters of MIME headers, those of any script and length included (RFC 2231).
//!
//! Owns how a value is written; what the value may be is not decided here.

/// The longest parameter on a line of its own, so that the line keeps to 76 with its space and semicolon.
const MAX_PARAMETER: usize = 74;

/// `name=value` as one or more parameters, each short enough for a line: a quoted string where that can carry the value
/// as it is, else in the extended form that every reader of today knows (`name*=utf-8''…`, `name*0*=…`).
pub(super) fn parameters(name: &str, value: &str) -> Vec<String> {
    // Readers decode "=?…?=" in quoted strings although they should not, and differ about backslashes.
    let plain = |c: char| c == ' ' || (c.is_ascii_graphic() && c != '"' && c != '\\');
    if value.chars().all(plain) && !value.contains("=?") && name.len() + value.len() + 3 <= MAX_PARAMETER {
        return vec![format!("{name}=\"{value}\"")];
    }
    let encoded: Vec<String> = value.chars().map(percent).collect();
    let whole = format!("{name}*=utf-8''{}", encoded.concat());
    if whole.len() <= MAX_PARAMETER {
        return vec![whole];
    }
    let mut sections: Vec<String> = Vec::new();
    let mut section = format!("{name}*0*=utf-8''");
    for c in encoded {
        if section.len() + c.len() > MAX_PARAMETER {
            sections.push(section);
            section = format!("{name}*{}*=", sections.len());
        }
        section.push_str(&c);
    }
    sections.push(section);
    sections
}

fn percent(c: char) -> String {
    if c.is_ascii_alphanumeric() || "-._".contains(c) {
        return c.to_string();
    }
    c.encode_utf8(&mut [0; 4]).bytes().map(|b| format!("%{b:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_name_is_a_quoted_string() {
        assert_eq!(parameters("filename", "invoice 7.pdf"), ["filename=\"invoice 7.pdf\""]);
        assert_eq!(parameters("filename", ""), ["filename=\"\""]);
    }

    #[test]
    fn another_script_takes_the_extended_form() {
        assert_eq!(parameters("filename", "счёт.pdf"), ["filename*=utf-8''%D1%81%D1%87%D1%91%D1%82.pdf"]);
        assert_eq!(parameters("filename", "a\"b\\c"), ["filename*=utf-8''a%22b%5Cc"]);
        assert_eq!(parameters("filename", "=?x"), ["filename*=utf-8''%3D%3Fx"]);
    }

    #[test]
    fn a_long_name_is_cut_into_numbered_sections_between_characters() {
        let sections = parameters("filename", &"я".repeat(120));
        assert!(sections.len() > 10 && sections.iter().all(|s| s.len() <= MAX_PARAMETER), "{sections:?}");
        for (number, section) in sections.iter().enumerate() {
            let start = if number == 0 { "filename*0*=utf-8''".into() } else { format!("filename*{number}*=") };
            let payload = section.strip_prefix(&start).expect("is numbered in order");
            assert!(payload.len().is_multiple_of(6), "{section} splits a character");
        }
    }
}
