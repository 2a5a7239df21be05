//! Against aiosmtpd, a server that nobody here wrote.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::{
    config::{SmtpAuth, SmtpProvider as Settings, SmtpTls},
    delivery::{Class, ProviderName},
    message::mime,
    provider::{Provider, smtp::SmtpProvider},
};
use secrecy::SecretString;

use super::{classes, encryption::Certificate, message, message_to, settings, verdict};

struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Server {
    /// Starts it; `None` where it is not installed.
    fn start(certificate: &Certificate) -> Option<Self> {
        let there = Command::new("/usr/bin/python3").args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
        if !there.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: python3-aiosmtpd is not installed");
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/aiosmtpd_server.py");
        let mut process = Command::new("/usr/bin/python3")
            .arg(script)
            .arg(certificate.file())
            .arg(certificate.directory.path().join("key.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let port = line(&mut output).parse().unwrap();
        Some(Self { process, output, port })
    }

    fn received(&mut self) -> serde_json::Value {
        serde_json::from_str(&line(&mut self.output)).unwrap()
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn aiosmtpd_takes_messages_over_starttls_and_auth() {
    let certificate = Certificate::new();
    let Some(mut server) = Server::start(&certificate) else { return };
    let settings = |auth| Settings {
        host: "localhost".to_owned(),
        tls: SmtpTls::Starttls,
        username: Some("user".to_owned()),
        auth,
        ca_file: Some(certificate.file()),
        ..settings(([127, 0, 0, 1], server.port).into())
    };
    let relay = |auth, password: &str| {
        SmtpProvider::new(ProviderName::new("relay"), &settings(auth), Some(SecretString::from(password))).unwrap()
    };
    let (plain, login) = (relay(Some(SmtpAuth::Plain), "secret"), relay(Some(SmtpAuth::Login), "secret"));
    let wrong = relay(None, "guess");
    for relay in [&plain, &login, &plain] {
        let submission = message_to(&["one", "unknown", "three"], "Hello\r\n.\r\n..dots\r\n.");
        let mut expected = mime::render(&submission.message).unwrap();
        if !expected.ends_with(b"\r\n") {
            expected.extend(b"\r\n");
        }
        let outcome = relay.send(submission).await;
        assert_eq!(classes(&outcome), [Class::Accepted, Class::RecipientRejected, Class::Accepted]);
        assert_eq!(outcome.provider_message_id.as_deref(), Some("AIO12345"));
        let received = server.received();
        assert_eq!(received["to"], serde_json::json!(["one@there.example", "three@there.example"]));
        assert_eq!(BASE64_STANDARD.decode(received["content"].as_str().unwrap()).unwrap(), expected);
    }
    assert_eq!(verdict(&wrong.send(message()).await), (Class::Misconfigured, "535 5.7.8".to_owned()));
}
