//! What must never get in, sent to a running `postrider serve` over real gRPC and proven against its database.
//!
//! The rules themselves are tested beside the code. Here each kind of bad input must come back as INVALID_ARGUMENT with
//! the field named, leave no row, and hurt nothing.

mod attachments;
mod wire;

use std::time::{Duration, SystemTime};

use postrider::proto::v1::{Attachment, Email, Header, Mailbox, SendEmailRequest};
use prost_types::Timestamp;
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::support::program::{NOBODY, Program};

type Client = postrider::proto::v1::email_service_client::EmailServiceClient<Channel>;

/// The key that every bad request bears: afterwards it must be new.
const KEY: &str = "invoice-4711";

/// A request, what is wrong with it, and the fields that must be named.
struct Case {
    what: String,
    request: SendEmailRequest,
    fields: Vec<String>,
}

/// A good request made bad.
fn case(what: impl Into<String>, fields: &[&str], spoil: impl FnOnce(&mut SendEmailRequest, &mut Email)) -> Case {
    let mut request = SendEmailRequest { idempotency_key: KEY.into(), ..Default::default() };
    let mut email = email();
    spoil(&mut request, &mut email);
    request.email = Some(email);
    Case { what: what.into(), request, fields: fields.iter().map(ToString::to_string).collect() }
}

fn email() -> Email {
    Email {
        from: Some(mailbox("billing@shop.example")),
        to: vec![mailbox("anna@example.com")],
        subject: "Invoice".into(),
        text: "Enclosed.".into(),
        ..Default::default()
    }
}

fn mailbox(address: &str) -> Mailbox {
    Mailbox { address: address.into(), name: String::new() }
}

fn named(name: &str) -> Mailbox {
    Mailbox { address: "anna@example.com".into(), name: name.into() }
}

fn file(filename: &str, content: &[u8]) -> Attachment {
    Attachment { filename: filename.into(), content: content.to_vec().into(), ..Default::default() }
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: value.into() }
}

async fn client(program: &Program) -> Client {
    Client::connect(program.address.clone()).await.expect("it listens")
}

/// The fields that a refusal names; what is wrong with each is said.
#[track_caller]
fn wrong_fields(status: &Status, what: &str) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
    let details = status.get_error_details();
    assert_eq!(details.error_info().expect("ErrorInfo").reason, "INVALID_REQUEST", "{what}");
    let violations = &details.bad_request().expect("BadRequest").field_violations;
    assert!(violations.iter().all(|violation| !violation.description.is_empty()), "{what}: {violations:?}");
    let mut fields: Vec<String> = violations.iter().map(|violation| violation.field.clone()).collect();
    fields.sort();
    fields.dedup();
    fields
}

/// Sends each to one service: refused by its fields, and no row. Then a good one under the same key gets in.
async fn refuse(cases: Vec<Case>) {
    let program = Program::serve(NOBODY).await;
    let mut client = client(&program).await;
    assert!(!cases.is_empty());
    for Case { what, request, mut fields } in cases {
        fields.sort();
        let refused = client.send_email(request).await;
        let status = refused.map(|answer| panic!("{what} got in: {answer:?}")).unwrap_err();
        assert_eq!(wrong_fields(&status, &what), fields, "{what}");
        assert_eq!(program.stored().await, [0; 4], "{what} left something behind");
    }
    goes_on(&program, &mut client).await;
    program.stop().await;
}

/// The service takes a good request, for which the key is new.
async fn goes_on(program: &Program, client: &mut Client) {
    let good = case("good", &[], |_, _| {}).request;
    let answer = client.send_email(good).await.expect("the service goes on").into_inner();
    assert!(!answer.deduplicated, "a refused request used the key up");
    let [messages, pending, _, keys] = program.stored().await;
    assert_eq!([messages, pending, keys], [1, 1, 1]);
}

#[tokio::test]
async fn bad_addresses() {
    let bad = [
        "",
        "nobody",
        "@example.com",
        "anna@",
        "anna@@example.com",
        "anna petrova@example.com",
        "<anna@example.com>",
        "anna@example.com, mallory@evil.example",
        "anna@example.com\r\nBcc: mallory@evil.example",
        "anna\0@example.com",
        "anna@example\0.com",
        "anna@-example.com",
        "anna@ex_ample.com",
        "anna@example..com",
        "anna@[999.1.1.1]",
        "anna@exam\u{200b}ple.com",
        "anna@example.com ",
    ];
    let long = format!("{}@example.com", "a".repeat(10_000));
    let mut cases: Vec<Case> = bad
        .into_iter()
        .chain([long.as_str()])
        .map(|address| case(format!("{address:.40?}"), &["email.to[0].address"], |_, e| e.to = vec![mailbox(address)]))
        .collect();
    cases.extend([
        case("from", &["email.from.address"], |_, e| e.from = Some(mailbox("nobody"))),
        case("cc", &["email.cc[1].address"], |_, e| e.cc = vec![mailbox("boris@example.com"), mailbox("nobody")]),
        case("bcc", &["email.bcc[0].address"], |_, e| e.bcc = vec![mailbox("nobody")]),
        case("reply_to", &["email.reply_to[0].address"], |_, e| e.reply_to = vec![mailbox("nobody")]),
        case("no sender", &["email.from"], |_, e| e.from = None),
        case("no recipients", &["email.to"], |_, e| e.to.clear()),
        case("a recipient twice", &["email.bcc[0].address"], |_, e| e.bcc = vec![mailbox("Anna@example.com")]),
        case("101 recipients", &["email.to"], |_, e| e.to = recipients(101)),
        case("100,000 recipients", &["email.to"], |_, e| e.bcc = recipients(100_000)),
    ]);
    refuse(cases).await;
}

fn recipients(count: usize) -> Vec<Mailbox> {
    (0..count).map(|n| mailbox(&format!("reader{n}@example.com"))).collect()
}

#[tokio::test]
async fn line_ends_and_other_control_characters() {
    let ends = ["\r\nBcc: mallory@evil.example", "\n", "\r", "\0", "\t", "\u{85}", "\u{2028}", "\u{7f}"];
    let cases = ends.iter().flat_map(|end| {
        let bad = format!("one{end}two");
        let what = format!("{end:?}");
        [
            case(format!("{what} in the sender's name"), &["email.from.name"], |_, e| e.from = Some(named(&bad))),
            case(format!("{what} in a name"), &["email.to[0].name"], |_, e| e.to = vec![named(&bad)]),
            case(format!("{what} in a reply name"), &["email.reply_to[0].name"], |_, e| e.reply_to = vec![named(&bad)]),
            case(format!("{what} in the subject"), &["email.subject"], |_, e| e.subject = bad.clone()),
            case(format!("{what} in a header"), &["email.headers[0].value"], |_, e| {
                e.headers = vec![header("X-Order", &bad)];
            }),
            case(format!("{what} in a header's name"), &["email.headers[0].name"], |_, e| {
                e.headers = vec![header(&bad, "4711")];
            }),
            case(format!("{what} in a file name"), &["email.attachments[0].filename"], |_, e| {
                e.attachments = vec![file(&format!("{bad}.txt"), b"text")];
            }),
            case(format!("{what} in a content id"), &["email.attachments[0].content_id"], |_, e| {
                e.attachments = vec![Attachment { content_id: bad.clone(), ..file("a.txt", b"text") }];
            }),
            case(format!("{what} in a content type"), &["email.attachments[0].content_type"], |_, e| {
                let content_type = format!("text/plain; name=\"{bad}\"");
                e.attachments = vec![Attachment { content_type, ..file("a.txt", b"text") }];
            }),
            case(format!("{what} in a tag"), &["email.tags[0]"], |_, e| e.tags = vec![bad.clone()]),
            case(format!("{what} in metadata"), &["email.metadata[\"order\"]"], |_, e| {
                e.metadata.insert("order".into(), bad.clone());
            }),
            case(format!("{what} in a metadata key"), &["email.metadata"], |_, e| {
                e.metadata.insert(bad.clone(), "4711".into());
            }),
            case(format!("{what} in the document type"), &["email.document_type"], |_, e| {
                e.document_type = bad.clone();
            }),
            case(format!("{what} in the correlation id"), &["correlation_id"], |r, _| r.correlation_id = bad.clone()),
            case(format!("{what} in the key"), &["idempotency_key"], |r, _| r.idempotency_key = bad.clone()),
        ]
    });
    refuse(cases.collect()).await;
}

#[tokio::test]
async fn too_long_too_many_too_far_and_unknown() {
    let ahead = |days: u64| Some(Timestamp::from(SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60)));
    let long = "s".repeat(10_000);
    refuse(vec![
        case("a subject of 10,000 characters", &["email.subject"], |_, e| e.subject = long.clone()),
        case("a subject of 10,000 Cyrillic letters", &["email.subject"], |_, e| e.subject = "ы".repeat(10_000)),
        case("a long name", &["email.to[0].name"], |_, e| e.to = vec![named(&long)]),
        case("a long header", &["email.headers[0].value"], |_, e| e.headers = vec![header("X-Order", &long)]),
        case("a header of ours", &["email.headers[0].name"], |_, e| e.headers = vec![header("bcc", "a@b.example")]),
        case("1,000 headers", &["email.headers"], |_, e| e.headers = vec![header("X-Order", "1"); 1_000]),
        case("nothing to read", &["email.text"], |_, e| e.text.clear()),
        case("30 MB", &["email"], |_, e| e.attachments = vec![file("a.txt", &vec![b'a'; 30 * 1024 * 1024])]),
        case("51 attachments", &["email.attachments"], |_, e| e.attachments = vec![file("a.txt", b"text"); 51]),
        case("a key of 256 bytes", &["idempotency_key"], |r, _| r.idempotency_key = "k".repeat(256)),
        case("a key of 256 bytes in 128 letters", &["idempotency_key"], |r, _| r.idempotency_key = "ы".repeat(128)),
        case("a long correlation id", &["correlation_id"], |r, _| r.correlation_id = "c".repeat(129)),
        case("sent in 31 days", &["send_at"], |r, _| r.send_at = ahead(31)),
        case("a time that is none", &["send_at"], |r, _| r.send_at = Some(Timestamp { seconds: 0, nanos: -1 })),
        case("the end of time", &["send_at"], |r, _| r.send_at = Some(Timestamp { seconds: i64::MAX, nanos: 0 })),
        case("expired", &["expire_at"], |r, _| r.expire_at = Some(Timestamp { seconds: 1_000_000_000, nanos: 0 })),
        case("expired before it is sent", &["expire_at"], |r, _| {
            (r.send_at, r.expire_at) = (ahead(2), ahead(1));
        }),
        case("a priority nobody knows", &["priority"], |r, _| r.priority = 77),
        case("a negative priority", &["priority"], |r, _| r.priority = i32::MIN),
        case("a policy nobody knows", &["unknown_outcome_policy"], |r, _| r.unknown_outcome_policy = 3),
        case("only to be checked", &["email.subject"], |r, e| {
            (r.validate_only, e.subject) = (true, "\n".into());
        }),
    ])
    .await;
}

#[tokio::test]
async fn all_that_is_wrong_is_named_at_once() {
    let fields = [
        "correlation_id",
        "email.attachments[0].content",
        "email.attachments[1].filename",
        "email.bcc[0].address",
        "email.from",
        "email.headers[0].name",
        "email.headers[1].value",
        "email.subject",
        "email.tags[0]",
        "email.to[0].name",
        "expire_at",
        "idempotency_key",
        "priority",
        "send_at",
        "unknown_outcome_policy",
    ];
    let everything = case("everything", &fields, |r, e| {
        r.idempotency_key = "k".repeat(256);
        r.correlation_id = "\n".into();
        r.send_at = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
        r.expire_at = Some(Timestamp { seconds: 1, nanos: 0 });
        (r.priority, r.unknown_outcome_policy) = (77, 77);
        e.from = None;
        e.to = vec![named("\r\n")];
        e.bcc = vec![mailbox("nobody")];
        e.subject = "s".repeat(10_000);
        e.headers = vec![header("Bcc", "x"), header("X-Order", "\r\n")];
        e.tags = vec!["\0".into()];
        e.attachments = vec![file("invoice.pdf", attachments::WINDOWS_PROGRAM), file("a\nb.txt", b"text")];
    });
    refuse(vec![everything]).await;
}

#[tokio::test]
async fn clients_that_nobody_can_be_called() {
    let program = Program::serve(NOBODY).await;
    let mut client = client(&program).await;
    for name in ["", "two words", "shop/../billing", "shop;drop table message", &"s".repeat(65)] {
        let mut request = Request::new(case("good", &[], |_, _| {}).request);
        request.metadata_mut().insert("x-client-id", name.parse().expect("a header value"));
        let status = client.send_email(request).await.expect_err(name);
        assert_eq!(wrong_fields(&status, name), ["x-client-id"]);
        assert_eq!(program.stored().await, [0; 4], "{name}");
    }
    goes_on(&program, &mut client).await;
    program.stop().await;
}
