//! The bytes of a conversation: a socket, plain or under TLS, that commands are written to and replies are read from.
//!
//! Knows nothing of SMTP but where a reply ends and how long it may be.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use futures_util::task::noop_waker_ref;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{fault::Loss, reply::Reply};

/// The most that is read as one reply. No server needs so much; one that never ends its line must not fill memory.
const REPLY_LIMIT: usize = 64 * 1024;

/// How much is read at a time.
const CHUNK: usize = 4 * 1024;

/// What a conversation goes over: a TCP stream, perhaps under TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    is_tls: bool,
    peer: SocketAddr,
    /// What was heard and belongs to no reply yet.
    heard: BytesMut,
    /// How it ended, if it was seen to.
    end: Option<Loss>,
}

impl Wire {
    /// The wire over a connected socket, in clear text.
    pub(super) fn new(socket: TcpStream) -> io::Result<Self> {
        let peer = socket.peer_addr()?;
        Ok(Self { stream: Box::new(socket), is_tls: false, peer, heard: BytesMut::new(), end: None })
    }

    /// The wire as if the server were at that address.
    #[cfg(test)]
    pub(super) fn as_if_at(peer: SocketAddr, socket: TcpStream) -> io::Result<Self> {
        Ok(Self { peer, ..Self::new(socket)? })
    }

    /// Turns it to TLS.
    pub(super) async fn secure(self, tls: &TlsConnector, name: ServerName<'static>) -> io::Result<Self> {
        let stream = tls.connect(name, self.stream).await?;
        Ok(Self { stream: Box::new(stream), is_tls: true, ..self })
    }

    /// Writes it all. After an error its last byte has not left this machine, so that the server cannot have it.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        self.stream.write_all(bytes).await.map_err(|error| Loss::of_io(&error))?;
        self.stream.flush().await.map_err(|error| Loss::of_io(&error))
    }

    /// The next reply. What was heard is kept if this is dropped.
    pub(super) async fn reply(&mut self) -> Result<Reply, Loss> {
        let mut is_line_ended = true;
        loop {
            if is_line_ended && let Some((reply, length)) = Reply::parse(&self.heard).map_err(|_| Loss::Garbled)? {
                self.heard.advance(length);
                return Ok(reply);
            }
            let before = self.heard.len();
            if before > REPLY_LIMIT {
                return Err(Loss::Garbled);
            }
            if let Some(end) = self.end {
                return Err(end);
            }
            self.heard.reserve(CHUNK);
            match self.stream.read_buf(&mut self.heard).await {
                Ok(0) => return Err(Loss::Eof),
                Ok(_) => is_line_ended = self.heard[before..].contains(&b'\n'),
                Err(error) => return Err(Loss::of_io(&error)),
            }
        }
    }

    /// Whether something was heard beyond the replies that were read.
    pub(super) fn has_unread(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Whether nobody listens in: it is TLS, or does not leave this machine.
    pub(super) fn is_private(&self) -> bool {
        self.is_tls || is_this_machine(self.peer)
    }

    /// Whether the server has said nothing unasked for and has not closed it, as far as this machine has heard.
    pub(super) fn is_quiet(&mut self) -> bool {
        if self.has_unread() || self.end.is_some() {
            return false;
        }
        let mut chunk = [0; CHUNK];
        let mut chunk = ReadBuf::new(&mut chunk);
        let mut context = Context::from_waker(noop_waker_ref());
        match Pin::new(&mut *self.stream).poll_read(&mut context, &mut chunk) {
            Poll::Pending => return true,
            Poll::Ready(Ok(())) if chunk.filled().is_empty() => self.end = Some(Loss::Eof),
            Poll::Ready(Ok(())) => self.heard.extend_from_slice(chunk.filled()),
            // A socket tells of its end once.
            Poll::Ready(Err(error)) => self.end = Some(Loss::of_io(&error)),
        }
        false
    }
}

fn is_this_machine(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener, task::yield_now};

    use super::*;

    async fn connected() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let wire = Wire::new(TcpStream::connect(address).await.expect("a connection")).expect("a wire");
        let (server, _) = listener.accept().await.expect("a connection");
        (wire, server)
    }

    #[tokio::test]
    async fn a_wire_is_quiet_until_the_server_says_something_or_closes_it() {
        for says in [&b"250 stray\r\n"[..], b""] {
            let (mut wire, mut server) = connected().await;
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
            // What broke the quiet is not lost.
            assert_eq!(wire.reply().await.ok().map(|reply| reply.code), (!says.is_empty()).then_some(250), "{says:?}");
        }
    }

    #[tokio::test]
    async fn replies_that_come_together_or_in_pieces_are_read_in_order() {
        let (mut wire, mut server) = connected().await;
        server.write_all(b"250 one\r\n550-two\r\n550 two\r\n35").await.expect("a listener");
        assert_eq!(wire.reply().await.ok().map(|reply| reply.text()), Some("one".to_owned()));
        assert!(wire.has_unread());
        assert_eq!(wire.reply().await.ok().map(|reply| reply.text()), Some("two two".to_owned()));
        for byte in b"4 three\r\n" {
            server.write_all(&[*byte]).await.expect("a listener");
        }
        assert_eq!(wire.reply().await.ok().map(|reply| reply.code), Some(354));
        assert!(!wire.has_unread());
        drop(server);
        assert_eq!(wire.reply().await.err(), Some(Loss::Eof));
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
