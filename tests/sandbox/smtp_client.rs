//! The SMTP provider, spoken to with lettre and with Python's smtplib.

use std::{process::Stdio, time::Duration};

use lettre::{
    Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor,
    address::Envelope,
    transport::smtp::{
        authentication::{Credentials, Mechanism},
        client::{Certificate, Tls, TlsParameters},
    },
};
use postrider::sandbox::smtp::{SmtpCredentials, SmtpOptions, SmtpSink, SmtpTls};
use tokio::{io::AsyncWriteExt, process::Command};

/// Sends what it reads to the port it is given, as a stranger would.
const STRANGER: &str = "
import smtplib, sys
with smtplib.SMTP('127.0.0.1', int(sys.argv[1]), timeout=10) as smtp:
    refused = smtp.sendmail('shop@shop.example', ['a@example.org', 'b@example.org'], sys.stdin.buffer.read())
    assert smtp.has_extn('smtputf8') and smtp.has_extn('8bitmime') and smtp.has_extn('pipelining')
    assert refused == {}, refused
";

#[tokio::test]
async fn dots_arrive_as_smtplib_sent_them() {
    let sink = SmtpSink::start(SmtpOptions::default()).await.expect("it starts");
    let body = "Message-ID: <m1@shop.example>\r\nSubject: dots\r\n\r\n.\r\n..\r\n.a.\r\n\r\n. \r\nend\r\n";
    let mut python = Command::new("python3")
        .args(["-c", STRANGER, &sink.address().port().to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut stdin = python.stdin.take().expect("piped");
    stdin.write_all(body.as_bytes()).await.expect("sent");
    drop(stdin);
    assert!(python.wait().await.expect("it ended").success());
    let mail = sink.inbox().get(0).expect("kept");
    assert_eq!(mail.recipients, ["a@example.org", "b@example.org"]);
    assert_eq!(mail.content.bytes().expect("kept"), body);
}

struct Identity {
    certificate_pem: String,
    key_pem: String,
}

fn identity() -> Identity {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    Identity { certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem() }
}

async fn secure_sink(identity: &Identity, implicit: bool) -> SmtpSink {
    let tls =
        SmtpTls { certificate_pem: identity.certificate_pem.clone(), key_pem: identity.key_pem.clone(), implicit };
    let credentials = SmtpCredentials { username: "shop".into(), password: "correct horse".into() };
    let options = SmtpOptions { tls: Some(tls), credentials: Some(credentials), ..SmtpOptions::default() };
    SmtpSink::start(options).await.expect("it starts")
}

async fn send(sink: &SmtpSink, tls: Tls, mechanism: Mechanism, password: &str) -> Result<(), String> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("localhost")
        .port(sink.address().port())
        .tls(tls)
        .authentication(vec![mechanism])
        .credentials(Credentials::new("shop".into(), password.into()))
        .timeout(Some(Duration::from_secs(10)))
        .build();
    let address = |text: &str| text.parse::<Address>().expect("an address");
    let envelope = Envelope::new(Some(address("shop@shop.example")), vec![address("a@example.org")]).expect("one");
    let sent = transport.send_raw(&envelope, b"Subject: hi\r\n\r\nHello\r\n").await;
    sent.map(|_| ()).map_err(|error| error.to_string())
}

fn trusting(identity: &Identity) -> TlsParameters {
    let certificate = Certificate::from_pem(identity.certificate_pem.as_bytes()).expect("read");
    TlsParameters::builder("localhost".into()).add_root_certificate(certificate).build().expect("built")
}

#[tokio::test]
async fn lettre_sends_under_starttls_and_under_implicit_tls_with_both_mechanisms() {
    let identity = identity();
    for implicit in [false, true] {
        let sink = secure_sink(&identity, implicit).await;
        let tls = || {
            let parameters = trusting(&identity);
            if implicit { Tls::Wrapper(parameters) } else { Tls::Required(parameters) }
        };
        for mechanism in [Mechanism::Plain, Mechanism::Login] {
            send(&sink, tls(), mechanism, "correct horse").await.expect("taken");
            let refused = send(&sink, tls(), mechanism, "wrong").await.expect_err("not known");
            assert!(refused.contains("535"), "{refused}");
        }
        assert_eq!(sink.inbox().count(), 2);
    }
}

#[tokio::test]
async fn without_tls_nobody_gets_to_send_where_credentials_are_wanted() {
    let sink = secure_sink(&identity(), false).await;
    send(&sink, Tls::None, Mechanism::Plain, "correct horse").await.expect_err("AUTH is not offered in the clear");
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn a_certificate_that_is_none_is_told() {
    let tls = SmtpTls { certificate_pem: "nonsense".into(), key_pem: "nonsense".into(), implicit: false };
    let options = SmtpOptions { tls: Some(tls), ..SmtpOptions::default() };
    let error = SmtpSink::start(options).await.err().expect("no certificate").to_string();
    assert!(error.contains("certificate"), "{error}");
}
