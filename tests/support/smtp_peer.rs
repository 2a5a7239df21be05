//! An SMTP server that follows a script: well-behaved where the script says nothing.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// What the server does when a moment of its script comes.
#[derive(Clone)]
pub enum Act {
    /// What a well-behaved server does.
    Usual,
    /// Answers with that; a CRLF is added.
    Say(String),
    /// Does the usual and answers with that.
    StoreAndSay(String),
    /// Answers with that and closes.
    SayAndClose(String),
    /// Closes the connection, or resets it if the script says so.
    Close,
    /// Does the usual without an answer, and closes.
    StoreAndClose,
    /// Never answers, until the client goes away.
    Silence,
    /// Answers with a line after the other and no end.
    Trickle,
    /// Does not even read any more.
    Stall,
}

pub fn say(reply: &str) -> Act {
    Act::Say(reply.to_owned())
}

/// What happens on one connection.
#[derive(Clone, Default)]
pub struct Script {
    rules: Vec<(&'static str, Act)>,
    resets: bool,
    tls: Option<TlsAcceptor>,
    implicit_tls: bool,
    pipelining: bool,
}

impl Script {
    /// At that moment: `banner`, `body` (the content begins), `.`, or a command that begins so. Each rule holds once, and
    /// rules for the same moment hold one after the other.
    pub fn on(mut self, moment: &'static str, act: Act) -> Self {
        self.rules.push((moment, act));
        self
    }

    /// Connections are reset instead of closed.
    pub fn resetting(mut self) -> Self {
        self.resets = true;
        self
    }

    /// Takes commands in groups.
    pub fn pipelining(mut self) -> Self {
        self.pipelining = true;
        self
    }

    /// Offers STARTTLS.
    pub fn starttls(mut self, acceptor: TlsAcceptor) -> Self {
        self.tls = Some(acceptor);
        self
    }

    /// Speaks TLS from the first byte.
    pub fn implicit_tls(mut self, acceptor: TlsAcceptor) -> Self {
        self.implicit_tls = true;
        self.starttls(acceptor)
    }

    fn act(&mut self, moment: &str) -> Act {
        match self.rules.iter().position(|(at, _)| moment.to_ascii_lowercase().starts_with(&at.to_ascii_lowercase())) {
            Some(place) => self.rules.remove(place).1,
            None => Act::Usual,
        }
    }
}

/// What the server saw.
#[derive(Clone, Default)]
pub struct Seen {
    /// The commands of each connection, a dot for the end of a content.
    pub commands: Vec<Vec<String>>,
    /// Which connections have ended.
    pub ended: Vec<usize>,
    /// What it stored: the content as it was on the wire, without the final dot.
    pub stored: Vec<Vec<u8>>,
    /// Whether it was ever told more before it had answered what came before.
    pub groups: bool,
}

/// The server. It stops when it is dropped.
pub struct SmtpPeer {
    pub address: SocketAddr,
    seen: watch::Receiver<Seen>,
    task: JoinHandle<()>,
}

impl Drop for SmtpPeer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl SmtpPeer {
    /// Starts it. Each connection follows the next script, and those beyond the last one behave well.
    pub async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of this machine");
        let address = listener.local_addr().expect("its address");
        let (publish, seen) = watch::channel(Seen::default());
        let mut scripts: Vec<Script> = scripts.into_iter().collect();
        scripts.reverse();
        let scripts = Arc::new(Mutex::new(scripts));
        let task = tokio::spawn(async move {
            for index in 0.. {
                let Ok((socket, _)) = listener.accept().await else { return };
                let script = scripts.lock().expect("scripts").pop().unwrap_or_default();
                publish.send_modify(|seen| seen.commands.push(Vec::new()));
                let publish = publish.clone();
                tokio::spawn(async move {
                    let peer = Conversation { index, script, publish: publish.clone() };
                    // How a conversation ends is what the tests are about: it shows in what was seen.
                    drop(peer.run(socket).await);
                    publish.send_modify(|seen| seen.ended.push(index));
                });
            }
        });
        Self { address, seen, task }
    }

    /// What it saw so far.
    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until it has seen something.
    pub async fn wait(&self, what: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.clone();
        let waited = tokio::time::timeout(Duration::from_secs(10), seen.wait_for(|seen| what(seen))).await;
        waited.expect("the server sees it in time").expect("the server is up");
    }
}

struct Conversation {
    index: usize,
    script: Script,
    publish: watch::Sender<Seen>,
}

impl Conversation {
    async fn run(mut self, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        if self.script.resets {
            socket.set_zero_linger()?;
        }
        let mut stream: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(socket));
        if let Some(tls) = self.script.tls.take_if(|_| self.script.implicit_tls) {
            stream = BufReader::new(Box::new(tls.accept(stream.into_inner()).await?));
        }
        self.perform("banner", "220 peer ESMTP", &mut stream).await?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_owned();
            let is_group = !stream.buffer().is_empty();
            self.publish.send_modify(|seen| {
                seen.commands[self.index].push(line.clone());
                seen.groups |= is_group;
            });
            let usual = self.usual(&line);
            let said = self.perform(&line, &usual, &mut stream).await?;
            match line.to_ascii_uppercase().as_str() {
                "DATA" if said.starts_with("354") => self.content(&mut stream).await?,
                "STARTTLS" => {
                    if let Some(tls) = self.script.tls.take() {
                        stream = BufReader::new(Box::new(tls.accept(stream.into_inner()).await?));
                    }
                }
                "QUIT" => return Ok(()),
                _ => {}
            }
        }
    }

    fn usual(&self, line: &str) -> String {
        let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        match verb.as_str() {
            "EHLO" if self.script.tls.is_some() => "250-peer\r\n250 STARTTLS".to_owned(),
            "EHLO" if self.script.pipelining => "250-peer\r\n250-PIPELINING\r\n250 AUTH PLAIN LOGIN".to_owned(),
            "EHLO" => "250-peer\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN".to_owned(),
            "STARTTLS" => "220 go ahead".to_owned(),
            "AUTH" if line.ends_with("LOGIN") => "334 VXNlcm5hbWU6".to_owned(),
            "AUTH" => "235 2.7.0 welcome".to_owned(),
            "DATA" => "354 go ahead".to_owned(),
            "QUIT" => "221 bye".to_owned(),
            _ => "250 OK".to_owned(),
        }
    }

    async fn content(&mut self, stream: &mut BufReader<Box<dyn Stream>>) -> io::Result<()> {
        match self.script.act("body") {
            Act::Usual => {}
            act => {
                stream.fill_buf().await?;
                self.do_it(act, "", stream).await?;
            }
        }
        let mut content = Vec::new();
        while !content.ends_with(b"\r\n.\r\n") && content != b".\r\n" {
            if stream.read_until(b'\n', &mut content).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        content.truncate(content.len() - 3);
        self.publish.send_modify(|seen| seen.commands[self.index].push(".".to_owned()));
        let act = self.script.act(".");
        if matches!(act, Act::Usual | Act::StoreAndSay(_) | Act::StoreAndClose) {
            self.publish.send_modify(|seen| seen.stored.push(content));
        }
        self.do_it(act, "250 2.0.0 OK: queued as PEER1234", stream).await.map(drop)
    }

    async fn perform(
        &mut self,
        moment: &str,
        usual: &str,
        stream: &mut BufReader<Box<dyn Stream>>,
    ) -> io::Result<String> {
        let act = self.script.act(moment);
        self.do_it(act, usual, stream).await
    }

    /// Does it, and gives what was said.
    async fn do_it(&mut self, act: Act, usual: &str, stream: &mut BufReader<Box<dyn Stream>>) -> io::Result<String> {
        let (reply, closes) = match act {
            Act::Usual => (usual.to_owned(), false),
            Act::Say(reply) | Act::StoreAndSay(reply) => (reply, false),
            Act::SayAndClose(reply) => (reply, true),
            Act::Close | Act::StoreAndClose => return Err(io::ErrorKind::ConnectionAborted.into()),
            // Whatever the client says from here on, it is not answered.
            Act::Silence => {
                tokio::io::copy_buf(stream, &mut tokio::io::sink()).await?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Act::Trickle => loop {
                stream.write_all(b"250-wait\r\n").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            },
            Act::Stall => std::future::pending().await,
        };
        // In Latin-1, so that a script can hold bytes that are not UTF-8.
        let bytes: Vec<u8> = reply.chars().map(|c| u8::try_from(c).expect("Latin-1")).chain(*b"\r\n").collect();
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        if closes { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(reply) }
    }
}
