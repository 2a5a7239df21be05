//! An HTTP server over raw TCP, so that it can misbehave in ways that a decent server cannot.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// What the peer does with one request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Reads the request, answers with these bytes, keeps the connection.
    Answer(String),
    /// Reads the request, answers with these bytes, closes the connection.
    AnswerAndClose(String),
    /// Reads the request, and answers with these bytes once the client has given up.
    Late(String),
    /// Reads the request and says nothing.
    Silent,
    /// Reads nothing.
    Deaf,
    /// Resets the connection after it read so many bytes.
    ResetAfter(usize),
    /// Reads the request, writes these bytes, then a space every few milliseconds until the client has gone.
    Trickle(String),
    /// Reads the request, writes these bytes, then spaces as fast as it can until the client has gone.
    Endless(String),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// The request line.
    pub line: String,
    /// The headers, in their order, the names as they were written.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection it came over, from 0.
    pub connection: usize,
}

impl Received {
    /// The value of a header that may occur once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} occurs twice");
        first
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// A response with a body, complete.
pub fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} -\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The server. Its connections end with it.
pub struct HttpPeer {
    address: SocketAddr,
    scheme: &'static str,
    events: mpsc::UnboundedReceiver<Event>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
enum Event {
    Request(Received),
    Closed,
}

impl HttpPeer {
    /// A server that treats the nth request by the nth behaviour, and every further one by the last.
    pub async fn start(behaviours: &[Behaviour]) -> Self {
        Self::listen(behaviours, None).await
    }

    /// The same behind TLS.
    pub async fn start_tls(behaviours: &[Behaviour], config: ServerConfig) -> Self {
        Self::listen(behaviours, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(behaviours: &[Behaviour], tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (sender, events) = mpsc::unbounded_channel();
        let script = Script { behaviours: behaviours.to_vec(), next: Arc::default() };
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.spawn(serve(stream, tls.clone(), script.clone(), connection, sender.clone()));
            }
        });
        Self { address, scheme, events, accepting }
    }

    /// Where emails are posted.
    pub fn url(&self) -> String {
        format!("{}://localhost:{}/v1/emails?tenant=7", self.scheme, self.address.port())
    }

    /// The next request that arrived whole.
    pub async fn request(&mut self) -> Received {
        loop {
            if let Event::Request(request) = self.event().await {
                return request;
            }
        }
    }

    /// Waits until the peer itself has closed a connection.
    pub async fn closed(&mut self) {
        while !matches!(self.event().await, Event::Closed) {}
    }

    async fn event(&mut self) -> Event {
        timeout(Duration::from_secs(10), self.events.recv()).await.expect("in time").expect("the peer runs")
    }

    /// Where it listens, without a path.
    pub fn base(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.address.port())
    }

    /// Whether nothing more arrived whole.
    pub fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone)]
struct Script {
    behaviours: Vec<Behaviour>,
    next: Arc<std::sync::atomic::AtomicUsize>,
}

impl Script {
    fn current(&self) -> Behaviour {
        let next = self.next.load(std::sync::atomic::Ordering::SeqCst);
        self.behaviours[next.min(self.behaviours.len() - 1)].clone()
    }

    fn advance(&self) {
        self.next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    script: Script,
    connection: usize,
    events: mpsc::UnboundedSender<Event>,
) {
    if let Behaviour::ResetAfter(bytes) = script.current() {
        return reset_after(stream, bytes).await;
    }
    let mut wire: Box<dyn Wire> = match tls {
        None => Box::new(stream),
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
    };
    // An error here is the client gone, which is how most of these conversations end.
    while let Ok(Some(Behaviour::Answer(_))) = converse(&mut wire, &script, connection, &events).await {}
}

async fn reset_after(mut stream: TcpStream, bytes: usize) {
    let mut rest = vec![0; bytes];
    stream.read_exact(&mut rest).await.expect("more bytes than that");
    stream.set_zero_linger().expect("a socket option");
}

async fn converse(
    wire: &mut Box<dyn Wire>,
    script: &Script,
    connection: usize,
    events: &mpsc::UnboundedSender<Event>,
) -> io::Result<Option<Behaviour>> {
    if matches!(script.current(), Behaviour::Deaf) {
        return std::future::pending().await;
    }
    let Some(request) = read_request(wire, connection).await? else { return Ok(None) };
    let behaviour = script.current();
    script.advance();
    // A test that has ended does not listen any more.
    events.send(Event::Request(request)).map_err(io::Error::other)?;
    match &behaviour {
        Behaviour::Answer(bytes) => wire.write_all(bytes.as_bytes()).await?,
        Behaviour::AnswerAndClose(bytes) => {
            wire.write_all(bytes.as_bytes()).await?;
            wire.shutdown().await?;
            events.send(Event::Closed).map_err(io::Error::other)?;
        }
        Behaviour::Trickle(bytes) => {
            wire.write_all(bytes.as_bytes()).await?;
            loop {
                wire.write_all(b" ").await?;
                wire.flush().await?;
                sleep(Duration::from_millis(5)).await;
            }
        }
        Behaviour::Endless(bytes) => {
            wire.write_all(bytes.as_bytes()).await?;
            let spaces = vec![b' '; 16 * 1024];
            loop {
                wire.write_all(&spaces).await?;
            }
        }
        Behaviour::Late(bytes) => {
            while wire.read_u8().await.is_ok() {}
            // Whether it can still be written is the client's doing.
            wire.write_all(bytes.as_bytes()).await?;
        }
        Behaviour::Silent | Behaviour::Deaf | Behaviour::ResetAfter(_) => std::future::pending().await,
    }
    wire.flush().await?;
    Ok(Some(behaviour))
}

async fn read_request(wire: &mut Box<dyn Wire>, connection: usize) -> io::Result<Option<Received>> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if wire.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8(read[..end].to_vec()).expect("an ASCII head");
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> =
        lines.map(|line| line.split_once(": ").map(|(n, v)| (n.to_owned(), v.to_owned())).expect("a header")).collect();
    let mut received = Received { line, headers, body: read.split_off(end + 4), connection };
    let length =
        if received.line.starts_with("GET ") { "0" } else { received.header("content-length").expect("a length") };
    let length: usize = length.parse().expect("a number");
    while received.body.len() < length {
        if wire.read_buf(&mut received.body).await? == 0 {
            return Ok(None);
        }
    }
    assert_eq!(received.body.len(), length, "more than one request at once");
    Ok(Some(received))
}
