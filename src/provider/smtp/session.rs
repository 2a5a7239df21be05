//! One conversation with an SMTP server: greeting, EHLO, STARTTLS, AUTH, commands and their replies in order.
//!
//! Owns the connection and knows whether it is still in step; hands no message over (that is [`super::transaction`])
//! and opens no socket (that is [`super::relay`]).

use std::{fmt::Display, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use lettre::transport::smtp::{
    authentication::{Credentials, Mechanism},
    commands::{Auth, Ehlo, Quit, Starttls},
    extension::ClientId,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    fault::{Decline, Fault, Loss, Stage},
    offers::Offers,
    reply::Reply,
    wire::Wire,
};
use crate::config::SmtpAuth;

/// How long the answer to QUIT is awaited. Nothing depends on it.
const QUIT_PATIENCE: Duration = Duration::from_secs(2);

/// A conversation.
pub(super) struct Session {
    pub(super) wire: Wire,
    /// When it began.
    pub(super) began: Instant,
    /// What the server offered at the last EHLO.
    pub(super) offers: Offers,
    /// Whether MAIL was accepted and its transaction has not ended.
    pub(super) transaction_open: bool,
    /// How many messages went over it.
    pub(super) messages: u32,
    /// How many replies are still to come. Counted before a command is written, so that a conversation that is dropped
    /// in the middle stays out of step for good.
    pub(super) owed: usize,
    /// Whether it has come to its end: a reply was lost or none to be understood, or the server took its leave.
    pub(super) is_over: bool,
}

/// How long each stage may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For the connection, and for TLS.
    pub(super) connect: Duration,
    /// For the reply to a command.
    pub(super) command: Duration,
    /// For the reply to the final dot.
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
    /// When a stage that begins now must have ended. RFC 5321, section 4.5.3.2, asks for 5 minutes for the greeting and
    /// most commands, 2 for DATA, 3 for each block of the content and 10 after the final dot: what is set for a command
    /// stands in the same proportion to the second and the third.
    pub(super) fn until(&self, stage: Stage) -> Instant {
        let longest = match stage {
            Stage::Connect | Stage::Tls => self.connect,
            Stage::Banner | Stage::Hello | Stage::Auth | Stage::Mail | Stage::Rcpt => self.command,
            Stage::Data => self.command * 2 / 5,
            Stage::Body => self.command * 3 / 5,
            Stage::FinalDot => self.data,
        };
        Instant::now().checked_add(longest).map_or(self.deadline, |end| end.min(self.deadline))
    }
}

impl Session {
    /// Reads the greeting and says EHLO.
    pub(super) async fn greet(wire: Wire, name: &ClientId, limits: &Limits) -> Result<Self, Fault> {
        let mut session = Self {
            wire,
            began: Instant::now(),
            offers: Offers::default(),
            transaction_open: false,
            messages: 0,
            owed: 1,
            is_over: false,
        };
        let banner = session.hear(Stage::Banner, limits).await?;
        session.done(Stage::Banner, banner)?;
        session.hello(name, limits).await?;
        Ok(session)
    }

    /// Says EHLO. Under TLS, again: what was offered in clear text counts no more (RFC 3207, section 4.2).
    pub(super) async fn hello(&mut self, name: &ClientId, limits: &Limits) -> Result<(), Fault> {
        let hello = self.tell(Stage::Hello, Ehlo::new(name.clone()), limits).await?;
        self.offers = Offers::read(&hello);
        Ok(())
    }

    /// Asks for STARTTLS. The handshake is the caller's, and [`Session::hello`] after it.
    pub(super) async fn ask_for_tls(&mut self, limits: &Limits) -> Result<(), Fault> {
        if !self.offers.starttls {
            return Err(Fault::declined(Stage::Tls, Decline::NoStartTls));
        }
        self.tell(Stage::Tls, Starttls, limits).await?;
        // What came in clear text together with the reply would be taken for what the server says under TLS.
        if self.is_in_step() { Ok(()) } else { Err(Fault::declined(Stage::Tls, Decline::Injected)) }
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
            _ => Err(self.lose(Stage::Auth, Loss::Garbled)),
        }
    }

    /// Says a command that the server is to do; a refusal is a fault.
    pub(super) async fn tell(&mut self, stage: Stage, command: impl Display, limits: &Limits) -> Result<Reply, Fault> {
        let reply = self.ask(stage, command, limits).await?;
        self.done(stage, reply)
    }

    /// The reply, if it says that the command was done; else the fault. One that says neither is not the reply to what
    /// was asked, and those after it would not be either.
    pub(super) fn done(&mut self, stage: Stage, reply: Reply) -> Result<Reply, Fault> {
        match reply {
            reply if reply.is_done() => Ok(reply),
            reply if reply.is_refusal() => Err(Fault::reply(stage, reply)),
            _ => Err(self.lose(stage, Loss::Garbled)),
        }
    }

    /// Says a command and hears the reply, whatever it is.
    pub(super) async fn ask(&mut self, stage: Stage, command: impl Display, limits: &Limits) -> Result<Reply, Fault> {
        if !self.is_in_step() {
            return Err(self.lose(stage, Loss::Garbled));
        }
        self.say(stage, command.to_string().as_bytes(), 1, limits).await?;
        self.hear(stage, limits).await
    }

    /// Writes bytes that so many replies answer.
    pub(super) async fn say(
        &mut self,
        stage: Stage,
        bytes: &[u8],
        replies: usize,
        limits: &Limits,
    ) -> Result<(), Fault> {
        self.owed += replies;
        match timeout_at(limits.until(stage), self.wire.write(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(loss)) => Err(self.lose(stage, loss)),
            Err(_) => Err(self.lose(stage, Loss::Timeout)),
        }
    }

    /// The next of the replies that are still to come.
    pub(super) async fn hear(&mut self, stage: Stage, limits: &Limits) -> Result<Reply, Fault> {
        match timeout_at(limits.until(stage), self.wire.reply()).await {
            Ok(Ok(reply)) => {
                self.owed = self.owed.saturating_sub(1);
                self.is_over |= reply.code == 421;
                Ok(reply)
            }
            Ok(Err(loss)) => Err(self.lose(stage, loss)),
            Err(_) => Err(self.lose(stage, Loss::Timeout)),
        }
    }

    /// The fault that a reply was lost, which ends the conversation.
    pub(super) fn lose(&mut self, stage: Stage, loss: Loss) -> Fault {
        self.is_over = true;
        Fault::lost(stage, loss)
    }

    /// Whether every command has its reply, and no more came: only then another command, or another message, may go
    /// over it.
    pub(super) fn is_in_step(&self) -> bool {
        !self.is_over && self.owed == 0 && !self.wire.has_unread()
    }

    /// Ends it. The server's answer to QUIT changes nothing and is awaited by nobody; where it is out of step the server
    /// may be dead, and the connection is dropped without a word.
    pub(super) fn retire(mut self) {
        if self.is_in_step() {
            tokio::spawn(async move {
                let farewell = async {
                    self.wire.write(Quit.to_string().as_bytes()).await?;
                    self.wire.reply().await
                };
                timeout(QUIT_PATIENCE, farewell).await.is_ok()
            });
        }
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
    use crate::provider::smtp::fault::Cause;

    #[tokio::test(start_paused = true)]
    async fn stages_last_as_long_as_rfc_5321_asks_for_and_never_beyond_the_deadline() {
        let (minute, now) = (Duration::from_secs(60), Instant::now());
        let limits = Limits {
            connect: Duration::from_secs(10),
            command: 5 * minute,
            data: 10 * minute,
            deadline: now + 8 * minute,
        };
        let table = [
            (Stage::Connect, Duration::from_secs(10)),
            (Stage::Tls, Duration::from_secs(10)),
            (Stage::Banner, 5 * minute),
            (Stage::Mail, 5 * minute),
            (Stage::Rcpt, 5 * minute),
            (Stage::Data, 2 * minute),
            (Stage::Body, 3 * minute),
            (Stage::FinalDot, 8 * minute),
        ];
        for (stage, expected) in table {
            assert_eq!(limits.until(stage) - now, expected, "{stage:?}");
        }
        let unbounded = Limits { deadline: now + 60 * minute, ..limits };
        assert_eq!(unbounded.until(Stage::FinalDot) - now, 10 * minute);
    }

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
