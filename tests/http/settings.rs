//! What the settings make of it.

use super::*;

#[test]
fn it_declares_what_it_can_carry() {
    let declared = provider_with("http://localhost/", |s| s.max_bytes = Some(1000)).capabilities().clone();
    assert!(declared.envelope_apart && declared.inline_images && declared.smtputf8);
    assert_eq!((declared.max_bytes, declared.max_recipients), (Some(1000), None));
    assert_eq!(declared.idempotency, Some(Duration::from_secs(24 * 60 * 60)));
    assert_eq!(provider_with("http://localhost/", |s| s.idempotency = Duration::ZERO).capabilities().idempotency, None);
}

#[test]
fn settings_that_make_no_adapter_are_refused_without_showing_secrets() {
    let table = [
        ("nonsense", None, "url: not a URL"),
        ("ftp://localhost/", None, "url: neither http nor https"),
        ("http://user:s3cret@localhost/", None, "url: holds a user name or password, which have settings of their own"),
        ("http://localhost/", Some("s3cret\n"), "token: holds characters that cannot stand in a header"),
        ("http://localhost/", Some(""), "token: is empty"),
    ];
    for (url, token, expected) in table {
        let token = token.map(|token| token.to_owned().into());
        let error = HttpProvider::new(ProviderName::new("gateway"), &settings(url, |_| {}), token).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
