//! What is rendered: the bytes as they are kept in `tests/golden`, and what a reader no one here wrote makes of them.
//!
//! After a change of bytes that is meant, rewrite the golden files and look at the difference:
//! `POSTRIDER_REWRITE_GOLDEN=1 cargo test --lib message::mime && git diff tests/golden`. Messages that are being sent
//! again while a new version is rolled out change their bytes with it.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use mail_parser::{Address, HeaderForm, MessageParser, MimeHeaders, PartType};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use time::macros::datetime;

use super::{MimeError, message_id_header, render};
use crate::message::{
    Attachment, ClientId, Email, EmailAddress, Header, Mailbox, Message, Priority, TraceContext, UnknownOutcome,
};

fn mailbox(address: &str, name: &str) -> Mailbox {
    let address = EmailAddress::parse(address).expect("the tests' addresses are valid");
    Mailbox { address, name: Some(name.to_owned()).filter(|n| !n.is_empty()) }
}

fn plain(text: &str) -> Email {
    Email {
        from: mailbox("billing@shop.example", ""),
        to: vec![mailbox("ann@example.com", "")],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: "Your order".to_owned(),
        text: Some(text.to_owned()),
        html: None,
        attachments: Vec::new(),
        headers: Vec::new(),
        tags: vec!["secret-tag".to_owned()],
        metadata: BTreeMap::from([("secret-key".to_owned(), "secret-value".to_owned())]),
        document_type: Some("INVOICE".to_owned()),
    }
}

fn file(filename: &str, content_type: &str, content: impl Into<Bytes>, id: Option<&str>) -> Attachment {
    let (filename, content_type) = (filename.to_owned(), content_type.to_owned());
    Attachment { filename, content_type, content: content.into(), content_id: id.map(str::to_owned) }
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.to_owned(), value: value.to_owned() }
}

fn message(email: Email) -> Message {
    Message {
        id: "019acf3e-1c5b-7a2b-8c3d-0123456789ab".parse().expect("is a UUIDv7"),
        client: ClientId::new("shop"),
        accepted_at: datetime!(2026-12-01 13:38:29.5 +02:00),
        correlation_id: "order-4711".to_owned(),
        trace: TraceContext::default(),
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email,
    }
}

fn everything() -> Email {
    Email {
        from: mailbox("rechnung@münchen.example", "Müller & Söhne"),
        to: vec![mailbox("ivan@example.com", "Иван Петров"), mailbox("ann@example.com", "Smith, \"Ann\" (Sales)")],
        cc: vec![mailbox("bob@example.com", "Bob Long Name"), mailbox("eve@example.com", "")],
        bcc: vec![mailbox("hidden@secret.example", "Hidden")],
        reply_to: vec![mailbox("help@shop.example", "Help"), mailbox("office@shop.example", "")],
        subject: "Счёт № 7 от магазина «Книги и всё остальное» за декабрь две тысячи двадцать шестого года".to_owned(),
        text: Some("Guten Tag, Herr Müller,\nanbei die Rechnung. \n.\n..\nFrom here on: 2 = 2\n".to_owned()),
        html: Some("<p>Здравствуйте!</p><img src=\"cid:logo@shop\">".to_owned()),
        attachments: vec![
            file("logo.png", "image/png", &b"\x89PNG\r\n\x1a\n not really"[..], Some("logo@shop")),
            file("счёт-фактура за декабрь 2026 года.pdf", "application/pdf", &b"%PDF-1.7\n.\r\n%\xe2\xe3\n"[..], None),
            file("rows \"1\".csv", "text/csv; charset=utf-8; header=present", &b"a;b\n1;2\n"[..], None),
        ],
        headers: vec![
            header(
                "List-Unsubscribe",
                "<mailto:unsubscribe@shop.example>, <https://shop.example/unsubscribe?list=7&who=abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz>",
            ),
            header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
            header("X-Note", "Привет, мир"),
        ],
        ..plain("")
    }
}

fn html_and_bcc_only() -> Email {
    let to = Vec::new();
    Email {
        to,
        bcc: vec![mailbox("hidden@secret.example", "")],
        html: Some("<p>Hi</p>".into()),
        text: None,
        ..plain("")
    }
}

#[test]
fn the_bytes_are_the_golden_ones() {
    let long_subject = "A subject of many words, all of them ASCII, ".repeat(22).trim_end().to_owned();
    let image = file("logo.gif", "image/gif", &b"GIF89a"[..], Some("logo"));
    let table = [
        ("plain", plain("Hello Ann,\r\nyour order is on its way.\r\n")),
        ("everything", everything()),
        ("html_and_bcc_only", html_and_bcc_only()),
        ("long_subject", Email { subject: long_subject, ..plain("…") }),
        ("smtputf8", Email { to: vec![mailbox("иван@почта.рф", "Иван")], ..plain("Привет") }),
        (
            "inline_image",
            Email { html: Some("<img src=\"cid:logo\">".into()), text: None, attachments: vec![image], ..plain("") },
        ),
    ];
    for (name, email) in table {
        let bytes = render(&message(email)).expect("can be rendered");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.eml"));
        if std::env::var_os("POSTRIDER_REWRITE_GOLDEN").is_some() {
            std::fs::write(&path, &bytes).expect("the golden file can be written");
        }
        let golden = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&golden), "{name}");
        assert_eq!(bytes, golden, "{name}");
    }
}

#[test]
fn a_message_renders_to_the_same_bytes_each_time() {
    let message = message(everything());
    assert_eq!(render(&message), render(&message.clone()));
}

#[test]
fn what_is_nobodys_business_is_not_in_the_message() {
    let bytes = render(&message(everything())).expect("can be rendered");
    let text = String::from_utf8(bytes).expect("is ASCII");
    for secret in ["hidden", "Hidden", "Bcc", "secret", "order-4711", "INVOICE"] {
        assert!(!text.contains(secret), "{secret} is in the message");
    }
}

#[test]
fn a_reader_no_one_here_wrote_finds_what_was_sent() {
    let awkward = Email {
        subject: "  =?utf-8?Q?not_a_word?=  two  spaces and\u{a0}more ".to_owned(),
        headers: vec![
            header("X-Spaces", " leading and trailing "),
            header("X-Long", &"x".repeat(2_000)),
            header("X-Tag", "first"),
            header("X-Tag", "second"),
            header(&format!("X-{}", "n".repeat(74)), &"Ünïcödé ".repeat(30)),
        ],
        attachments: vec![
            file("=?utf-8?Q?x?=.txt", "text/plain", &b"text"[..], None),
            file(&"я".repeat(127), "application/octet-stream", &b".\r\n.\n\r"[..], Some("shown-by-nothing")),
            file("a;b=c%20'd'.bin", "application/x-a; name=\"other\"; p=\"a;b \\\" c\"", vec![0; 1_000], None),
        ],
        ..plain("no line end, and a \0 and \r alone")
    };
    for email in [plain("Hello\n"), everything(), html_and_bcc_only(), awkward] {
        let message = message(email);
        assert_reads_back(&message);
    }
}

#[test]
fn a_control_character_in_a_header_is_refused() {
    let table: [(Email, MimeError); 7] = [
        (Email { subject: "a\r\nBcc: b@c.example".into(), ..plain("") }, MimeError::Control("the subject")),
        (Email { from: mailbox("a@b.example", "a\nb"), ..plain("") }, MimeError::Control("a display name")),
        (Email { headers: vec![header("X-A", "a\rb")], ..plain("") }, MimeError::Control("the value of a header")),
        (Email { headers: vec![header("X-A: b\r\nX-C", "d")], ..plain("") }, MimeError::HeaderName),
        (
            Email { attachments: vec![file("a\n", "a/b", "c", None)], ..plain("") },
            MimeError::Control("the name of an attachment"),
        ),
        (Email { attachments: vec![file("a", "a/b\r\n", "c", None)], ..plain("") }, MimeError::ContentType),
        (Email { attachments: vec![file("a", "message/rfc822", "c", None)], ..plain("") }, MimeError::ContentType),
    ];
    for (email, expected) in table {
        assert_eq!(render(&message(email)), Err(expected));
    }
}

/// Pieces of which random content is made: those that have broken mail before.
const PIECES: [&str; 20] = [
    ".",
    "\r\n.\r\n",
    "\n.\n",
    "\r",
    "\n",
    "\r\n",
    "\0",
    " ",
    "\t",
    "=",
    "From ",
    "--=_",
    "é",
    "я",
    "𝒳",
    "aaaaaaaaaaaaaaaaaa",
    "=?",
    "?=",
    "QUIT\r\n",
    "a",
];

fn random_text(rng: &mut StdRng, pieces: usize) -> String {
    (0..rng.random_range(0..=pieces)).map(|_| PIECES[rng.random_range(0..PIECES.len())]).collect()
}

fn random_line(rng: &mut StdRng, pieces: usize) -> String {
    random_text(rng, pieces).replace(|c: char| c.is_control(), "")
}

fn random_email(rng: &mut StdRng) -> Email {
    let files = (0..rng.random_range(0..3)).map(|n| {
        let mut content = vec![0; rng.random_range(0..300)];
        rng.fill(&mut content[..]);
        content.extend_from_slice(random_text(rng, 30).as_bytes());
        let id = rng.random_range(0..2).eq(&0).then(|| format!("id{n}"));
        file(&format!("n{}", random_line(rng, 60)), "application/octet-stream", content, id.as_deref())
    });
    let attachments = files.collect();
    let long = "x".repeat(rng.random_range(0..1_200));
    Email {
        from: mailbox("billing@shop.example", &random_line(rng, 20)),
        to: (0..rng.random_range(0..4)).map(|n| mailbox(&format!("to{n}@example.com"), &random_line(rng, 9))).collect(),
        subject: format!("{}{long}{}", random_line(rng, 40), random_line(rng, 40)),
        text: Some(random_text(rng, 200)),
        html: rng.random_range(0..2).eq(&0).then(|| random_text(rng, 200) + &long),
        headers: vec![header("X-Random", &format!("{long}{}", random_line(rng, 40)))],
        attachments,
        ..plain("")
    }
}

#[test]
fn no_content_breaks_out_of_the_message() {
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..500 {
        let message = message(random_email(&mut rng));
        assert_reads_back(&message);
    }
}

/// Checks what every rendered message must be, then reads it with mail-parser and compares.
fn assert_reads_back(message: &Message) {
    let email = &message.email;
    let bytes = render(message).expect("can be rendered");
    assert!(bytes.is_ascii(), "there is a byte beyond ASCII");
    assert!(bytes.ends_with(b"\r\n"));
    let text = String::from_utf8(bytes).expect("is ASCII");
    for line in text.strip_suffix("\r\n").expect("ends with a line end").split("\r\n") {
        assert!(!line.contains(['\r', '\n', '\0']), "a bare CR, LF or NUL: {line:?}");
        assert!(line.len() <= 998 && !line.starts_with('.') && !line.starts_with("From "), "{line:?}");
    }

    let read = MessageParser::default().parse(text.as_bytes()).expect("is a message");
    assert_eq!(read.message_id().map(|id| format!("<{id}>")), Some(message_id_header(message)));
    assert_eq!(read.date().map(|date| date.to_timestamp()), Some(message.accepted_at.unix_timestamp()));
    assert_eq!(read.subject().unwrap_or_default(), email.subject);
    assert_eq!(addresses(read.from()), expected(std::slice::from_ref(&email.from)));
    assert_eq!(addresses(read.to()), expected(&email.to));
    assert_eq!(addresses(read.cc()), expected(&email.cc));
    assert_eq!(addresses(read.reply_to()), expected(&email.reply_to));
    assert!(read.bcc().is_none());
    assert_headers(&read, &email.headers);
    assert_parts(&read, email);
}

fn addresses(header: Option<&Address<'_>>) -> Vec<(Option<String>, String)> {
    let each = header.into_iter().flat_map(Address::iter);
    each.filter_map(|a| Some((a.name().map(str::to_owned), a.address()?.to_owned()))).collect()
}

fn expected(mailboxes: &[Mailbox]) -> Vec<(Option<String>, String)> {
    mailboxes.iter().map(|m| (m.name.clone(), m.address.as_str().to_owned())).collect()
}

fn assert_headers(read: &mail_parser::Message<'_>, headers: &[Header]) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for header in headers {
        let nth = seen.entry(&header.name).or_default();
        let values = read.header_as(header.name.as_str(), HeaderForm::Text);
        let value = values.get(*nth).and_then(|v| v.as_text()).unwrap_or_default();
        assert_eq!(value, header.value, "{}", header.name);
        *nth += 1;
    }
}

fn assert_parts(read: &mail_parser::Message<'_>, email: &Email) {
    let normal = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
    let (files, bodies): (Vec<_>, Vec<_>) =
        read.parts.iter().filter(|p| !p.is_multipart()).partition(|p| p.content_disposition().is_some());
    // A body that is the whole message gets the line end that SMTP ends data with.
    let alone = |text: String| if read.parts.len() == 1 { text.trim_end_matches("\r\n").to_owned() } else { text };
    let found = bodies.iter().map(|p| alone(p.text_contents().unwrap_or_default().to_owned()));
    let sent = [&email.text, &email.html].into_iter().flatten().map(|t| alone(normal(t)));
    assert_eq!(found.collect::<Vec<_>>(), sent.collect::<Vec<_>>());

    let shown = |a: &&Attachment| email.html.is_some() && a.content_id.is_some();
    let order: Vec<_> =
        email.attachments.iter().filter(shown).chain(email.attachments.iter().filter(|a| !shown(a))).collect();
    assert_eq!(files.len(), order.len());
    for (file, sent) in files.into_iter().zip(order) {
        assert!(file.contents() == sent.content, "the bytes of {:?} differ", sent.filename);
        assert_eq!(file.attachment_name(), Some(sent.filename.as_str()));
        assert_eq!(file.content_id(), sent.content_id.as_deref());
        let read_type = file.content_type().expect("has a type");
        let essence = format!("{}/{}", read_type.ctype(), read_type.subtype().unwrap_or_default());
        assert!(sent.content_type.starts_with(&essence));
        assert_eq!(read_type.attribute("name"), Some(sent.filename.as_str()));
        let inline = file.content_disposition().is_some_and(|d| d.is_inline());
        assert_eq!(inline, shown(&sent));
        assert!(!matches!(file.body, PartType::Message(_)));
    }
}

#[test]
fn a_long_list_of_recipients_stays_within_the_lines_of_smtp() {
    let to = (0..1_000).map(|n| mailbox(&format!("customer{n}@example.com"), if n % 3 == 0 { "Dr. Ann" } else { "" }));
    assert_reads_back(&message(Email { to: to.collect(), ..plain("Hi") }));
}

#[test]
fn a_name_that_fits_a_line_is_not_cut_and_one_that_a_reader_would_decode_is_escaped() {
    let name = |filename: &str| {
        let email = Email { attachments: vec![file(filename, "a/b", "c", None)], ..plain("Hi") };
        let text = String::from_utf8(render(&message(email)).expect("can be rendered")).expect("is ASCII");
        let (_, disposition) = text.split_once("Content-Disposition: ").expect("has a disposition");
        disposition.split_once("\r\n\r\n").expect("has an end").0.to_owned()
    };
    let long = format!("{}.pdf", "invoice ".repeat(7));
    assert_eq!(name(&long), format!("attachment;\r\n filename=\"{long}\""));
    assert_eq!(name("=?x"), "attachment;\r\n filename*=utf-8''%3D%3F%78");
    assert_eq!(name("a\"b\\"), "attachment;\r\n filename*=utf-8''%61%22%62%5C");
    assert_eq!(name("счёт.pdf"), "attachment;\r\n filename*0*=utf-8''%D1%81%D1%87%D1%91%D1%82.pdf");
}

#[test]
fn a_value_for_a_provider_is_ascii_on_one_line_and_is_read_as_what_it_was() {
    for text in ["plain", "=?not a word", "zwei €", &"Привет, мир! ".repeat(40)] {
        let value = super::in_ascii(text);
        assert!(value.is_ascii() && !value.contains(['\r', '\n']), "{value}");
        let folded = value.replace("?= =?", "?=\r\n =?");
        let bytes = format!("X-A: {folded}\r\n\r\n");
        let read = MessageParser::default().parse(bytes.as_bytes()).expect("is a message");
        let found = read.header_as("X-A", HeaderForm::Text);
        assert_eq!(found[0].as_text().map(str::trim_end), Some(text.trim_end()));
    }
}
