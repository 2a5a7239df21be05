//! What is admitted and what is refused, with the words that the caller reads.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Draft, DraftAttachment, DraftHeader, DraftMailbox, Policy, Violation};
use crate::config;

fn mailbox(address: &str) -> DraftMailbox {
    DraftMailbox { address: address.to_owned(), name: String::new() }
}

fn named(name: &str) -> DraftMailbox {
    DraftMailbox { address: "ann@example.com".to_owned(), name: name.to_owned() }
}

fn header(name: &str, value: &str) -> DraftHeader {
    DraftHeader { name: name.to_owned(), value: value.to_owned() }
}

fn file(filename: &str, content: &'static [u8]) -> DraftAttachment {
    DraftAttachment { filename: filename.to_owned(), content: Bytes::from_static(content), ..Default::default() }
}

fn image(content_id: &str) -> DraftAttachment {
    let content_id = content_id.to_owned();
    DraftAttachment { content_id, ..file("a.gif", b"GIF89a\x01\0\x01\0\0\0\0") }
}

fn draft() -> Draft {
    Draft {
        from: Some(mailbox("shop@shop.example")),
        to: vec![mailbox("ann@example.com")],
        text: "Hello".to_owned(),
        ..Default::default()
    }
}

fn settings() -> config::Policy {
    config::Policy::default()
}

fn problems_under(settings: &config::Policy, draft: Draft) -> Vec<String> {
    let violations = Policy::new(settings).admit(draft).map(|_| ()).err().unwrap_or_default();
    violations.into_iter().map(|Violation { field, description }| format!("{field} {description}")).collect()
}

fn problems(draft: Draft) -> Vec<String> {
    problems_under(&settings(), draft)
}

#[test]
fn an_email_in_order_is_admitted_as_it_is() {
    let given = Draft {
        from: Some(DraftMailbox { address: "Rechnung@MÜNCHEN.example".into(), name: "Müller & Söhne".into() }),
        to: vec![named("Иван"), mailbox("bob@example.com")],
        cc: vec![mailbox("cc@example.com")],
        bcc: vec![mailbox("bcc@example.com")],
        reply_to: vec![mailbox("ann@example.com"), mailbox("ann@example.com")],
        subject: "я".repeat(998),
        html: "<p>".into(),
        attachments: vec![file("счёт.pdf", b"%PDF-1.7\n"), image("logo@shop"), file("rows.csv", b"a;b")],
        headers: vec![header("List-Unsubscribe", "<https://shop.example/u>"), header("X-Note", "привет")],
        tags: vec!["t".repeat(64); 10],
        metadata: (0..50).map(|n| (format!("{n:064}"), "v".repeat(500))).collect(),
        document_type: "INVOICE_2".into(),
        ..draft()
    };
    let email = Policy::new(&settings()).admit(given).expect("is in order");
    assert_eq!(email.from.address.as_str(), "Rechnung@xn--mnchen-3ya.example");
    assert_eq!(email.from.name.as_deref(), Some("Müller & Söhne"));
    assert_eq!(email.recipient_count(), 4);
    assert_eq!(email.to[1].name, None);
    assert_eq!((email.text.as_deref(), email.html.as_deref()), (Some("Hello"), Some("<p>")));
    let types: Vec<_> = email.attachments.iter().map(|a| a.content_type.as_str()).collect();
    assert_eq!(types, ["application/pdf", "image/gif", "text/csv"]);
    let ids: Vec<_> = email.attachments.iter().map(|a| a.content_id.as_deref()).collect();
    assert_eq!(ids, [None, Some("logo@shop"), None]);
    assert_eq!(email.headers.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["List-Unsubscribe", "X-Note"]);
    assert_eq!((email.tags.len(), email.metadata.len()), (10, 50));
    assert_eq!(email.document_type.as_deref(), Some("INVOICE_2"));
}

#[test]
fn senders_and_recipients_are_refused_with_the_reason() {
    let twice = Draft { to: vec![mailbox("a@b.example")], cc: vec![mailbox("A@B.example")], ..draft() };
    let many = Draft { bcc: (0..100).map(|n| mailbox(&format!("u{n}@b.example"))).collect(), ..draft() };
    let table = [
        (Draft { from: None, ..draft() }, "email.from is required"),
        (Draft { from: Some(mailbox("")), ..draft() }, "email.from.address is empty"),
        (Draft { from: Some(mailbox("shop")), ..draft() }, "email.from.address has no \"@\""),
        (
            Draft { to: vec![], ..draft() },
            "email.to is empty, and so are email.cc and email.bcc; at least one recipient is required",
        ),
        (
            Draft { cc: vec![mailbox("a@b.example"), mailbox("a@[1.2.3.4]")], ..draft() },
            "email.cc[1].address has an IP address for a domain, which is not accepted",
        ),
        (
            Draft { bcc: vec![mailbox("a@b c")], ..draft() },
            "email.bcc[0].address has an invalid domain (what is after the \"@\")",
        ),
        (Draft { reply_to: vec![mailbox("a")], ..draft() }, "email.reply_to[0].address has no \"@\""),
        (
            Draft { reply_to: vec![mailbox("a@b.example"); 26], ..draft() },
            "email.reply_to names 26 mailboxes; the limit is 25",
        ),
        (twice, "email.cc[0].address is the same recipient as email.to[0]"),
        (many, "email.to names 101 recipients together with email.cc and email.bcc; the limit is 100"),
        (
            Draft { to: vec![named("a\r\nBcc: b@c.example")], ..draft() },
            "email.to[0].name has a control character, such as a line end or a tab",
        ),
        (
            Draft { from: Some(named("a\u{2028}b")), ..draft() },
            "email.from.name has a control character, such as a line end or a tab",
        ),
        (
            Draft { to: vec![named(&"n".repeat(257))], ..draft() },
            "email.to[0].name has 257 characters; the limit is 256",
        ),
    ];
    for (draft, expected) in table {
        assert_eq!(problems(draft), [expected]);
    }
}

#[test]
fn subjects_bodies_and_headers_are_refused_with_the_reason() {
    let headers = |headers: Vec<DraftHeader>| Draft { headers, ..draft() };
    let table = [
        (Draft { subject: "s".repeat(10_000), ..draft() }, "email.subject has 10000 characters; the limit is 998"),
        (
            Draft { subject: "a\nb".into(), ..draft() },
            "email.subject has a control character, such as a line end or a tab",
        ),
        (
            Draft { text: String::new(), ..draft() },
            "email.text is empty, and so is email.html; at least one of them is required",
        ),
        (headers(vec![header("", "v")]), "email.headers[0].name is empty"),
        (headers(vec![header("X-A", "")]), "email.headers[0].value is empty"),
        (headers(vec![header(&"n".repeat(77), "v")]), "email.headers[0].name has 77 bytes; the limit is 76"),
        (
            headers(vec![header("X-A", "v"), header("X B", "v")]),
            "email.headers[1].name has a character other than printable ASCII, or a space or a colon",
        ),
        (
            headers(vec![header("X-A", "v\r\nBcc: a@b.example")]),
            "email.headers[0].value has a control character, such as a line end or a tab",
        ),
        (
            headers(vec![header("X-A", &"v".repeat(2_001))]),
            "email.headers[0].value has 2001 characters; the limit is 2000",
        ),
        (headers(vec![header("X-A", "v"); 51]), "email.headers has 51 headers; the limit is 50"),
        (
            headers(vec![header("X-A", &"v".repeat(1_000)); 33]),
            "email.headers has 33099 bytes in all; the limit is 32768",
        ),
    ];
    for (draft, expected) in table {
        assert_eq!(problems(draft), [expected]);
    }
}

#[test]
fn headers_that_are_not_the_callers_are_refused() {
    let taken = "From To CC bcc Sender Subject Date Message-ID message-id Reply-To MIME-Version Content-Type \
                 Content-Transfer-Encoding Content-Disposition Received Return-Path DKIM-Signature ARC-Seal \
                 ARC-Authentication-Results Resent-To Resent-Bcc Authentication-Results Delivered-To X-Postrider-Id \
                 X-SMTPAPI X-SES-CONFIGURATION-SET X-Mailgun-Variables X-PM-Message-Stream";
    for name in taken.split_whitespace() {
        let expected = "email.headers[0].name is a header that Postrider or a provider owns and a caller cannot set";
        assert_eq!(problems(Draft { headers: vec![header(name, "v")], ..draft() }), [expected], "{name}");
    }
    let free = "List-Unsubscribe List-Unsubscribe-Post In-Reply-To References Auto-Submitted X-Entity-Ref-ID Feedback-ID \
                Precedence Importance X-Priority Organization Tolerated From-Shop";
    for name in free.split_whitespace() {
        assert_eq!(problems(Draft { headers: vec![header(name, "v")], ..draft() }), [""; 0], "{name}");
    }
}

#[test]
fn labels_are_refused_with_the_reason() {
    let one = |key: &str, value: &str| Draft { metadata: BTreeMap::from([(key.into(), value.into())]), ..draft() };
    let typed = |document_type: &str| Draft { document_type: document_type.into(), ..draft() };
    let bad_key = "email.metadata has a key that is not 1 to 64 characters without control characters";
    let bad_type = "email.document_type is not made of at most 64 of A-Z, 0-9 and \"_\"";
    let metadata = (0..51).map(|n| (n.to_string(), String::new())).collect();
    let table = [
        (Draft { tags: vec!["t".into(); 11], ..draft() }, "email.tags has 11 tags; the limit is 10"),
        (Draft { tags: vec!["a".into(), "".into()], ..draft() }, "email.tags[1] is empty"),
        (Draft { tags: vec!["t".repeat(65)], ..draft() }, "email.tags[0] has 65 characters; the limit is 64"),
        (
            Draft { tags: vec!["\t".into()], ..draft() },
            "email.tags[0] has a control character, such as a line end or a tab",
        ),
        (Draft { metadata, ..draft() }, "email.metadata has 51 keys; the limit is 50"),
        (one("", "v"), bad_key),
        (one(&"k".repeat(65), "v"), bad_key),
        (one("a\nb", "v"), bad_key),
        (one("order", &"v".repeat(501)), "email.metadata[\"order\"] has 501 characters; the limit is 500"),
        (one("Имя \"", "\0"), "email.metadata has a control character, such as a line end or a tab"),
        (typed("invoice"), bad_type),
        (typed("INVOICE-2"), bad_type),
        (typed(&"I".repeat(65)), bad_type),
    ];
    for (draft, expected) in table {
        assert_eq!(problems(draft), [expected]);
    }
}

#[test]
fn listed_document_types_are_the_only_ones() {
    let listed = config::Policy { document_types: vec!["INVOICE".into(), "REMINDER".into()], ..settings() };
    let typed = |document_type: &str| Draft { document_type: document_type.into(), ..draft() };
    assert_eq!(problems_under(&listed, typed("REMINDER")), [""; 0]);
    let table = [
        ("", "email.document_type is required; there are 2 document types in the settings"),
        (
            "CONTRACT",
            "email.document_type is not one that the settings allow; there are 2 document types in the settings",
        ),
    ];
    for (given, expected) in table {
        assert_eq!(problems_under(&listed, typed(given)), [expected]);
        assert_eq!(problems_under(&settings(), typed(given)), [""; 0]);
    }
}

#[test]
fn attachments_are_refused_with_the_reason() {
    let with = |attachments: Vec<DraftAttachment>| Draft { attachments, ..draft() };
    let typed = |content_type: &str| DraftAttachment { content_type: content_type.into(), ..file("a.txt", b"x") };
    let a_path = "email.attachments[0].filename is a path; only a name is allowed, without \"/\" and \"\\\"";
    let id_alphabet = "email.attachments[0].content_id is not made of at most 128 ASCII letters, digits and the marks of \
                       an address, without angle brackets";
    let executable = b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0";
    let table = [
        (with(vec![file("a.txt", b"x"); 51]), "email.attachments has 51 attachments; the limit is 50"),
        (with(vec![file("", b"x")]), "email.attachments[0].filename is empty"),
        (with(vec![file("a.txt", b"x"), file("b.txt", b"")]), "email.attachments[1].content is empty"),
        (with(vec![file("../a.txt", b"x")]), a_path),
        (with(vec![file("a\\b.txt", b"x")]), a_path),
        (with(vec![file("..", b"x")]), a_path),
        (with(vec![file(".", b"x")]), a_path),
        (with(vec![file(&"n".repeat(256), b"x")]), "email.attachments[0].filename has 256 bytes; the limit is 255"),
        (
            with(vec![file("a\r\n.txt", b"x")]),
            "email.attachments[0].filename has a control character, such as a line end or a tab",
        ),
        (
            with(vec![file("a\u{202e}txt.pdf", b"x")]),
            "email.attachments[0].filename has a character that changes the direction of text",
        ),
        (with(vec![image("<a@b>")]), id_alphabet),
        (with(vec![image("a b")]), id_alphabet),
        (with(vec![image(&"i".repeat(129))]), id_alphabet),
        (with(vec![image("a"), image("a")]), "email.attachments[1].content_id is that of another attachment too"),
        (
            with(vec![typed("text")]),
            "email.attachments[0].content_type is not a media type of the form type/subtype; attribute=value",
        ),
        (
            with(vec![typed("message/rfc822")]),
            "email.attachments[0].content_type is of the kind message or multipart, which cannot be attached",
        ),
        (
            with(vec![typed("text/html")]),
            "email.attachments[0].content_type is not among the attachment types that the settings allow",
        ),
        (
            with(vec![file("invoice.pdf", executable)]),
            "email.attachments[0].content is found to be application/vnd.microsoft.portable-executable, which is not \
             among the attachment types that the settings allow",
        ),
        (
            with(vec![file("invoice.pdf.exe", b"x")]),
            "email.attachments[0].filename ends in \".exe\", by which it may be run as a program",
        ),
    ];
    for (draft, expected) in table {
        assert_eq!(problems(draft), [expected]);
    }
}

#[test]
fn a_message_that_is_too_large_is_refused_as_a_whole() {
    let small = config::Policy { max_message_bytes: 10, ..settings() };
    let of = |text: &str, html: &str, content| {
        let attachments = vec![file("a.txt", content)];
        Draft { text: text.into(), html: html.into(), attachments, ..draft() }
    };
    assert_eq!(problems_under(&small, of("12345", "123", b"12")), [""; 0]);
    let expected = "email has 11 bytes in bodies and attachments; the limit is 10";
    assert_eq!(problems_under(&small, of("12345", "123", b"123")), [expected]);
}

#[test]
fn all_that_is_wrong_is_said_at_once_in_the_order_of_the_fields() {
    let wrong = Draft {
        from: None,
        to: vec![mailbox("a")],
        subject: "\n".into(),
        attachments: vec![file("", b"")],
        headers: vec![header("To", "\n")],
        document_type: "x".into(),
        ..Default::default()
    };
    let found = Policy::new(&settings()).admit(wrong).expect_err("is wrong");
    let fields: Vec<_> = found.iter().map(|v| v.field.as_str()).collect();
    let expected = [
        "email.from",
        "email.to[0].address",
        "email.subject",
        "email.text",
        "email.attachments[0].filename",
        "email.attachments[0].content",
        "email.headers[0].name",
        "email.headers[0].value",
        "email.document_type",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn a_list_of_violations_without_end_is_cut_and_says_so() {
    let many = config::Policy { max_recipients: 1_500, ..settings() };
    let to = (0..1_500).map(|_| mailbox("nobody")).collect();
    let found = problems_under(&many, Draft { to, ..draft() });
    assert_eq!(found.len(), 1_001);
    assert_eq!(found[1_000], "email has 500 more violations, which are not listed");
}

#[test]
fn no_violation_repeats_what_the_caller_wrote() {
    let secret = "s3cret\n";
    let wrong = Draft {
        from: Some(DraftMailbox { address: secret.into(), name: secret.into() }),
        to: vec![DraftMailbox { address: secret.into(), name: secret.into() }],
        subject: secret.into(),
        attachments: vec![DraftAttachment {
            filename: secret.into(),
            content_type: secret.into(),
            content: Bytes::from_static(b"#!s3cret"),
            content_id: secret.into(),
        }],
        headers: vec![header(secret, secret)],
        tags: vec![secret.into()],
        metadata: BTreeMap::from([(secret.into(), secret.into())]),
        document_type: secret.into(),
        ..draft()
    };
    let found = problems(wrong);
    assert!(found.len() >= 14 && !found.concat().contains("s3cret"), "{found:?}");
    assert!(!format!("{:?}", draft()).contains("ann"));
}
