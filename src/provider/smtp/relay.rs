//! The server's address, how it is secured and who we are there: from settings to a conversation that is ready for
//! MAIL.
//!
//! Owns name resolution, the socket and TLS; speaks through [`Session`].

use std::sync::Arc;

use lettre::transport::smtp::extension::ClientId;
use rustls_pki_types::ServerName;
use secrecy::SecretString;
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;

use super::{
    dkim::DkimError,
    fault::{Decline, Fault, Loss, Stage},
    session::{Limits, Login, Session},
    wire::Wire,
};
use crate::{
    config::{self, SmtpTls},
    provider::{TlsError, tls},
};

/// Settings of an SMTP provider that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SmtpSettingsError {
    /// The host name is none.
    #[error("host is not a host name or an address")]
    Host,
    /// The name for EHLO is none.
    #[error("hello_name is not a host name or an address")]
    HelloName,
    /// There is a user name and no password.
    #[error("username is given without password or password_file")]
    NoPassword,
    /// There is a certificate of our own without its key, or the other way round.
    #[error("certificate_file and key_file go together")]
    HalfAnIdentity,
    /// TLS cannot be set up with the trusted certificates, or with our own.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A key cannot sign.
    #[error(transparent)]
    Dkim(#[from] DkimError),
}

/// A server and our account there.
pub(super) struct Relay {
    host: String,
    port: u16,
    security: Security,
    hello_name: ClientId,
    login: Option<Login>,
}

/// How the connection is secured.
enum Security {
    StartTls(Tls),
    Implicit(Tls),
    None,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Relay {
    /// The relay of those settings.
    pub(super) fn new(
        settings: &config::SmtpProvider,
        password: Option<SecretString>,
    ) -> Result<Self, SmtpSettingsError> {
        let login = match (&settings.username, password) {
            (Some(_), None) => return Err(SmtpSettingsError::NoPassword),
            (Some(username), Some(password)) => {
                Some(Login { username: username.clone(), password, mechanism: settings.auth })
            }
            (None, _) => None,
        };
        let security = match settings.tls {
            SmtpTls::Starttls => Security::StartTls(Tls::new(settings)?),
            SmtpTls::Implicit => Security::Implicit(Tls::new(settings)?),
            SmtpTls::None => Security::None,
        };
        let default_port = if settings.tls == SmtpTls::Implicit { 465 } else { 587 };
        Ok(Self {
            host: settings.host.clone(),
            port: settings.port.unwrap_or(default_port),
            security,
            hello_name: hello_name(settings.hello_name.as_deref())?,
            login,
        })
    }

    /// Opens a conversation, up to where MAIL may follow.
    pub(super) async fn open(&self, limits: &Limits) -> Result<Session, Fault> {
        let mut wire = self.dial(limits).await?;
        if let Security::Implicit(tls) = &self.security {
            wire = tls.secure(wire, limits).await?;
        }
        let mut session = Session::greet(wire, &self.hello_name, limits).await?;
        if let Security::StartTls(tls) = &self.security {
            session.ask_for_tls(limits).await?;
            session = Session { wire: tls.secure(session.wire, limits).await?, ..session };
            session.hello(&self.hello_name, limits).await?;
        }
        if let Some(login) = &self.login {
            session.authenticate(login, limits).await?;
        }
        Ok(session)
    }

    /// Connects to the first of the host's addresses that answers. Each gets an equal share of the time left, so that
    /// one which swallows packets does not take it all.
    async fn dial(&self, limits: &Limits) -> Result<Wire, Fault> {
        let lost = |loss| Fault::lost(Stage::Connect, loss);
        let until = limits.until(Stage::Connect);
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<_> = match timeout_at(until, lookup_host((host, self.port))).await {
            Err(_) => return Err(lost(Loss::Timeout)),
            Ok(Err(_)) => return Err(lost(Loss::Resolve)),
            Ok(Ok(addresses)) => addresses.collect(),
        };
        let mut last = Loss::Resolve;
        for (address, to_try) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let now = Instant::now();
            let share = until.saturating_duration_since(now) / u32::try_from(to_try).unwrap_or(u32::MAX);
            match timeout_at(now + share, TcpStream::connect(address)).await {
                Err(_) => last = Loss::Timeout,
                Ok(Err(error)) => last = Loss::Connect(error.kind()),
                Ok(Ok(socket)) => match socket.set_nodelay(true).and_then(|()| Wire::new(socket)) {
                    Ok(wire) => return Ok(wire),
                    Err(error) => last = Loss::Connect(error.kind()),
                },
            }
        }
        Err(lost(last))
    }
}

impl Tls {
    fn new(settings: &config::SmtpProvider) -> Result<Self, SmtpSettingsError> {
        let host = settings.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| SmtpSettingsError::Host)?;
        let ca_file = settings.ca_file.as_deref();
        let config = match (&settings.certificate_file, &settings.key_file) {
            (Some(certificate), Some(key)) => tls::client_config_with_identity(ca_file, certificate, key)?,
            (None, None) => tls::client_config(ca_file)?,
            _ => return Err(SmtpSettingsError::HalfAnIdentity),
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    async fn secure(&self, wire: Wire, limits: &Limits) -> Result<Wire, Fault> {
        let handshake = wire.secure(&self.connector, self.name.clone());
        let error = match timeout_at(limits.until(Stage::Tls), handshake).await {
            Ok(Ok(wire)) => return Ok(wire),
            Ok(Err(error)) => error,
            Err(_) => return Err(Fault::lost(Stage::Tls, Loss::Timeout)),
        };
        Err(match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            None | Some(rustls::Error::AlertReceived(_)) => Fault::lost(Stage::Tls, Loss::of_io(&error)),
            Some(reason) => Fault::declined(Stage::Tls, Decline::BadTls(reason.to_string())),
        })
    }
}

/// The name for EHLO: what is set, else the machine's own.
fn hello_name(set: Option<&str>) -> Result<ClientId, SmtpSettingsError> {
    let Some(name) = set else { return Ok(ClientId::default()) };
    let bare = name.trim_start_matches('[').trim_end_matches(']').trim_start_matches("IPv6:");
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
    };
    match bare.parse() {
        Ok(std::net::IpAddr::V4(address)) => Ok(ClientId::Ipv4(address)),
        Ok(std::net::IpAddr::V6(address)) => Ok(ClientId::Ipv6(address)),
        Err(_) if is_name(name) => Ok(ClientId::Domain(name.to_owned())),
        Err(_) => Err(SmtpSettingsError::HelloName),
    }
}
