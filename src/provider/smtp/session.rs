//! One conversation with an SMTP server: greeting, EHLO, STARTTLS, AUTH, and one command at a time.
//!
//! Owns the connection and knows whether it is still in step; hands no message over (that is [`super::transaction`])
//! and opens no socket (that is [`super::relay`]).
//!
//! lettre's connection speaks, and what the server said is read from the wire under it: lettre tells neither at which
//! of several steps it failed nor what EHLO offered in full.

use std::{fmt::Display, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use lettre::transport::smtp::{
    authentication::{Credentials, Mechanism},
    client::AsyncSmtpConnection,
    commands::{Auth, Ehlo, Starttls},
    extension::ClientId,
    response::Response,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, error::Elapsed, timeout, timeout_at};

use super::{
    fault::{Cause, Decline, Fault, Loss, Stage},
    offers::Offers,
    reply::Reply,
    wire::Wire,
};
use crate::config::SmtpAuth;

/// How long the answer to QUIT is awaited. Nothing depends on it.
const QUIT_PATIENCE: Duration = Duration::from_secs(2);

/// A conversation.
pub(super) struct Session {
    pub(super) connection: AsyncSmtpConnection,
    pub(super) wire: Wire,
    /// What the server offered at the last EHLO.
    pub(super) offers: Offers,
    /// Whether every command has its reply, and no more came. False while a command is under way, so that a
    /// conversation that is dropped in the middle stays out of step for good.
    pub(super) in_step: bool,
    /// Whether MAIL was accepted and its transaction has not ended.
    pub(super) transaction_open: bool,
    /// How many messages went over it.
    pub(super) messages: u32,
}

/// How long each stage may last. Each gives when it must have ended, counted from now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For the connection, and for TLS.
    pub(super) connect: Duration,
    /// For the reply to a command.
    pub(super) command: Duration,
    /// For the content and the reply to the final dot.
    pub(super) data: Duration,
    /// For everything.
    pub(super) deadline: Instant,
}

/// User name, password and the mechanism to use.
pub(super) struct Login {
    pub(super) username: String,
    pub(super) password: SecretString,
    pub(super) mechanism: Option<SmtpAuth>,
}

impl Limits {
    /// When a stage that begins now must have ended.
    pub(super) fn until(&self, stage: Duration) -> Instant {
        Instant::now().checked_add(stage).map_or(self.deadline, |end| end.min(self.deadline))
    }
}

impl Session {
    /// Reads the greeting and says EHLO.
    pub(super) async fn greet(wire: Wire, name: &ClientId, limits: &Limits) -> Result<Self, Fault> {
        let greeting = AsyncSmtpConnection::connect_with_transport(Box::new(wire.clone()), name);
        let result = timeout_at(limits.until(limits.command), greeting).await;
        let heard = wire.heard();
        let lost = |stage| Fault::lost(stage, loss(&result, &wire));
        let (banner, rest) = Reply::parse(&heard).ok_or_else(|| lost(Stage::Banner))?;
        done(Stage::Banner, banner)?;
        // Where EHLO is refused lettre says QUIT and reads on, so that more than one reply may follow.
        let (hello, _) = Reply::parse(rest).ok_or_else(|| lost(Stage::Hello))?;
        let hello = done(Stage::Hello, hello)?;
        let lost = lost(Stage::Hello);
        let Ok(Ok(connection)) = result else { return Err(lost) };
        let offers = Offers::read(&hello);
        Ok(Self { connection, wire, offers, in_step: true, transaction_open: false, messages: 0 })
    }

    /// Asks for STARTTLS. The handshake is the caller's, and [`Session::greet_again`] after it.
    pub(super) async fn ask_for_tls(&mut self, limits: &Limits) -> Result<(), Fault> {
        if !self.offers.starttls {
            return Err(Fault::declined(Stage::Tls, Decline::NoStartTls));
        }
        self.tell(Stage::Tls, Starttls, limits).await?;
        // What came in clear text together with the reply would be taken for what the server says under TLS.
        if self.in_step { Ok(()) } else { Err(Fault::declined(Stage::Tls, Decline::Injected)) }
    }

    /// Says EHLO again: what was offered in clear text counts no more (RFC 3207, section 4.2).
    pub(super) async fn greet_again(&mut self, name: &ClientId, limits: &Limits) -> Result<(), Fault> {
        let hello = self.tell(Stage::Hello, Ehlo::new(name.clone()), limits).await?;
        self.offers = Offers::read(&hello);
        Ok(())
    }

    /// Authenticates.
    pub(super) async fn authenticate(&mut self, login: &Login, limits: &Limits) -> Result<(), Fault> {
        let declined = |decline| Fault::declined(Stage::Auth, decline);
        if !self.wire.is_private() {
            return Err(declined(Decline::ClearText));
        }
        let mechanism = self.offers.mechanism(login.mechanism).ok_or_else(|| declined(Decline::NoMechanism))?;
        let password = login.password.expose_secret();
        match mechanism {
            SmtpAuth::Plain => {
                let credentials = Credentials::new(login.username.clone(), password.to_owned());
                let command =
                    Auth::new(Mechanism::Plain, credentials, None).map_err(|_| declined(Decline::NoMechanism))?;
                self.tell(Stage::Auth, command, limits).await?;
            }
            // The prompts are not standardised, their order is: lettre knows some of them only.
            SmtpAuth::Login => {
                self.prompted("AUTH LOGIN\r\n", limits).await?;
                self.prompted(encoded_line(&login.username), limits).await?;
                self.tell(Stage::Auth, encoded_line(password), limits).await?;
            }
        }
        Ok(())
    }

    /// Says a step of AUTH that the server answers with a prompt.
    async fn prompted(&mut self, command: impl Display, limits: &Limits) -> Result<(), Fault> {
        let reply = self.ask(Stage::Auth, command, limits).await?;
        match reply.code {
            334 => Ok(()),
            _ if reply.is_refusal() => Err(Fault::reply(Stage::Auth, reply)),
            _ => Err(Fault::lost(Stage::Auth, Loss::Garbled)),
        }
    }

    /// Says a command that the server is to do; a refusal is a fault.
    pub(super) async fn tell(&mut self, stage: Stage, command: impl Display, limits: &Limits) -> Result<Reply, Fault> {
        let reply = done(stage, self.ask(stage, command, limits).await?);
        if let Err(Fault { cause: Cause::Lost(_), .. }) = reply {
            self.in_step = false;
        }
        reply
    }

    /// Says a command and reads the reply, whatever it is.
    pub(super) async fn ask(&mut self, stage: Stage, command: impl Display, limits: &Limits) -> Result<Reply, Fault> {
        if !self.in_step {
            return Err(Fault::lost(stage, Loss::Garbled));
        }
        self.begin();
        let result = timeout_at(limits.until(limits.command), self.connection.command(command)).await;
        self.conclude(stage, result)
    }

    /// From here to [`Session::conclude`] the conversation is out of step.
    pub(super) fn begin(&mut self) {
        self.in_step = false;
        self.wire.forget();
    }

    /// Finds the reply in what was heard, and whether the conversation is in step again.
    pub(super) fn conclude(
        &mut self,
        stage: Stage,
        result: Result<Result<Response, lettre::transport::smtp::Error>, Elapsed>,
    ) -> Result<Reply, Fault> {
        let heard = self.wire.heard();
        let Some((reply, rest)) = Reply::parse(&heard) else {
            return Err(Fault::lost(stage, loss(&result, &self.wire)));
        };
        let understood = match &result {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => error.status().is_some(),
            Err(_) => false,
        };
        self.in_step = understood && rest.is_empty() && reply.code != 421;
        Ok(reply)
    }

    /// Whether another message may go over it.
    pub(super) fn is_reusable(&self) -> bool {
        self.in_step && !self.wire.is_closed()
    }

    /// Ends it. The server's answer to QUIT changes nothing and is awaited by nobody.
    pub(super) fn retire(mut self) {
        if self.is_reusable() {
            tokio::spawn(async move { timeout(QUIT_PATIENCE, self.connection.quit()).await.is_ok() });
        }
    }
}

/// A reply that says that the command was done; else the fault.
fn done(stage: Stage, reply: Reply) -> Result<Reply, Fault> {
    match reply {
        reply if reply.is_done() => Ok(reply),
        reply if reply.is_refusal() => Err(Fault::reply(stage, reply)),
        _ => Err(Fault::lost(stage, Loss::Garbled)),
    }
}

/// Why there is no reply to be read.
fn loss<T>(result: &Result<Result<T, lettre::transport::smtp::Error>, Elapsed>, wire: &Wire) -> Loss {
    match result {
        Err(_) => Loss::Timeout,
        Ok(Err(error)) => Loss::of_lettre(error, wire.is_closed()),
        // lettre found a reply that the wire did not bring: it was left over from before.
        Ok(Ok(_)) => Loss::Garbled,
    }
}

fn encoded_line(text: &str) -> String {
    format!("{}\r\n", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[tokio::test]
    async fn credentials_are_not_sent_in_clear_text_to_another_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            socket.write_all(b"220 hello\r\n").await.expect("a listener");
            let mut hello = [0; 100];
            let said = socket.read(&mut hello).await.expect("EHLO");
            socket.write_all(b"250-hello\r\n250 AUTH PLAIN LOGIN\r\n").await.expect("a listener");
            let mut more = String::new();
            socket.read_to_string(&mut more).await.expect("the end");
            (said, more)
        });
        let socket = TcpStream::connect(address).await.expect("a connection");
        let wire = Wire::as_if_at(([192, 0, 2, 1], 587).into(), socket).expect("a wire");
        let patience = Duration::from_secs(10);
        let deadline = Instant::now() + patience;
        let limits = Limits { connect: patience, command: patience, data: patience, deadline };
        let name = ClientId::Domain("client.example".to_owned());
        let Ok(mut session) = Session::greet(wire, &name, &limits).await else { panic!("not greeted") };

        let login = Login { username: "user".to_owned(), password: "secret".into(), mechanism: None };
        let refused = session.authenticate(&login, &limits).await;
        assert!(matches!(refused, Err(Fault { cause: Cause::Declined(Decline::ClearText), .. })));
        drop(session);
        let (said, more) = server.await.expect("the server's end");
        assert_eq!((said, more.as_str()), ("EHLO client.example\r\n".len(), ""));
    }
}
