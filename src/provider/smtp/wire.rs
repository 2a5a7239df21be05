//! The stream under lettre's connection: a socket of our own, plain or TLS, that remembers what the server said.
//!
//! Knows nothing of SMTP but how long a reply may be.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_util::task::noop_waker_ref;
use lettre::transport::smtp::client::AsyncTokioStream;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The most that is read as one reply. No server needs so much; one that never ends its line must not fill memory.
const REPLY_LIMIT: usize = 64 * 1024;

/// The stream, shared between lettre's connection, which speaks over it, and the session, which looks at what was
/// heard and turns it to TLS. Only one of them uses it at a time: a command is never under way while the session does.
#[derive(Clone)]
pub(super) struct Wire {
    state: Arc<Mutex<State>>,
    peer: SocketAddr,
}

struct State {
    /// `None` only while the handshake has it.
    stream: Option<Stream>,
    heard: Vec<u8>,
    closed: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// The wire over a connected socket, in clear text.
    pub(super) fn new(socket: TcpStream) -> io::Result<Self> {
        let peer = socket.peer_addr()?;
        let state = State { stream: Some(Stream::Plain(socket)), heard: Vec::new(), closed: false };
        Ok(Self { state: Arc::new(Mutex::new(state)), peer })
    }

    /// The wire as if the server were at that address.
    #[cfg(test)]
    pub(super) fn as_if_at(peer: SocketAddr, socket: TcpStream) -> io::Result<Self> {
        Ok(Self { peer, ..Self::new(socket)? })
    }

    /// Turns it to TLS. After an error it cannot be used any more.
    pub(super) async fn secure(&self, tls: &TlsConnector, name: ServerName<'static>) -> io::Result<()> {
        let Some(Stream::Plain(socket)) = self.state().stream.take() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let secured = tls.connect(name, socket).await?;
        self.state().stream = Some(Stream::Tls(Box::new(secured)));
        Ok(())
    }

    /// Forgets what was heard: a new command is to be sent.
    pub(super) fn forget(&self) {
        self.state().heard.clear();
    }

    /// What was heard since.
    pub(super) fn heard(&self) -> Vec<u8> {
        self.state().heard.clone()
    }

    /// Whether the server has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether nobody listens in: it is TLS, or does not leave this machine.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.state().stream, Some(Stream::Tls(_))) || is_this_machine(self.peer)
    }

    /// Whether the server has said nothing unasked for and has not closed it, as far as this machine has heard.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(noop_waker_ref());
        match self.state().stream.as_mut() {
            Some(stream) => stream.poll_read(&mut context, &mut ReadBuf::new(&mut byte)).is_pending(),
            None => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_this_machine(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

impl State {
    fn stream(&mut self) -> io::Result<&mut Stream> {
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let before = buf.filled().len();
        ready!(state.stream()?.poll_read(cx, buf))?;
        let fresh = &mut buf.filled_mut()[before..];
        state.closed |= fresh.is_empty();
        state.heard.extend_from_slice(fresh);
        if state.heard.len() > REPLY_LIMIT {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "reply too long")));
        }
        // lettre takes a reply that is not UTF-8 for a broken connection.
        fresh.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.state().stream()? {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state().stream()? {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state().stream()? {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl AsyncTokioStream for Wire {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, net::TcpListener, task::yield_now};

    use super::*;

    #[tokio::test]
    async fn a_wire_is_quiet_until_the_server_says_something_or_closes_it() {
        for says in [&b"250 stray\r\n"[..], b""] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its address");
            let wire = Wire::new(TcpStream::connect(address).await.expect("a connection")).expect("a wire");
            let (mut server, _) = listener.accept().await.expect("a connection");
            assert!(wire.is_quiet());
            server.write_all(says).await.expect("a listener");
            drop(server);
            let heard = async {
                while wire.is_quiet() {
                    yield_now().await;
                }
            };
            let patience = std::time::Duration::from_secs(10);
            assert!(tokio::time::timeout(patience, heard).await.is_ok(), "{says:?}");
        }
    }

    #[test]
    fn only_a_loopback_address_is_this_machine() {
        let table = [
            ("127.0.0.1:25", true),
            ("127.8.9.1:25", true),
            ("[::1]:25", true),
            ("[::ffff:127.0.0.1]:25", true),
            ("10.0.0.1:25", false),
            ("192.0.2.1:25", false),
            ("[fe80::1]:25", false),
            ("0.0.0.0:25", false),
        ];
        for (peer, expected) in table {
            assert_eq!(is_this_machine(peer.parse().expect("an address")), expected, "{peer}");
        }
    }
}
