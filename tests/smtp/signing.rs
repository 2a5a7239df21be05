//! DKIM signatures, held against Debian's python3-dkim.

use std::{collections::BTreeMap, path::Path, process::Stdio, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use postrider::{
    config::{Dkim, SmtpProvider as Settings, SmtpTls},
    delivery::{Class, ProviderName},
    message::{Attachment, Header, Mailbox},
    provider::{
        Provider, Submission,
        smtp::{SmtpProvider, SmtpSettingsError},
    },
};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::{message_from_to, provider, settings, smtp_peer::SmtpPeer, verdict};
use crate::support::{
    postfix::Postfix,
    program::run_with_input,
    python::{PYTHON, has_modules, repository},
};

/// Keys of both kinds for `shop.example`, and the records that publish them.
struct Keys {
    folder: TempDir,
    records: BTreeMap<String, String>,
}

impl Keys {
    async fn new() -> Option<Self> {
        if !has_modules(&[("dkim", "python3-dkim"), ("nacl", "python3-nacl")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut keys = Self { folder, records: BTreeMap::new() };
        keys.make("rsa", "rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], 0).await;
        // The raw key is what follows the 12 bytes that name the algorithm (RFC 8410, section 4).
        keys.make("ed", "ed25519", &["-algorithm", "ED25519"], 12).await;
        Some(keys)
    }

    async fn make(&mut self, selector: &str, kind: &str, options: &[&str], skipped: usize) {
        let file = self.file(selector);
        openssl(&[&["genpkey", "-out", file.to_str().unwrap()], options].concat()).await;
        let public = openssl(&["pkey", "-in", file.to_str().unwrap(), "-pubout", "-outform", "DER"]).await;
        let public = BASE64_STANDARD.encode(&public[skipped..]);
        let name = format!("{selector}._domainkey.shop.example.");
        self.records.insert(name, format!("v=DKIM1; k={kind}; p={public}"));
    }

    fn file(&self, selector: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{selector}.pem"))
    }

    fn settings(&self) -> BTreeMap<String, Dkim> {
        let dkim = |selector: &str| Dkim { key_file: self.file(selector), ..Dkim::new("shop.example", selector) };
        ["rsa", "ed"].into_iter().map(|selector| (selector.to_owned(), dkim(selector))).collect()
    }

    /// The selector of each signature of a message, and whether it holds.
    async fn verify(&self, content: &[u8]) -> Vec<(String, bool)> {
        let mut python = Command::new(PYTHON);
        python.arg(repository("tests/smtp/verify_dkim.py")).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
        python.stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = json!({ "message": BASE64_STANDARD.encode(content), "records": self.records }).to_string();
        let said = run_with_input(python, input.as_bytes()).await;
        serde_json::from_str(said.well()).unwrap()
    }
}

async fn openssl(arguments: &[&str]) -> Vec<u8> {
    let ended = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().await.expect("openssl runs");
    assert!(ended.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    ended.stdout
}

fn both_hold() -> Vec<(String, bool)> {
    vec![("ed".to_owned(), true), ("rsa".to_owned(), true)]
}

/// Messages that test what is made canonical: spaces, empty lines, folds, dots, several fields of one name.
fn messages() -> Vec<Submission> {
    let plain = |text: &str| super::with_text(message_from_to("from@shop.example", &["a@example.com"]), text);
    let mut rich = plain("Two  spaces\tand a tab \r\n\r\n.\r\n..\r\nno end");
    let email = &mut Arc::make_mut(&mut rich.message).email;
    email.subject = format!("A long subject {}", "word ".repeat(60).trim_end());
    email.from = Mailbox { name: Some("Käthe Müller, \"Shop\"".to_owned()), ..email.from.clone() };
    email.html = Some("<p>Grüße</p>\r\n\r\n".to_owned());
    email.headers = ["X-One", "List-Unsubscribe", "X-One"]
        .into_iter()
        .map(|name| Header { name: name.to_owned(), value: "<https://shop.example/u?x=1>,  two".to_owned() })
        .collect();
    email.attachments.push(Attachment {
        filename: "a.bin".to_owned(),
        content_type: "application/octet-stream".to_owned(),
        content: Bytes::from(vec![b'.'; 200_000]),
        content_id: None,
    });
    vec![plain("Hello\r\n"), plain(""), plain("\r\n\r\n"), plain(" \r\n \r\n"), plain("Grüße  \t \r\n\r\n\r\n"), rich]
}

/// The content as it was before dots were stuffed.
fn unstuffed(stored: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    for line in stored.split_inclusive(|byte| *byte == b'\n') {
        content.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
    content
}

#[tokio::test]
async fn both_kinds_of_signatures_hold_and_break_with_the_message() {
    let Some(keys) = Keys::new().await else { return };
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&Settings { dkim: keys.settings(), ..settings(peer.address) });
    for submission in messages() {
        assert_eq!(verdict(&relay.send(submission).await).0, Class::Accepted);
        let content = unstuffed(&peer.seen().stored.pop().unwrap());
        assert_eq!(keys.verify(&content).await, both_hold(), "{}", String::from_utf8_lossy(&content));

        let with_second_sender = [b"From: other@shop.example\r\n", content.as_slice()].concat();
        let with_more = [content.as_slice(), b"more\r\n"].concat();
        let text = String::from_utf8(content).unwrap();
        let with_another_time = text.replacen("Date: ", "Date: X", 1).into_bytes();
        for forged in [with_second_sender, with_more, with_another_time] {
            let found = keys.verify(&forged).await;
            assert!(found.iter().all(|(_, holds)| !holds), "{found:?}: {}", String::from_utf8_lossy(&forged));
        }
    }
}

#[tokio::test]
async fn each_attempt_sends_the_same_bytes() {
    let Some(keys) = Keys::new().await else { return };
    let peer = SmtpPeer::start([]).await;
    let submission = messages().pop().unwrap();
    for _ in 0..2 {
        let relay = provider(&Settings { dkim: keys.settings(), ..settings(peer.address) });
        assert_eq!(verdict(&relay.send(submission.clone()).await).0, Class::Accepted);
    }
    let seen = peer.seen();
    assert_eq!(seen.stored[0], seen.stored[1]);
}

#[tokio::test]
async fn what_no_key_speaks_for_goes_unsigned() {
    let Some(keys) = Keys::new().await else { return };
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&Settings { dkim: keys.settings(), ..settings(peer.address) });
    assert_eq!(
        verdict(&relay.send(message_from_to("from@workshop.example", &["a@example.com"])).await).0,
        Class::Accepted
    );
    assert!(peer.seen().stored[0].starts_with(b"From: "));
}

#[tokio::test]
async fn signatures_hold_after_postfix_delivered_the_message() {
    let Some(keys) = Keys::new().await else { return };
    let Some(postfix) = Postfix::start("") else { return };
    let address = ([127, 0, 0, 1], postfix.port).into();
    let relay = provider(&Settings {
        host: "localhost".to_owned(),
        tls: SmtpTls::Starttls,
        ca_file: Some(postfix.ca_file()),
        dkim: keys.settings(),
        ..settings(address)
    });
    let messages = messages();
    let count = messages.len();
    for submission in messages {
        assert_eq!(verdict(&relay.send(submission).await).0, Class::Accepted);
    }
    for copy in postfix.delivered(count).await {
        // A mailbox has line ends of its own.
        let content = String::from_utf8(copy).unwrap().replace('\n', "\r\n");
        assert_eq!(keys.verify(content.as_bytes()).await, both_hold(), "{content}");
    }
}

#[test]
fn a_key_that_cannot_sign_is_found_at_the_start() {
    let address = ([127, 0, 0, 1], 25).into();
    let with_key = |file: &Path| Settings {
        dkim: BTreeMap::from([(
            "shop".to_owned(),
            Dkim { key_file: file.to_owned(), ..Dkim::new("shop.example", "s") },
        )]),
        ..settings(address)
    };
    for file in ["/nonexistent", "/dev/null"] {
        let error = SmtpProvider::new(ProviderName::new("relay"), &with_key(Path::new(file)), None).err();
        assert!(matches!(error, Some(SmtpSettingsError::Dkim(_))), "{file}: {error:?}");
    }
}
