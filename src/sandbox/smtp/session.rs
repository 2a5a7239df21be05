//! One SMTP session (RFC 5321) from the greeting to the end.
//!
//! Owns the order of commands and the replies; what a fault does happens here, stage by stage.

use std::{io, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    auth,
    fault::{Fault, Reply, Stage},
    service::{Envelope, Service},
    wire::{CommandLine, Stream, Wire},
};

/// How long a silent client is waited for (RFC 5321, section 4.5.3.2.7).
pub(super) const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// One session.
pub(super) struct Session {
    pub(super) service: Arc<Service>,
    pub(super) wire: Wire,
    secure: bool,
    pub(super) greeted: bool,
    pub(super) authenticated: bool,
    pub(super) envelope: Option<Envelope>,
}

/// How the session goes on after a command.
pub(super) enum Next {
    Go,
    StartTls,
    End,
}

/// What the fault that is on does at a stage.
enum Turn {
    /// Nothing: the server replies as it would.
    Usual,
    /// The server has replied by the fault.
    Replied,
    /// The session is over.
    Over,
}

/// Serves a connection to its end. An error is the connection's.
pub(super) async fn serve(service: Arc<Service>, stream: Box<dyn Stream>) -> io::Result<()> {
    let mut stream = stream;
    let mut secure = false;
    if service.implicit_tls {
        stream = under_tls(&service, stream).await?;
        secure = true;
    }
    let mut session = Session::new(service, stream, secure);
    let greeted = session.greet().await?;
    while greeted && session.run().await? {
        // STARTTLS begins the session anew, without a second greeting (RFC 3207, section 4.2).
        let Session { service, wire, .. } = session;
        let stream = under_tls(&service, wire.into_stream()).await?;
        session = Session::new(service, stream, true);
    }
    session.wire.close().await
}

async fn under_tls(service: &Service, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
    let acceptor = service.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
    Ok(Box::new(timeout(PATIENCE, acceptor.accept(stream)).await??))
}

impl Session {
    fn new(service: Arc<Service>, stream: Box<dyn Stream>, secure: bool) -> Self {
        let wire = Wire::new(stream);
        Self { service, wire, secure, greeted: false, authenticated: false, envelope: None }
    }

    async fn greet(&mut self) -> io::Result<bool> {
        match self.meet(Stage::Banner).await? {
            Turn::Usual => self.wire.reply(format_args!("220 {} ESMTP postrider sandbox", self.service.name)),
            // A greeting other than 220 is followed by QUIT at most (RFC 5321, section 3.1).
            Turn::Replied => {}
            Turn::Over => return Ok(false),
        }
        Ok(true)
    }

    /// Takes commands until the session ends; says whether it goes on under TLS.
    async fn run(&mut self) -> io::Result<bool> {
        loop {
            let line = match timeout(PATIENCE, self.wire.command()).await? {
                Ok(CommandLine::Line(line)) => line,
                Ok(CommandLine::Malformed) => {
                    self.wire.reply("500 5.5.2 a command is one line that ends in CRLF");
                    continue;
                }
                Ok(CommandLine::Endless) => {
                    self.wire.reply("500 5.5.2 line too long");
                    return Ok(false);
                }
                Ok(CommandLine::Closed) => return Ok(false),
                Err(error) => return Err(error),
            };
            match self.obey(&line).await? {
                Next::Go => {}
                Next::StartTls => return Ok(true),
                Next::End => return Ok(false),
            }
        }
    }

    async fn obey(&mut self, line: &str) -> io::Result<Next> {
        let (verb, arguments) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.hello(arguments, true).await,
            "HELO" => self.hello(arguments, false).await,
            "STARTTLS" => self.start_tls().await,
            "AUTH" => self.authenticate(arguments).await,
            "MAIL" => self.mail(arguments).await,
            "RCPT" => self.rcpt(arguments).await,
            "DATA" => self.data(arguments).await,
            "RSET" => {
                self.envelope = None;
                self.say("250 2.0.0 forgotten")
            }
            "NOOP" => self.say("250 2.0.0 nothing done"),
            "VRFY" => self.say("252 2.0.0 try to deliver to it"),
            "QUIT" => {
                self.wire.reply("221 2.0.0 bye");
                Ok(Next::End)
            }
            _ => self.say("500 5.5.1 no such command"),
        }
    }

    async fn hello(&mut self, name: &str, extended: bool) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::Hello).await? {
            return Ok(next);
        }
        if name.trim().is_empty() {
            return self.say("501 5.5.4 and who are you?");
        }
        self.greeted = true;
        self.envelope = None;
        if !extended {
            return self.say(format!("250 {}", self.service.name));
        }
        let mut lines = vec![self.service.name.to_string(), format!("SIZE {}", self.service.max_bytes)];
        lines.extend(["8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES", "SMTPUTF8"].map(str::to_owned));
        if self.service.tls.is_some() && !self.secure {
            lines.push("STARTTLS".to_owned());
        } else if self.service.credentials.is_some() {
            lines.push("AUTH PLAIN LOGIN".to_owned());
        }
        let last = lines.pop().unwrap_or_default();
        for line in lines {
            self.wire.reply(format_args!("250-{line}"));
        }
        self.say(format!("250 {last}"))
    }

    async fn start_tls(&mut self) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::StartTls).await? {
            return Ok(next);
        }
        if self.service.tls.is_none() || self.secure {
            return self.say("502 5.5.1 no TLS here");
        }
        self.wire.reply("220 2.0.0 go ahead");
        self.wire.flush().await?;
        Ok(Next::StartTls)
    }

    async fn authenticate(&mut self, arguments: &str) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::Auth).await? {
            return Ok(next);
        }
        let Some(credentials) = self.service.credentials.clone() else {
            return self.say("502 5.5.1 no authentication here");
        };
        if self.service.tls.is_some() && !self.secure {
            return self.say("538 5.7.11 encryption is required");
        }
        if self.authenticated || self.envelope.is_some() {
            return self.say("503 5.5.1 not now");
        }
        match auth::exchange(&mut self.wire, arguments, &credentials).await? {
            auth::Verdict::Known => {
                self.authenticated = true;
                self.say("235 2.7.0 welcome")
            }
            auth::Verdict::Unknown => self.say("535 5.7.8 wrong user name or password"),
            auth::Verdict::Malformed => self.say("501 5.5.2 that is no base64"),
            auth::Verdict::NoSuchMechanism => self.say("504 5.5.4 no such mechanism"),
        }
    }

    /// Lets the fault have its turn; gives how to go on if the server is not to reply as usual.
    pub(super) async fn interrupt(&mut self, stage: Stage) -> io::Result<Option<Next>> {
        Ok(match self.meet(stage).await? {
            Turn::Usual => None,
            Turn::Replied => Some(Next::Go),
            Turn::Over => Some(Next::End),
        })
    }

    async fn meet(&mut self, at: Stage) -> io::Result<Turn> {
        let fault = self.service.fault();
        match &*fault {
            Fault::Silent { stage } if *stage == at => {
                self.wire.flush().await?;
                self.wire.swallow().await?;
                Ok(Turn::Over)
            }
            Fault::Drop { stage } if *stage == at => Ok(Turn::Over),
            Fault::Delay { stage, by } if *stage == at => {
                // What was replied before is not late.
                self.wire.flush().await?;
                sleep(*by).await;
                Ok(Turn::Usual)
            }
            Fault::Status { stage, reply } if *stage == at => {
                self.wire.reply(reply);
                Ok(if is_last(at, reply) { Turn::Over } else { Turn::Replied })
            }
            _ => Ok(Turn::Usual),
        }
    }

    /// Replies, and goes on.
    pub(super) fn say(&mut self, reply: impl std::fmt::Display) -> io::Result<Next> {
        self.wire.reply(reply);
        Ok(Next::Go)
    }
}

/// Whether the connection is closed after the reply: after 421, and after a greeting that greets nobody.
fn is_last(stage: Stage, reply: &Reply) -> bool {
    reply.code == 421 || (stage == Stage::Banner && reply.code != 220)
}
