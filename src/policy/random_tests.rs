//! Random drafts: nothing panics, and what is admitted can be sent.
//!
//! Owns no rule: what each rule refuses is in the tables of tests beside it.

use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Draft, DraftAttachment, DraftHeader, DraftMailbox, Policy};
use crate::{
    config,
    message::{ClientId, Message, MessageId, Priority, TraceContext, UnknownOutcome, mime},
};

fn address(address: &str) -> DraftMailbox {
    DraftMailbox { address: address.to_owned(), name: String::new() }
}

/// Random text of what texts are made of and of what breaks them.
fn random_text(rng: &mut StdRng) -> String {
    const PIECES: [&str; 24] = [
        "a",
        "@",
        ".",
        "example.com",
        "\"",
        "\\",
        " ",
        "\r\n",
        "\0",
        "\u{202e}",
        "я",
        "𝒳",
        "e\u{301}",
        "xn--",
        "-",
        "[",
        "/",
        ";",
        "=",
        "exe",
        "text",
        "<",
        ":",
        "\u{200d}",
    ];
    (0..rng.random_range(0..8)).map(|_| PIECES[rng.random_range(0..PIECES.len())]).collect()
}

/// Random bytes, of which half begin like a file of some form.
fn random_content(rng: &mut StdRng) -> Bytes {
    const STARTS: [&[u8]; 10] = [
        b"",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0\0\0\0\0\0\0",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        b"\xff\xfe",
        b"<",
        b"%PDF-",
        b"RIFF",
        b"\x7fELF",
    ];
    let mut content = STARTS[rng.random_range(0..STARTS.len())].to_vec();
    let mut rest = vec![0; rng.random_range(0..64)];
    rng.fill(&mut rest[..]);
    content.extend(rest);
    content.extend(STARTS[rng.random_range(0..STARTS.len())]);
    content.into()
}

fn random_draft(rng: &mut StdRng) -> Draft {
    let mailboxes = |rng: &mut StdRng| -> Vec<DraftMailbox> {
        let one = |rng: &mut StdRng| DraftMailbox { address: random_text(rng), name: random_text(rng) };
        let mut list: Vec<_> = (0..rng.random_range(0..2)).map(|_| one(rng)).collect();
        list.extend((0..rng.random_range(0..2)).map(|n| address(&format!("a{n}@example.com"))));
        list
    };
    let file = |rng: &mut StdRng| DraftAttachment {
        filename: random_text(rng),
        content_type: if rng.random_range(0..2) == 0 { String::new() } else { random_text(rng) },
        content: random_content(rng),
        content_id: if rng.random_range(0..2) == 0 { String::new() } else { random_text(rng) },
    };
    let header = |rng: &mut StdRng| DraftHeader { name: random_text(rng), value: random_text(rng) };
    Draft {
        from: Some(mailboxes(rng).pop().unwrap_or_else(|| address("shop@shop.example"))),
        to: mailboxes(rng),
        cc: mailboxes(rng),
        subject: random_text(rng),
        text: random_text(rng),
        html: random_text(rng),
        attachments: (0..rng.random_range(0..2)).map(|_| file(rng)).collect(),
        headers: (0..rng.random_range(0..2)).map(|_| header(rng)).collect(),
        document_type: String::new(),
        ..Default::default()
    }
}

#[test]
fn whatever_is_admitted_has_a_mime_form_and_nothing_panics() {
    let mut rng = StdRng::seed_from_u64(11);
    let everything = ["*/*", "application/octet-stream"].map(str::to_owned).to_vec();
    let policies = [config::Policy::default(), config::Policy { attachment_types: everything, ..Default::default() }]
        .map(|s| Policy::new(&s));
    let mut admitted = 0;
    for round in 0..20_000 {
        let Ok(email) = policies[round % 2].admit(random_draft(&mut rng)) else { continue };
        admitted += 1;
        let accepted_at = time::macros::datetime!(2026-12-01 12:00 UTC);
        let message = Message {
            id: MessageId::new_at(accepted_at),
            client: ClientId::new("c"),
            accepted_at,
            correlation_id: String::new(),
            trace: TraceContext::default(),
            priority: Priority::Normal,
            unknown_outcome: UnknownOutcome::Resend,
            email,
        };
        mime::render(&message).expect("what is admitted can be rendered");
    }
    assert!(admitted > 200, "only {admitted} of 20,000 were in order: the test tests little");
}
