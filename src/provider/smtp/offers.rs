//! What a server offers in its reply to EHLO.
//!
//! Owns the reading of the keywords; uses none of them.

use super::reply::Reply;
use crate::config::SmtpAuth;

/// The extensions a server offers, of those that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offers {
    /// STARTTLS (RFC 3207).
    pub(super) starttls: bool,
    /// SMTPUTF8 (RFC 6531).
    pub(super) smtputf8: bool,
    /// 8BITMIME (RFC 6152).
    pub(super) eight_bit: bool,
    /// PIPELINING (RFC 2920): commands may be sent before the replies to those before them have come.
    pub(super) pipelining: bool,
    /// SIZE (RFC 1870): the largest message it takes, 0 if it names none; `None` if it does not know the keyword.
    pub(super) size: Option<u64>,
    plain: bool,
    login: bool,
}

impl Offers {
    /// Reads the reply to EHLO. The first line is the server's name.
    pub(super) fn read(hello: &Reply) -> Self {
        let mut offers = Self::default();
        for line in hello.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            // Some servers still write the old form "AUTH=PLAIN LOGIN" too.
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => offers.starttls = true,
                Some("SMTPUTF8") => offers.smtputf8 = true,
                Some("8BITMIME") => offers.eight_bit = true,
                Some("PIPELINING") => offers.pipelining = true,
                Some("SIZE") => offers.size = Some(words.next().and_then(|size| size.parse().ok()).unwrap_or(0)),
                Some("AUTH") => words.for_each(|mechanism| match mechanism {
                    "PLAIN" => offers.plain = true,
                    "LOGIN" => offers.login = true,
                    _ => {}
                }),
                _ => {}
            }
        }
        offers
    }

    /// The mechanism to use: the one that is wanted, else PLAIN before LOGIN; `None` if it is not offered.
    pub(super) fn mechanism(&self, wanted: Option<SmtpAuth>) -> Option<SmtpAuth> {
        let offered = |mechanism: &SmtpAuth| match mechanism {
            SmtpAuth::Plain => self.plain,
            SmtpAuth::Login => self.login,
        };
        match wanted {
            Some(mechanism) => Some(mechanism).filter(offered),
            None => [SmtpAuth::Plain, SmtpAuth::Login].into_iter().find(offered),
        }
    }

    /// Whether a message of that many bytes is larger than the server takes.
    pub(super) fn is_too_large(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.size.is_some_and(|limit| limit > 0 && bytes > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(lines: &[&str]) -> Offers {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        Offers::read(&Reply::new(250, &lines))
    }

    #[test]
    fn keywords_are_read_in_any_case_and_form() {
        let all =
            ["mx.example", "STARTTLS", "smtputf8", "8BITMIME", "SIZE 1000", "Pipelining", "AUTH PLAIN LOGIN", "HELP"];
        let all = offers(&all);
        let expected = Offers {
            starttls: true,
            smtputf8: true,
            eight_bit: true,
            pipelining: true,
            size: Some(1000),
            plain: true,
            login: true,
        };
        assert_eq!(all, expected);
        assert_eq!(offers(&["mx", "AUTH=LOGIN"]), Offers { login: true, ..Offers::default() });
        assert_eq!(offers(&["mx", "SIZE"]).size, Some(0));
        assert_eq!(offers(&["STARTTLS"]), Offers::default());
    }

    #[test]
    fn the_wanted_mechanism_is_used_or_none() {
        let both = offers(&["mx", "AUTH LOGIN PLAIN"]);
        let login = offers(&["mx", "AUTH CRAM-MD5 LOGIN"]);
        let table = [
            (&both, None, Some(SmtpAuth::Plain)),
            (&both, Some(SmtpAuth::Login), Some(SmtpAuth::Login)),
            (&login, None, Some(SmtpAuth::Login)),
            (&login, Some(SmtpAuth::Plain), None),
        ];
        for (offers, wanted, expected) in table {
            assert_eq!(offers.mechanism(wanted), expected, "{offers:?} {wanted:?}");
        }
    }

    #[test]
    fn only_a_limit_that_is_named_limits() {
        let table = [(Some(1000), 1001, true), (Some(1000), 1000, false), (Some(0), 1001, false), (None, 1001, false)];
        for (size, bytes, expected) in table {
            assert_eq!(Offers { size, ..Offers::default() }.is_too_large(bytes), expected, "{size:?} {bytes}");
        }
    }
}
