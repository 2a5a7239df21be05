//! A port that can be closed so that connections are refused, and opened again as the same port.
//!
//! Owns the listening socket and the right to cut what came through it; speaks no protocol.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
};
use tokio_util::sync::CancellationToken;

use super::SandboxError;

/// How many connections may wait to be taken.
const BACKLOG: u32 = 1024;

/// How long nothing is taken after the system could not give a connection (no file descriptor left).
const PAUSE: Duration = Duration::from_millis(100);

/// A port that can be closed and opened.
pub(super) struct Gate {
    address: SocketAddr,
    /// Bound and never listened on. While the gate is closed it keeps everybody else from the port, outgoing
    /// connections included, which could otherwise connect to themselves instead of being refused.
    _held: TcpSocket,
    runtime: Handle,
    door: Mutex<Door>,
    taken: AtomicU64,
}

struct Door {
    shut: bool,
    listener: Option<TcpListener>,
    waiting: Option<Waker>,
    connections: CancellationToken,
}

impl Gate {
    /// Opens a gate at the address, or at a free port of 127.0.0.1. Must be called within a Tokio runtime.
    pub(super) fn open_at(address: Option<SocketAddr>) -> Result<Self, SandboxError> {
        let wanted = address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let failed = |source| SandboxError::Listen { address: wanted, source };
        let held = bind(wanted).map_err(failed)?;
        let address = held.local_addr().map_err(failed)?;
        let listener = bind(address).and_then(|socket| socket.listen(BACKLOG)).map_err(failed)?;
        let connections = CancellationToken::new();
        let door = Door { shut: false, listener: Some(listener), waiting: None, connections };
        Ok(Self { address, _held: held, runtime: Handle::current(), door: Mutex::new(door), taken: AtomicU64::new(0) })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections came through it.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// From now on connections are refused; those that are open are cut.
    pub(super) fn close(&self) {
        let mut door = self.door();
        door.listener = None;
        door.connections.cancel();
    }

    /// Closes for good: `open` does nothing any more.
    pub(super) fn shut(&self) {
        self.door().shut = true;
        self.close();
    }

    /// From now on connections are taken.
    pub(super) fn open(&self) -> Result<(), SandboxError> {
        let mut door = self.door();
        if door.shut || door.listener.is_some() {
            return Ok(());
        }
        let _context = self.runtime.enter();
        let listener = bind(self.address)
            .and_then(|socket| socket.listen(BACKLOG))
            .map_err(|source| SandboxError::Listen { address: self.address, source })?;
        door.listener = Some(listener);
        door.connections = CancellationToken::new();
        if let Some(waker) = door.waiting.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Cuts every connection that is open; new ones are taken as before.
    pub(super) fn cut(&self) {
        let mut door = self.door();
        if door.listener.is_some() {
            std::mem::take(&mut door.connections).cancel();
        }
    }

    /// The next connection, with the token that says when it is to be cut. For one task at a time.
    pub(super) async fn accept(&self) -> (TcpStream, CancellationToken) {
        loop {
            match poll_fn(|context| self.poll_accept(context)).await {
                Ok((stream, cut)) => {
                    self.taken.fetch_add(1, Ordering::Relaxed);
                    // Without it small replies wait for the peer's delayed acknowledgement. It fails only on a
                    // connection that is gone already.
                    let _gone = stream.set_nodelay(true);
                    return (stream, cut);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, CancellationToken)>> {
        let mut door = self.door();
        let Some(listener) = &door.listener else {
            door.waiting = Some(context.waker().clone());
            return Poll::Pending;
        };
        match listener.poll_accept(context) {
            Poll::Ready(Ok((stream, _))) => Poll::Ready(Ok((stream, door.connections.child_token()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                // Closing drops the listener and with it the interest in it: `open` must wake this task itself.
                door.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket bound to the address beside others of ours that are bound to it and do not listen.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_closed_gate_refuses_cuts_what_is_open_and_opens_again_as_the_same_port() {
        let gate = Gate::open_at(None).expect("a free port");
        let (open, (stream, cut)) = tokio::join!(TcpStream::connect(gate.address()), gate.accept());
        let mut open = open.expect("it is open");
        tokio::spawn(async move {
            cut.cancelled().await;
            drop(stream);
        });
        gate.close();
        assert_eq!(open.read(&mut [0; 8]).await.expect("closed in good order"), 0);
        // Many, since a connection to a free port of one's own machine now and then connects to itself.
        for _ in 0..2_000 {
            let refused = TcpStream::connect(gate.address()).await.expect_err("it is closed");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
        gate.open().expect("the port is still ours");
        gate.open().expect("opening twice is no matter");
        let (again, _) = tokio::join!(TcpStream::connect(gate.address()), gate.accept());
        again.expect("it is open again");
    }

    #[tokio::test]
    async fn a_gate_that_was_shut_stays_closed() {
        let gate = Gate::open_at(None).expect("a free port");
        gate.shut();
        gate.open().expect("nothing is done");
        TcpStream::connect(gate.address()).await.expect_err("it is closed");
    }

    #[tokio::test]
    async fn cutting_ends_open_connections_and_no_later_ones() {
        let gate = Gate::open_at(None).expect("a free port");
        let (_first, (_, cut)) = tokio::join!(TcpStream::connect(gate.address()), gate.accept());
        gate.cut();
        assert!(cut.is_cancelled());
        let (_second, (_, cut)) = tokio::join!(TcpStream::connect(gate.address()), gate.accept());
        assert!(!cut.is_cancelled());
    }
}
