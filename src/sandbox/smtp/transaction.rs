//! The mail transaction of a session: MAIL, RCPT, DATA (RFC 5321, section 3.3).
//!
//! Owns whose mail is taken and in what order; what precedes and follows it is the session's.

use std::{io, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    fault::{Fault, Stage},
    path::PathArguments,
    service::Envelope,
    session::{Next, PATIENCE, Session},
    wire::Data,
};

impl Session {
    /// MAIL.
    pub(super) async fn mail(&mut self, arguments: &str) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::Mail).await? {
            return Ok(next);
        }
        if !self.greeted {
            return self.say("503 5.5.1 EHLO first");
        }
        if self.envelope.is_some() {
            return self.say("503 5.5.1 there is a sender already");
        }
        if self.service.credentials.is_some() && !self.authenticated {
            return self.say("530 5.7.0 authentication required");
        }
        let Some(path) = PathArguments::parse(arguments, "FROM") else {
            return self.say("501 5.1.7 MAIL FROM:<address>");
        };
        let mut envelope = Envelope { sender: path.address.to_owned(), ..Envelope::default() };
        for (name, value) in path.parameters {
            match (name.to_ascii_uppercase().as_str(), value) {
                ("SIZE", Some(size)) => match size.parse::<usize>() {
                    Ok(size) if size <= self.service.max_bytes => {}
                    Ok(_) => return self.say("552 5.3.4 too large"),
                    Err(_) => return self.say("501 5.5.4 SIZE is a number"),
                },
                ("BODY", Some(body)) if ["7BIT", "8BITMIME"].contains(&body.to_ascii_uppercase().as_str()) => {}
                ("SMTPUTF8", None) => envelope.smtputf8 = true,
                ("AUTH", Some(_)) if self.service.credentials.is_some() => {}
                _ => return self.say("555 5.5.4 no such parameter"),
            }
        }
        if !envelope.smtputf8 && !envelope.sender.is_ascii() {
            return self.say("553 5.6.7 SMTPUTF8 is needed");
        }
        self.envelope = Some(envelope);
        self.say("250 2.1.0 ok")
    }

    /// RCPT.
    pub(super) async fn rcpt(&mut self, arguments: &str) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::Rcpt).await? {
            return Ok(next);
        }
        let fault = self.service.fault();
        let Some(envelope) = &mut self.envelope else { return self.say("503 5.5.1 MAIL first") };
        let path = match PathArguments::parse(arguments, "TO") {
            Some(path) if !path.address.is_empty() => path,
            _ => return self.say("501 5.1.3 RCPT TO:<address>"),
        };
        if !path.parameters.is_empty() {
            return self.say("555 5.5.4 no such parameter");
        }
        if !envelope.smtputf8 && !path.address.is_ascii() {
            return self.say("553 5.6.7 SMTPUTF8 is needed");
        }
        if envelope.recipients.len() >= self.service.max_recipients {
            return self.say("452 4.5.3 too many recipients");
        }
        match &*fault {
            Fault::RejectRecipient(pattern) if pattern.matches(path.address) => self.say("550 5.1.1 no such mailbox"),
            Fault::DeferRecipient(pattern) if pattern.matches(path.address) => self.say("450 4.2.0 greylisted"),
            _ => {
                envelope.recipients.push(path.address.to_owned());
                self.say("250 2.1.5 ok")
            }
        }
    }

    /// DATA, with the data up to its dot.
    pub(super) async fn data(&mut self, arguments: &str) -> io::Result<Next> {
        if let Some(next) = self.interrupt(Stage::Data).await? {
            return Ok(next);
        }
        if !arguments.is_empty() {
            return self.say("501 5.5.4 DATA has no arguments");
        }
        let envelope = match self.envelope.take() {
            Some(envelope) if !envelope.recipients.is_empty() => envelope,
            // Without a recipient the client may still send RCPT.
            envelope => {
                self.envelope = envelope;
                return self.say("503 5.5.1 RCPT first");
            }
        };
        self.wire.reply("354 end with a dot on a line of its own");
        let data = timeout(PATIENCE, self.wire.data(self.service.max_bytes)).await??;
        self.dot(envelope, data).await
    }

    /// Replies to the end of the data.
    async fn dot(&mut self, envelope: Envelope, data: Data) -> io::Result<Next> {
        let data = match data {
            Data::Whole(data) => data,
            Data::TooLarge => return self.say("552 5.3.4 too large"),
            Data::LineTooLong => return self.say("554 5.6.0 a line is longer than 998 octets"),
            Data::Closed => return Ok(Next::End),
        };
        let fault = self.service.fault();
        let late = match &*fault {
            Fault::DropAfterDot { stored } => {
                if *stored {
                    self.service.keep(envelope, data);
                }
                return Ok(Next::End);
            }
            Fault::Delay { stage: Stage::Dot, by } => *by,
            _ => match self.interrupt(Stage::Dot).await? {
                Some(next) => return Ok(next),
                None => Duration::ZERO,
            },
        };
        let number = self.service.keep(envelope, data);
        if !late.is_zero() {
            sleep(late).await;
        }
        self.say(format!("250 2.0.0 kept as {}-{number}", self.service.name))
    }
}
