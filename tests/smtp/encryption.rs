//! TLS and authentication: what is required is done or nothing is sent.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use postrider::{
    config::{SmtpAuth, SmtpProvider as Settings, SmtpTls},
    delivery::{Class, Health, ProviderName},
    provider::{
        Provider, TlsError,
        smtp::{SmtpProvider, SmtpSettingsError},
    },
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::SecretString;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use super::{
    impatient, message, provider, send, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
    verdict,
};

/// A certificate for `localhost` that no one trusts who was not told to.
pub struct Certificate {
    pub directory: TempDir,
    pub acceptor: TlsAcceptor,
}

impl Certificate {
    pub fn new() -> Self {
        Self::with_clients(|builder| builder.with_no_client_auth())
    }

    /// For a server that wants that certificate of its clients.
    fn that_wants(client: &ClientCertificate) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(client.authority.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        Self::with_clients(|builder| builder.with_client_cert_verifier(verifier))
    }

    fn with_clients(
        clients: impl FnOnce(
            rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier>,
        ) -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::server::WantsServerCert>,
    ) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = clients(builder).with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        Self { directory, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }
}

/// A certificate of ours with its key, and the authority that vouches for it.
pub struct ClientCertificate {
    directory: TempDir,
    authority: CertificateDer<'static>,
}

impl ClientCertificate {
    pub fn new() -> Self {
        let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let mut ours = CertificateParams::new(["client.example".to_owned()]).unwrap();
        // Of the same name as its authority it would be taken for one that signed itself.
        ours.distinguished_name.push(DnType::CommonName, "client.example");
        let ours = ours.signed_by(&key, &issuer).unwrap();
        let directory = tempfile::tempdir().unwrap();
        // A server reads the authority's under another user.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for (file, pem) in
            [("cert.pem", ours.pem()), ("key.pem", key.serialize_pem()), ("authority.pem", authority_certificate.pem())]
        {
            std::fs::write(directory.path().join(file), pem).unwrap();
        }
        Self { directory, authority: authority_certificate.der().clone() }
    }

    pub fn certificate_file(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    pub fn authority_file(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }
}

fn secured(peer: &SmtpPeer, tls: SmtpTls, certificate: &Certificate) -> Settings {
    Settings { host: "localhost".to_owned(), tls, ca_file: Some(certificate.file()), ..settings(peer.address) }
}

fn with_login(settings: Settings) -> Settings {
    Settings { username: Some("user".to_owned()), ..settings }
}

#[tokio::test]
async fn starttls_and_implicit_tls_carry_messages() {
    let certificate = Certificate::new();
    let acceptor = certificate.acceptor.clone();
    let table = [
        (SmtpTls::Starttls, Script::default().starttls(acceptor.clone())),
        (SmtpTls::Implicit, Script::default().implicit_tls(acceptor)),
    ];
    for (tls, script) in table {
        let peer = SmtpPeer::start([script]).await;
        let relay = provider(&secured(&peer, tls, &certificate));
        assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted, "{tls:?}");
        assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted, "{tls:?}");
        let seen = peer.seen();
        assert_eq!((seen.commands.len(), seen.stored.len()), (1, 2), "{tls:?}");
    }
}

#[tokio::test]
async fn starttls_that_is_not_offered_is_misconfigured_and_nothing_goes_in_clear_text() {
    let certificate = Certificate::new();
    let peer = SmtpPeer::start([]).await;
    let outcome = send(&with_login(secured(&peer, SmtpTls::Starttls, &certificate)), message()).await;
    assert_eq!(verdict(&outcome), (Class::Misconfigured, "tls".to_owned()));
    assert_eq!(outcome.health, Health::Misconfigured);
    peer.wait(|seen| seen.ended == [0]).await;
    assert_eq!(peer.seen().commands, [["EHLO client.example"]]);
}

#[tokio::test]
async fn starttls_that_is_refused_is_unavailable_or_misconfigured_and_nothing_goes_in_clear_text() {
    let certificate = Certificate::new();
    for (reply, class) in [("454 4.7.0 not now", Class::Unavailable), ("502 no", Class::Misconfigured)] {
        let script = Script::default().starttls(certificate.acceptor.clone()).on("STARTTLS", say(reply));
        let peer = SmtpPeer::start([script]).await;
        let outcome = send(&secured(&peer, SmtpTls::Starttls, &certificate), message()).await;
        assert_eq!(verdict(&outcome).0, class, "{reply}");
        peer.wait(|seen| seen.ended == [0]).await;
        assert_eq!(peer.seen().commands, [["EHLO client.example", "STARTTLS"]], "{reply}");
    }
}

#[tokio::test]
async fn clear_text_after_the_reply_to_starttls_is_not_taken_for_the_server_s_words() {
    let certificate = Certificate::new();
    let script = Script::default()
        .starttls(certificate.acceptor.clone())
        .on("STARTTLS", say("220 go ahead\r\n250-peer\r\n250 AUTH PLAIN"));
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&secured(&peer, SmtpTls::Starttls, &certificate), message()).await;
    assert_eq!(verdict(&outcome), (Class::Misconfigured, "tls".to_owned()));
}

#[tokio::test]
async fn a_bad_certificate_is_misconfigured() {
    let certificate = Certificate::new();
    let acceptor = certificate.acceptor.clone();
    let table = [
        (SmtpTls::Starttls, Script::default().starttls(acceptor.clone())),
        (SmtpTls::Implicit, Script::default().implicit_tls(acceptor)),
    ];
    for (tls, script) in table {
        let peer = SmtpPeer::start([script.clone()]).await;
        let untrusted = Settings { ca_file: None, ..secured(&peer, tls, &certificate) };
        let outcome = send(&untrusted, message()).await;
        assert_eq!(
            (verdict(&outcome), outcome.health),
            ((Class::Misconfigured, "tls".to_owned()), Health::Misconfigured)
        );

        let peer = SmtpPeer::start([script]).await;
        let of_another = Settings { host: "127.0.0.1".to_owned(), ..secured(&peer, tls, &certificate) };
        assert_eq!(verdict(&send(&of_another, message()).await), (Class::Misconfigured, "tls".to_owned()));
        assert!(peer.seen().stored.is_empty());
    }
}

#[tokio::test]
async fn tls_with_a_server_in_clear_text_is_misconfigured_and_with_a_silent_one_unavailable() {
    let certificate = Certificate::new();
    let peer = SmtpPeer::start([]).await;
    let outcome = send(&secured(&peer, SmtpTls::Implicit, &certificate), message()).await;
    assert_eq!(verdict(&outcome), (Class::Misconfigured, "tls".to_owned()));

    let peer = SmtpPeer::start([Script::default().on("banner", Act::Silence)]).await;
    let silent = Settings {
        connect_timeout: impatient(peer.address).connect_timeout,
        ..secured(&peer, SmtpTls::Implicit, &certificate)
    };
    assert_eq!(verdict(&send(&silent, message()).await), (Class::Unavailable, "timeout".to_owned()));
}

#[tokio::test]
async fn plain_and_login_authenticate() {
    let (user, secret) = (BASE64_STANDARD.encode("user"), BASE64_STANDARD.encode("secret"));
    let plain = vec![format!("AUTH PLAIN {}", BASE64_STANDARD.encode("\0user\0secret"))];
    let login = vec!["AUTH LOGIN".to_owned(), user, secret];
    let offers_login = say("250-peer\r\n250 AUTH CRAM-MD5 LOGIN");
    let table = [
        (None, Script::default(), &plain),
        (Some(SmtpAuth::Plain), Script::default(), &plain),
        (Some(SmtpAuth::Login), Script::default(), &login),
        (None, Script::default().on("EHLO", offers_login), &login),
    ];
    for (auth, script, expected) in table {
        let script = script.on("dXNlcg==", say("334 UGFzc3dvcmQ6")).on("c2VjcmV0", say("235 2.7.0 welcome"));
        let peer = SmtpPeer::start([script]).await;
        let outcome = send(&with_login(Settings { auth, ..settings(peer.address) }), message()).await;
        assert_eq!(verdict(&outcome).0, Class::Accepted, "{auth:?}");
        assert_eq!(peer.seen().commands[0][1..=expected.len()], expected[..], "{auth:?}");
    }
}

#[tokio::test]
async fn refused_credentials_are_misconfigured() {
    let table = [
        (Script::default().on("AUTH", say("535 5.7.8 no")), "535 5.7.8", Class::Misconfigured),
        (Script::default().on("AUTH", say("454 4.7.0 later")), "454 4.7.0", Class::Unavailable),
        (Script::default().on("AUTH", Act::Close), "eof", Class::Unavailable),
        (Script::default().on("EHLO", say("250 peer")), "auth", Class::Misconfigured),
    ];
    for (script, code, class) in table {
        let peer = SmtpPeer::start([script]).await;
        let outcome = send(&with_login(settings(peer.address)), message()).await;
        assert_eq!(verdict(&outcome), (class, code.to_owned()));
        assert!(peer.seen().stored.is_empty());
    }
}

#[tokio::test]
async fn a_server_that_wants_our_certificate_gets_it_and_without_it_our_account_is_misconfigured() {
    let (ours, another) = (ClientCertificate::new(), ClientCertificate::new());
    let certificate = Certificate::that_wants(&ours);
    let acceptor = certificate.acceptor.clone();
    let table = [
        (SmtpTls::Starttls, Script::default().starttls(acceptor.clone())),
        (SmtpTls::Implicit, Script::default().implicit_tls(acceptor)),
    ];
    for (tls, script) in table {
        let shown = |client: Option<&ClientCertificate>, peer: &SmtpPeer| Settings {
            certificate_file: client.map(ClientCertificate::certificate_file),
            key_file: client.map(ClientCertificate::key_file),
            ..secured(peer, tls, &certificate)
        };
        let peer = SmtpPeer::start([script.clone()]).await;
        assert_eq!(verdict(&send(&shown(Some(&ours), &peer), message()).await).0, Class::Accepted, "{tls:?}");
        for client in [None, Some(&another)] {
            let peer = SmtpPeer::start([script.clone()]).await;
            let outcome = send(&shown(client, &peer), message()).await;
            assert_eq!(verdict(&outcome), (Class::Misconfigured, "tls".to_owned()), "{tls:?}");
            assert_eq!(outcome.health, Health::Misconfigured, "{tls:?}");
            assert!(peer.seen().stored.is_empty(), "{tls:?}");
        }
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let address = SmtpPeer::start([]).await.address;
    let made = |settings: &Settings, password: Option<&str>| {
        SmtpProvider::new(ProviderName::new("relay"), settings, password.map(SecretString::from)).err()
    };
    let secure = Settings { tls: SmtpTls::Starttls, ..settings(address) };
    let error = made(&with_login(settings(address)), None);
    assert!(matches!(error, Some(SmtpSettingsError::NoPassword)));
    let error = made(&Settings { hello_name: Some("a\r\nMAIL".to_owned()), ..settings(address) }, None);
    assert!(matches!(error, Some(SmtpSettingsError::HelloName)));
    let error = made(&Settings { host: "not a host".to_owned(), ..secure.clone() }, None);
    assert!(matches!(error, Some(SmtpSettingsError::Host)));
    let (ours, another) = (ClientCertificate::new(), ClientCertificate::new());
    let identity = |certificate: Option<PathBuf>, key: Option<PathBuf>| Settings {
        certificate_file: certificate,
        key_file: key,
        ..secure.clone()
    };
    let error = made(&identity(Some(ours.certificate_file()), None), None);
    assert!(matches!(error, Some(SmtpSettingsError::HalfAnIdentity)), "{error:?}");
    let error = made(&identity(Some(ours.certificate_file()), Some(ours.certificate_file())), None);
    assert!(matches!(error, Some(SmtpSettingsError::Tls(TlsError::OwnFile { setting: "key_file", .. }))), "{error:?}");
    let error = made(&identity(Some(ours.certificate_file()), Some(another.key_file())), None);
    assert!(matches!(error, Some(SmtpSettingsError::Tls(TlsError::Identity(_)))), "{error:?}");
    for without_certificate in ["/nonexistent", "/dev/null"] {
        let error = made(&Settings { ca_file: Some(without_certificate.into()), ..secure.clone() }, None);
        assert!(matches!(error, Some(SmtpSettingsError::Tls(TlsError::CaFile { .. }))), "{error:?}");
    }
}
