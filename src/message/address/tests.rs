//! Which texts are addresses and mailboxes, and which are not.

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
