//! `postrider send`.

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::sandbox::http::{Fault, HttpSink};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{EMAIL, service};
use crate::support::program::{Program, postrider, run, run_with_input};

const PDF: &[u8] = b"%PDF-1.7\n\0\xff\r\n.\r\n%%EOF";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// The only mail that arrived, without what is different each time.
fn arrived(gateway: &HttpSink) -> Value {
    let mails = gateway.inbox().all();
    assert_eq!(mails.len(), 1);
    let mut mail: Value = serde_json::from_slice(mails[0].content.bytes().expect("it is kept")).expect("JSON");
    for name in ["message_id", "internet_message_id", "date", "recipients"] {
        assert!(mail.as_object_mut().expect("an object").remove(name).is_some(), "{name} is missing");
    }
    mail
}

/// The email that is sent by options and by a file, as it arrives.
fn invoice() -> Value {
    json!({
        "from": { "address": "billing@shop.example", "name": "Магазин" },
        "to": [{ "address": "anna@example.com", "name": "Петрова, Анна" }, { "address": "boris@example.com" }],
        "cc": [{ "address": "vera@example.com" }],
        "bcc": [{ "address": "archive@shop.example" }],
        "reply_to": [{ "address": "help@shop.example" }],
        "subject": "Счёт",
        "text": "Во вложении.\n",
        "html": "<img src=\"cid:logo\">",
        "headers": [{ "name": "X-Order", "value": "4711: a" }],
        "attachments": [
            {
                "filename": "Счёт.pdf",
                "content_type": "application/pdf",
                "content": BASE64_STANDARD.encode(PDF),
                "disposition": "attachment",
            },
            {
                "filename": "logo.png",
                "content_type": "image/png",
                "content": BASE64_STANDARD.encode(PNG),
                "disposition": "inline",
                "content_id": "logo",
            },
        ],
        "tags": ["invoice"],
        "metadata": {},
        "document_type": "INVOICE",
    })
}

fn write_files(program: &Program) {
    program.place.write("Счёт.pdf", PDF);
    program.place.write("logo.png", PNG);
}

#[tokio::test]
async fn an_email_is_made_of_options() {
    let (gateway, program) = service().await;
    write_files(&program);
    #[rustfmt::skip]
    let said = program.run([
        "send", "--from", "Магазин <billing@shop.example>", "--to", "\"Петрова, Анна\" <anna@example.com>",
        "--to", "boris@example.com", "--cc", "vera@example.com", "--bcc", "<archive@shop.example>",
        "--reply-to", "help@shop.example", "--subject", "Счёт", "--text", "Во вложении.\n",
        "--html", "<img src=\"cid:logo\">", "--header", "X-Order: 4711: a", "--attach", "Счёт.pdf",
        "--inline", "logo=logo.png", "--tag", "invoice", "--document-type", "INVOICE",
        "--correlation-id", "order 4711", "--priority", "high", "--hold", "--client", "shop", "--wait",
    ]).await;
    let id = said.well().split(' ').next().and_then(|id| Uuid::parse_str(id).ok());
    assert!(id.is_some() && said.out.contains("SUCCESS_SENT"), "{said:?}");
    assert_eq!(arrived(&gateway), invoice());
    let kept: String = program
        .database()
        .scalar("select concat_ws(' ', client, priority, unknown_outcome, correlation_id) from message")
        .await;
    assert_eq!(kept, "shop HIGH HOLD order 4711");
    program.stop().await;
}

#[tokio::test]
async fn an_email_is_read_from_a_json_file() {
    let (gateway, program) = service().await;
    write_files(&program);
    let mut email = invoice();
    email["attachments"] = json!([
        { "path": "Счёт.pdf" },
        { "filename": "logo.png", "content": BASE64_STANDARD.encode(PNG), "content_id": "logo" },
    ]);
    email["metadata"] = json!({ "order": "4711" });
    let request = json!({
        "idempotency_key": "invoice-4711", "email": email, "priority": "PRIORITY_BULK", "unknown_outcome_policy": "HOLD",
        "send_at": "2026-01-01T00:00:00Z", "expire_at": "2100-01-01T00:00:00+01:00", "correlation_id": "order 4711",
    });
    // Elsewhere than where the command runs: paths are seen from the file.
    let file = program.place.write("request.json", request.to_string());
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut command = program.postrider(["send", "--output-json", "--wait", "--json"]);
    command.arg(&file).current_dir(elsewhere.path());
    let said = run(command).await;
    let lines: Vec<Value> = said.well().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{said:?}");
    assert_eq!(lines[0]["deduplicated"], false);
    assert_eq!((&lines[1]["message_id"], &lines[1]["status"]), (&lines[0]["message_id"], &json!("SUCCESS_SENT")));
    let mut expected = invoice();
    expected["metadata"] = json!({ "order": "4711" });
    assert_eq!(arrived(&gateway), expected);

    // The same from standard input, with paths seen from the working directory: the same message.
    let again = run_with_input(program.postrider(["send", "--json", "-"]), request.to_string().as_bytes()).await;
    assert!(again.well().ends_with("SUCCESS_SENT (accepted before under this key)\n"), "{again:?}");
    program.stop().await;
}

#[tokio::test]
async fn the_same_key_is_the_same_message_and_another_request_is_refused() {
    let (_gateway, program) = service().await;
    let keyed = |text: &'static str| [&EMAIL[..], &["--key", "invoice-4711", "--subject", text]].concat();
    let first = program.run(keyed("one")).await;
    let second = program.run(keyed("one")).await;
    assert_eq!(first.well().split(' ').next(), second.well().split(' ').next());
    assert!(second.out.ends_with(" (accepted before under this key)\n"), "{second:?}");
    let third = program.run(keyed("two")).await;
    assert_eq!((third.code, third.out.as_str()), (5, ""), "{third:?}");
    assert!(third.err.starts_with("postrider: AlreadyExists: "), "{third:?}");
    assert_eq!(program.database().count("message").await, 1);
    program.stop().await;
}

#[tokio::test]
async fn what_is_only_checked_is_not_stored() {
    let (gateway, program) = service().await;
    let said = program.run([&EMAIL[..], &["--validate-only", "--wait"]].concat()).await;
    assert_eq!(said.well(), "valid; nothing was stored\n");
    let request = json!({
        "email": { "from": { "address": "a@shop.example" }, "to": [{ "address": "b@example.com" }], "text": "x" },
        "validate_only": true,
    });
    program.place.write("request.json", request.to_string());
    let said = program.run(["send", "--json", "request.json", "--wait"]).await;
    assert_eq!(said.well(), "valid; nothing was stored\n");
    assert_eq!((program.stored().await, gateway.inbox().count()), ([0; 4], 0));
    program.stop().await;
}

#[tokio::test]
async fn waiting_ends_with_the_code_of_what_became_of_the_message() {
    let (gateway, program) = service().await;
    let send = |more: &'static [&'static str]| program.run([&EMAIL[..], more].concat());
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).expect("a fault");
    let waiting = send(&["--wait", "0"]).await;
    assert_eq!(waiting.code, 10, "{waiting:?}");
    let soon = time::OffsetDateTime::now_utc() + time::Duration::SECOND;
    let soon = soon.format(&time::format_description::well_known::Rfc3339).expect("a time");
    let expired = program.run([&EMAIL[..], &["--expire-at", &soon, "--wait"]].concat()).await;
    assert_eq!(expired.code, 12, "{expired:?}");
    assert!(expired.out.contains("  EXPIRED\n"), "{expired:?}");

    gateway.set_fault("reject:*".parse().expect("a fault")).expect("a fault");
    let failed = send(&["--wait", "--subject", "two"]).await;
    assert_eq!(failed.code, 11, "{failed:?}");
    assert!(failed.out.contains("FAILED_NOT_RETRYABLE") && failed.out.contains("550 5.1.1"), "{failed:?}");
    gateway.set_fault(Fault::None).expect("no fault");
    let sent = send(&["--wait"]).await;
    assert!(sent.well().contains("SUCCESS_SENT"), "{sent:?}");
    program.stop().await;
}

#[tokio::test]
async fn a_refusal_names_what_is_wrong() {
    let (_gateway, program) = service().await;
    let said = program.run(["send", "--from", "billing@shop.example", "--to", "nobody", "--subject", "a\nb"]).await;
    assert_eq!((said.code, said.out.as_str()), (5, ""));
    for line in ["\n  email.to[0].address: ", "\n  email.subject: ", "\n  email.text: "] {
        assert!(said.err.contains(line), "{line:?} is not in {}", said.err);
    }
    assert_eq!(program.stored().await, [0; 4]);
    program.stop().await;
}

#[tokio::test]
async fn sixty_megabytes_are_refused_with_the_limit() {
    let (_gateway, program) = service().await;
    program.place.write("large.txt", vec![b'a'; 60 * 1024 * 1024]);
    let said = program.run([&EMAIL[..], &["--attach", "large.txt", "--key", "large"]].concat()).await;
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("larger than the limit of 41943040 bytes"), "{said:?}");
    assert_eq!(program.stored().await, [0; 4]);
    program.run(EMAIL).await.well();
    program.stop().await;
}

#[tokio::test]
async fn wrong_arguments_and_files_exit_with_2_and_say_which() {
    let place = tempfile::tempdir().expect("a folder");
    for (name, content) in
        [("broken.json", "{"), ("unknown.json", "{\"emial\": {}}"), ("word.json", "{\"priority\": \"SOON\"}")]
    {
        std::fs::write(place.path().join(name), content).expect("it is written");
    }
    std::fs::write(place.path().join("both.json"), r#"{"email": {"attachments": [{"filename": "a"}]}}"#)
        .expect("it is written");
    let table: [(&[&str], &str); 14] = [
        (&["send", "--nonsense"], "--nonsense"),
        (&["send", "--json", "broken.json"], "broken.json: EOF while parsing"),
        (&["send", "--json", "unknown.json"], "unknown field `emial`"),
        (&["send", "--json", "word.json"], "\"SOON\" is none of HIGH, NORMAL, BULK"),
        (&["send", "--json", "both.json"], "attachment \"a\": either content (base64) or path is needed"),
        (&["send", "--json", "missing.json"], "cannot read missing.json"),
        (&["send", "--eml", "missing.eml"], "cannot read missing.eml"),
        (&["send", "--json", "a", "--eml", "b"], "cannot be used with"),
        (&["send", "--attach", "missing.pdf"], "cannot read missing.pdf"),
        (&["send", "--inline", "logo.png"], "--inline: expected ID=FILE"),
        (&["send", "--header", "X-Order"], "--header: expected \"Name: value\""),
        (&["send", "--send-at", "tomorrow"], "--send-at: \"tomorrow\" is not a time like"),
        (&["send", "--wait", "18446744073709551615"], "is not in 0..=86400"),
        (&["status", "--address", "not a url", "x"], "--address: \"not a url\" is not a URL"),
    ];
    for (arguments, expected) in table {
        let mut command = postrider(arguments);
        command.current_dir(place.path());
        let said = run(command).await;
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}: {said:?}");
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_worth_another_try() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let address = format!("http://{free}");
    for arguments in [&EMAIL[..], &["status", "01a231ab-bfb8-7e39-84bf-7aabb408eade"]] {
        let said = run(postrider([arguments, &["--address", &address]].concat())).await;
        assert_eq!((said.code, said.out.as_str()), (3, ""), "{said:?}");
        assert!(said.err.contains(&format!("no service at {address}")), "{said:?}");
        assert!(!said.err.contains("may have been accepted"), "it cannot have been: {said:?}");
    }
}

#[tokio::test]
async fn an_answer_that_did_not_come_may_be_an_acceptance() {
    // Accepts connections, speaks no HTTP/2.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let arguments = [&EMAIL[..], &["--address", &address, "--timeout", "1"]].concat();
    let without_key = run(postrider(&arguments)).await;
    assert_eq!(without_key.code, 3, "{without_key:?}");
    assert!(without_key.err.contains("sent again without --key it could be two messages"), "{without_key:?}");
    let with_key = run(postrider([&arguments[..], &["--key", "k"]].concat())).await;
    assert_eq!(with_key.code, 3, "{with_key:?}");
    assert!(!with_key.err.contains("--key"), "{with_key:?}");
}
