//! A server's reply, parsed from what was heard: code, enhanced code, lines.
//!
//! Owns no judgement: what a reply means is in [`super::classify`].

/// One complete reply (RFC 5321, section 4.2).
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// The three digits.
    pub(super) code: u16,
    /// The enhanced code (RFC 2034), where there is one and its class agrees with the three digits.
    pub(super) enhanced: Option<Enhanced>,
    /// The lines without their codes.
    pub(super) lines: Vec<String>,
}

/// What was heard is no reply, and will not become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoReply;

/// An enhanced status code (RFC 3463) without its class, which is the reply code's first digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enhanced {
    /// What it is about: 1 address, 2 mailbox, 3 system, 4 network, 5 protocol, 6 content, 7 policy.
    pub(super) subject: u16,
    /// What exactly.
    pub(super) detail: u16,
}

impl Reply {
    /// Reads the first reply of what was heard; gives it and its length, or `None` where its end is still to come.
    ///
    /// Lenient where a reply would be lost otherwise: a code without text, a line end without CR, bytes that are not
    /// UTF-8 and a line of more than 1,000 bytes are understood.
    pub(super) fn parse(heard: &[u8]) -> Result<Option<(Self, usize)>, NoReply> {
        let mut rest = heard;
        let mut code = None;
        let mut texts = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let line = String::from_utf8_lossy(&rest[..end]);
            rest = &rest[end + 1..];
            let (line_code, is_last, text) = split(line.trim_end_matches('\r')).ok_or(NoReply)?;
            if *code.get_or_insert(line_code) != line_code {
                return Err(NoReply);
            }
            texts.push(text.to_owned());
            if is_last {
                return Ok(Some((Self::new(line_code, &texts), heard.len() - rest.len())));
            }
        }
        Ok(None)
    }

    /// A reply of that code and those lines, which may each begin with an enhanced code.
    pub(super) fn new(code: u16, texts: &[String]) -> Self {
        let class = code / 100;
        let enhanced = texts.first().and_then(|text| Enhanced::split_from(text, class)).map(|(enhanced, _)| enhanced);
        let without = |text: &String| match Enhanced::split_from(text, class) {
            Some((_, rest)) => rest.to_owned(),
            None => text.clone(),
        };
        Self { code, enhanced, lines: texts.iter().map(without).collect() }
    }

    /// The lines as one text.
    pub(super) fn text(&self) -> String {
        self.lines.join(" ")
    }

    /// The code as it goes on record: `550`, or `550 5.1.1`.
    pub(super) fn code_text(&self) -> String {
        match self.enhanced {
            Some(Enhanced { subject, detail }) => format!("{} {}.{subject}.{detail}", self.code, self.code / 100),
            None => self.code.to_string(),
        }
    }

    /// Whether the command was done (2yz).
    pub(super) fn is_done(&self) -> bool {
        self.code / 100 == 2
    }

    /// Whether the command was refused, for now or for good.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_temporary() || self.code / 100 == 5
    }

    /// Whether the command was refused for now (4yz).
    pub(super) fn is_temporary(&self) -> bool {
        self.code / 100 == 4
    }

    /// Whether the enhanced code has that subject.
    pub(super) fn is_about(&self, subject: u16) -> bool {
        self.enhanced.is_some_and(|enhanced| enhanced.subject == subject)
    }

    /// The subject and the detail of the enhanced code.
    pub(super) fn subject_and_detail(&self) -> Option<(u16, u16)> {
        self.enhanced.map(|enhanced| (enhanced.subject, enhanced.detail))
    }

    /// The server's own id of a message it took, where the text has one in a form that is known.
    ///
    /// Postfix and its like say "queued as ID", Exim "id=ID", Sendmail and OpenSMTPD "ID Message accepted for
    /// delivery", Amazon SES "Ok ID".
    pub(super) fn queue_id(&self) -> Option<String> {
        let text = self.text();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let after = |first: &str, second: &str| {
            words
                .windows(3)
                .find(|w| w[0].eq_ignore_ascii_case(first) && w[1].eq_ignore_ascii_case(second))
                .map(|w| w[2])
        };
        let before_accepted = words
            .windows(3)
            .find(|w| w[1].eq_ignore_ascii_case("message") && w[2].eq_ignore_ascii_case("accepted"))
            .map(|w| w[0]);
        let assigned = words.iter().find_map(|word| word.strip_prefix("id="));
        let alone = match words.as_slice() {
            [ok, id] if ok.eq_ignore_ascii_case("ok") && id.len() >= 16 => Some(*id),
            _ => None,
        };
        let id = after("queued", "as").or(assigned).or(before_accepted).or(alone)?;
        let id = id.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = (4..=255).contains(&id.len()) && id.bytes().any(|byte| byte.is_ascii_digit());
        is_id.then(|| id.to_owned())
    }
}

impl Enhanced {
    /// The enhanced code a text begins with, if its class is that one, and the text after it.
    fn split_from(text: &str, class: u16) -> Option<(Self, &str)> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut parts = word.split('.').map(|part| match part.len() {
            1..=3 if part.bytes().all(|byte| byte.is_ascii_digit()) => part.parse::<u16>().ok(),
            _ => None,
        });
        let (first, subject, detail) = (parts.next()??, parts.next()??, parts.next()??);
        (parts.next().is_none() && first == class).then(|| (Self { subject, detail }, rest.trim_start()))
    }
}

/// The parts of a reply's line: its code, whether it is the last one, its text.
fn split(line: &str) -> Option<(u16, bool, &str)> {
    let code = line.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()))?;
    let code = code.parse().ok().filter(|code| (200..600).contains(code))?;
    match line.as_bytes().get(3) {
        None => Some((code, true, "")),
        Some(b' ') => Some((code, true, &line[4..])),
        Some(b'-') => Some((code, false, &line[4..])),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, the text and what follows the first reply.
    fn parsed(heard: &str) -> Result<Option<(String, String, usize)>, NoReply> {
        let reply = Reply::parse(heard.as_bytes())?;
        Ok(reply.map(|(reply, length)| (reply.code_text(), reply.text(), heard.len() - length)))
    }

    #[test]
    fn replies_are_read_as_servers_write_them() {
        let table = [
            ("250 OK\r\n", ("250", "OK", 0)),
            ("250\r\n", ("250", "", 0)),
            ("250 OK\n", ("250", "OK", 0)),
            ("550 5.1.1 no such user\r\n", ("550 5.1.1", "no such user", 0)),
            ("550-5.7.1 first\r\n550 5.7.1 second\r\n", ("550 5.7.1", "first second", 0)),
            ("250-a\r\n250-b\r\n250 c\r\n", ("250", "a b c", 0)),
            ("550 4.7.1 classes disagree\r\n", ("550", "4.7.1 classes disagree", 0)),
            ("250 OK\r\n421 bye\r\n", ("250", "OK", 9)),
        ];
        for (heard, (code, text, rest)) in table {
            assert_eq!(parsed(heard), Ok(Some((code.to_owned(), text.to_owned(), rest))), "{heard:?}");
        }
        let long = format!("250 {}\r\n", "x".repeat(5_000));
        assert_eq!(parsed(&long), Ok(Some(("250".to_owned(), "x".repeat(5_000), 0))));
    }

    #[test]
    fn a_reply_still_to_come_is_told_from_what_is_none() {
        for unfinished in ["", "25", "250 not ended", "250-not the last\r\n"] {
            assert_eq!(parsed(unfinished), Ok(None), "{unfinished:?}");
        }
        for strange in ["250-two\r\n550 codes\r\n", "HTTP/1.1 400 Bad Request\r\n", "OK\r\n", "\r\n", "2500 a\r\n"] {
            assert_eq!(parsed(strange), Err(NoReply), "{strange:?}");
        }
    }

    #[test]
    fn a_queue_id_is_taken_where_its_form_is_known() {
        let table = [
            ("2.0.0 Ok: queued as 4XyZ1F2bC3z9", Some("4XyZ1F2bC3z9")),
            ("OK id=1tHabc-0000kL-2D", Some("1tHabc-0000kL-2D")),
            ("2.0.0 4B1CWoAS012345 Message accepted for delivery", Some("4B1CWoAS012345")),
            ("2.0.0 1a2b3c4d Message accepted for delivery", Some("1a2b3c4d")),
            ("Ok 0102019-5d41402a-000000", Some("0102019-5d41402a-000000")),
            ("OK", None),
            ("Message accepted for delivery", None),
            ("2.0.0 OK queued", None),
            ("Ok: queued as", None),
        ];
        for (text, expected) in table {
            assert_eq!(Reply::new(250, &[text.to_owned()]).queue_id().as_deref(), expected, "{text:?}");
        }
    }
}
