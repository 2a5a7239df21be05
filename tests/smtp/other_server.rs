//! Against aiosmtpd, a server that nobody here wrote.

use postrider::{
    config::{SmtpAuth, SmtpProvider as Settings, SmtpTls},
    delivery::{Class, ProviderName},
    message::mime,
    provider::{Provider, smtp::SmtpProvider},
};
use secrecy::SecretString;

use super::{classes, message, message_to, settings, verdict};
use crate::support::aiosmtpd::{Aiosmtpd, CREDENTIALS};

#[tokio::test]
async fn aiosmtpd_takes_messages_over_starttls_and_auth() {
    let Some(server) = Aiosmtpd::start().await else { return };
    takes_messages(server, SmtpTls::Starttls).await;
}

#[tokio::test]
async fn aiosmtpd_takes_messages_over_implicit_tls_and_auth() {
    let Some(server) = Aiosmtpd::start_implicit().await else { return };
    takes_messages(server, SmtpTls::Implicit).await;
}

async fn takes_messages(mut server: Aiosmtpd, tls: SmtpTls) {
    let ca_file = server.ca_file();
    let address = ([127, 0, 0, 1], server.port).into();
    let settings = |auth| Settings {
        host: "localhost".to_owned(),
        tls,
        username: Some(CREDENTIALS.0.to_owned()),
        auth,
        ca_file: Some(ca_file.clone()),
        ..settings(address)
    };
    let relay = |auth, password: &str| {
        SmtpProvider::new(ProviderName::new("relay"), &settings(auth), Some(SecretString::from(password))).unwrap()
    };
    let (plain, login) = (relay(Some(SmtpAuth::Plain), CREDENTIALS.1), relay(Some(SmtpAuth::Login), CREDENTIALS.1));
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
        let handed = server.handed().await;
        assert_eq!(handed.to, ["one@there.example", "three@there.example"]);
        assert_eq!(handed.content, expected);
    }
    assert_eq!(verdict(&wrong.send(message()).await), (Class::Misconfigured, "535 5.7.8".to_owned()));
}
