//! A gate as something that axum serves, with connections that can be cut from outside.
//!
//! Owns no request; knows only bytes.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::gate::Gate;

/// Where axum gets its connections from.
pub(super) struct Entrance(pub(super) Arc<Gate>);

impl Listener for Entrance {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, cut) = self.0.accept().await;
        (Connection { stream, is_cut: Box::pin(cut.clone().cancelled_owned()), cut }, self.0.address())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address())
    }
}

/// A connection that ends for the server as soon as it is cut.
pub(super) struct Connection {
    stream: TcpStream,
    cut: CancellationToken,
    is_cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    /// The server waits for the peer's next byte all the time, also while a request is being answered, so that reading
    /// is where it learns of the cut.
    fn poll_cut(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.is_cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_cut(context)?;
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What a request's handler can do to the connection it came by.
#[derive(Clone)]
pub(super) struct Line(CancellationToken);

impl Line {
    /// Closes the connection without an answer.
    pub(super) fn cut(&self) {
        self.0.cancel();
    }
}

impl Connected<IncomingStream<'_, Entrance>> for Line {
    fn connect_info(stream: IncomingStream<'_, Entrance>) -> Self {
        Self(stream.io().cut.clone())
    }
}
