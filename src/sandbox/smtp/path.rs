//! The arguments of MAIL and RCPT.
//!
//! Owns their grammar (RFC 5321, section 4.1.2), as far as it tells a command from a mistake; accepts nobody.

/// A path and the parameters behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathArguments<'a> {
    /// The address, empty for the null path.
    pub(super) address: &'a str,
    /// The parameters, each as `NAME` or `NAME=value`.
    pub(super) parameters: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> PathArguments<'a> {
    /// Reads what follows the verb, with that word before the colon (`FROM` or `TO`).
    pub(super) fn parse(arguments: &'a str, word: &str) -> Option<Self> {
        let (found, rest) = arguments.split_once(':')?;
        if !found.eq_ignore_ascii_case(word) {
            return None;
        }
        let rest = rest.strip_prefix('<')?;
        let end = end_of_path(rest)?;
        let after = &rest[end + 1..];
        if !after.is_empty() && !after.starts_with(' ') {
            return None;
        }
        let parameters = after
            .split_ascii_whitespace()
            .map(|parameter| parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value))));
        Some(Self { address: mailbox(&rest[..end])?, parameters: parameters.collect() })
    }
}

/// Where the angle bracket closes; one in quotes does not close it.
fn end_of_path(rest: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The address of a path: a source route is passed over (RFC 5321, appendix C).
fn mailbox(path: &str) -> Option<&str> {
    let address = match path.strip_prefix('@') {
        Some(route) => route.split_once(':')?.1,
        None => path,
    };
    if address.is_empty() {
        return Some(address);
    }
    let (local, domain) = address.rsplit_once('@')?;
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control() || "<>".contains(c));
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let local_is_fine = quoted || (plain(local) && !local.contains([' ', '"', '@', ',', ';', ':']));
    let domain_is_fine = plain(domain) && !domain.contains([' ', '"', ',', ';']);
    // 64 and 255 octets: RFC 5321, section 4.5.3.1.
    (local_is_fine && domain_is_fine && local.len() <= 64 && domain.len() <= 255).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_by_the_grammar() {
        let table = [
            ("FROM:<a@example.org>", Some("a@example.org")),
            ("from:<a@example.org> SIZE=10 BODY=8BITMIME", Some("a@example.org")),
            ("FROM:<>", Some("")),
            ("FROM:<@relay.example:a@example.org>", Some("a@example.org")),
            ("FROM:<\"a > b\"@example.org>", Some("\"a > b\"@example.org")),
            ("FROM:<a@[127.0.0.1]>", Some("a@[127.0.0.1]")),
            ("FROM: <a@example.org>", None),
            ("FROM:a@example.org", None),
            ("FROM:<a@example.org", None),
            ("FROM:<a@example.org>SIZE=1", None),
            ("FROM:<a b@example.org>", None),
            ("FROM:<a,b@example.org>", None),
            ("FROM:<a@b@example.org>", None),
            ("FROM:<postmaster>", None),
            ("FROM:<@example.org>", None),
            ("TO:<a@example.org>", None),
            ("FROM", None),
        ];
        for (arguments, address) in table {
            let found = PathArguments::parse(arguments, "FROM").map(|path| path.address);
            assert_eq!(found, address, "{arguments}");
        }
    }

    #[test]
    fn parameters_are_names_with_or_without_a_value() {
        let path = PathArguments::parse("FROM:<a@example.org>  SIZE=10 SMTPUTF8", "FROM").expect("well formed");
        assert_eq!(path.parameters, [("SIZE", Some("10")), ("SMTPUTF8", None)]);
    }
}
