//! Whatever a server answers, what is told of a recipient is what the server did for it.
//!
//! A server makes its choices by dice: it takes, refuses, says too much, takes its leave or hangs up at any command. What
//! it really stored, and whom it refused, is held against the verdicts, over connections that carry several messages.
//! Those that hang up do not say too much: nobody could know then whom the last replies were about.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use postrider::{delivery::Class, provider::Provider};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{message_to, provider, settings};

const GAMES: u64 = 250;
const MESSAGES: usize = 4;
const LOCALS: [&str; 4] = ["one", "two", "three", "four"];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What the server did, by the text of the message and the recipient.
#[derive(Default)]
struct Deeds {
    /// Whose content came to its end, whatever was answered then.
    ended: Vec<(String, String)>,
    /// Whose content was stored.
    stored: Vec<(String, String)>,
    /// Who was refused, for good or for now.
    refused: Vec<String>,
}

struct Server {
    address: SocketAddr,
    deeds: Arc<Mutex<Deeds>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(seed: u64, pipelining: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let deeds = Arc::new(Mutex::new(Deeds::default()));
        let shared = deeds.clone();
        let task = tokio::spawn(async move {
            let mut dice = Dice(seed);
            while let Ok((socket, _)) = listener.accept().await {
                let dice = Dice(dice.throw(u64::from(u32::MAX)));
                let conversation = Conversation::new(socket, dice, seed.is_multiple_of(2), shared.clone());
                // How a conversation ends shows in what is told of the messages.
                tokio::spawn(async move { drop(conversation.run(pipelining).await) });
            }
        });
        Self { address, deeds, task }
    }
}

struct Conversation {
    stream: BufReader<TcpStream>,
    dice: Dice,
    hangs_up: bool,
    deeds: Arc<Mutex<Deeds>>,
    /// The recipients that were taken; `None` without MAIL.
    open: Option<Vec<String>>,
}

impl Conversation {
    fn new(socket: TcpStream, dice: Dice, hangs_up: bool, deeds: Arc<Mutex<Deeds>>) -> Self {
        socket.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(socket), dice, hangs_up, deeds, open: None }
    }

    async fn run(mut self, pipelining: bool) -> io::Result<()> {
        self.say("220 dice").await?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            match line.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" if pipelining => self.say("250-dice\r\n250 PIPELINING").await?,
                "MAIL" if self.open.is_some() => self.say("503 5.5.1 nested").await?,
                "MAIL" => {
                    if self.decide("250 OK", &["550 5.7.1 not owner", "450 4.3.0 later"]).await? {
                        self.open = Some(Vec::new());
                    }
                }
                "RCPT" => self.rcpt(line).await?,
                "DATA" => self.data().await?,
                "RSET" => {
                    self.open = None;
                    self.say("250 OK").await?;
                }
                _ => self.say("250 OK").await?,
            }
        }
    }

    async fn rcpt(&mut self, line: &str) -> io::Result<()> {
        if self.open.is_none() {
            return self.say("503 5.5.1 MAIL first").await;
        }
        let refusals =
            ["550 5.1.1 unknown", "450 4.2.0 greylisted", "452 4.5.3 too many", "454 4.7.1 Relay access denied"];
        let local = line.trim_start_matches("RCPT TO:<").split('@').next().unwrap_or_default().to_owned();
        if self.decide("250 OK", &refusals).await? {
            self.open.get_or_insert_default().push(local);
        } else {
            self.note(|deeds| deeds.refused.push(local));
        }
        Ok(())
    }

    async fn data(&mut self) -> io::Result<()> {
        if self.open.as_ref().is_none_or(Vec::is_empty) {
            return self.say("503 5.5.1 RCPT first").await;
        }
        if !self.decide("354 go ahead", &["554 5.7.1 no", "451 4.3.0 later"]).await? {
            return Ok(());
        }
        let mut text = String::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == ".\r\n" {
                break;
            }
            text = line.trim_end().to_owned();
        }
        let whose: Vec<_> =
            self.open.take().unwrap_or_default().into_iter().map(|local| (text.clone(), local)).collect();
        self.note(|deeds| deeds.ended.extend(whose.clone()));
        // Stored, and the answer does not come.
        if self.hangs_up && self.dice.throw(16) == 0 {
            self.note(|deeds| deeds.stored.extend(whose));
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        // Noted before it is said, as a server stores it before.
        let refusals = ["554 5.6.0 no", "450 4.7.1 later", "552 5.3.4 large"];
        let noted = |deeds: &mut Deeds| deeds.stored.extend(whose);
        self.decide_noting("250 OK: queued as DICE1234", &refusals, noted).await.map(drop)
    }

    async fn decide(&mut self, yes: &str, refusals: &[&str]) -> io::Result<bool> {
        self.decide_noting(yes, refusals, |_| {}).await
    }

    /// Does it, or does not; says so, perhaps twice, or hangs up.
    async fn decide_noting(&mut self, yes: &str, refusals: &[&str], note: impl FnOnce(&mut Deeds)) -> io::Result<bool> {
        match self.dice.throw(16) {
            0 if self.hangs_up => Err(io::ErrorKind::ConnectionAborted.into()),
            1 if self.hangs_up => {
                self.say("421 4.3.2 going down").await?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            0..=2 if !self.hangs_up => {
                self.note(note);
                self.say(&format!("{yes}\r\n{yes}")).await?;
                Ok(true)
            }
            3..=6 => {
                let which = usize::try_from(self.dice.throw(refusals.len() as u64)).unwrap();
                self.say(refusals[which]).await?;
                Ok(false)
            }
            _ => {
                self.note(note);
                self.say(yes).await?;
                Ok(true)
            }
        }
    }

    async fn say(&mut self, reply: &str) -> io::Result<()> {
        self.stream.write_all(format!("{reply}\r\n").as_bytes()).await
    }

    fn note(&self, what: impl FnOnce(&mut Deeds)) {
        what(&mut self.deeds.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[tokio::test]
async fn what_is_told_of_each_recipient_is_what_the_server_did() {
    let mut told = [0; 3];
    for game in 0..GAMES {
        for pipelining in [false, true] {
            let server = Server::start(game, pipelining).await;
            let relay = provider(&settings(server.address));
            for number in 0..MESSAGES {
                let text = format!("message {number}");
                // Of its own for each message, so that it is known what was said of whom.
                let locals = LOCALS.map(|local| format!("{local}{number}"));
                let outcome = relay.send(message_to(&locals.each_ref().map(String::as_str), &text)).await;
                super::classes(&outcome);
                let deeds = server.deeds.lock().unwrap();
                for (recipient, verdict) in &outcome.verdicts {
                    let deed = (text.clone(), locals[usize::from(recipient.0)].clone());
                    let count = |of: &[(String, String)]| of.iter().filter(|done| **done == deed).count();
                    let (ended, stored) = (count(&deeds.ended), count(&deeds.stored));
                    let what = format!("game {game}, in groups {pipelining}, {deed:?}: {verdict:?}");
                    match verdict.class {
                        Class::Accepted => assert_eq!(stored, 1, "{what}"),
                        Class::OutcomeUnknown => assert_eq!(ended, 1, "{what}"),
                        Class::RecipientRejected => {
                            assert_eq!((stored, deeds.refused.contains(&deed.1)), (0, true), "{what}");
                        }
                        _ => assert_eq!(stored, 0, "{what}"),
                    }
                    told[match verdict.class {
                        Class::Accepted => 0,
                        Class::OutcomeUnknown => 1,
                        _ => 2,
                    }] += 1;
                }
            }
        }
    }
    assert!(told.iter().all(|count| *count > 50), "the dice showed too little: {told:?}");
}
