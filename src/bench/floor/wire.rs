//! The least that SMTP costs: the same bytes for every message, written to a socket in groups of commands, and replies
//! counted by their lines.
//!
//! Owns the plainest client there can be. It renders nothing, understands no reply but that it is no refusal, and trusts
//! the sandbox's provider to answer each command with one line.

use std::{io, net::SocketAddr, sync::Arc};

use time::OffsetDateTime;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};

use crate::{
    bench::{BenchError, figures::rate, mail},
    message::mime,
};

/// What a message is on the wire.
struct Bytes {
    /// MAIL, RCPT and DATA.
    commands: Vec<u8>,
    /// The content and the final dot.
    content: Vec<u8>,
}

/// Messages a second over so many connections, all open before the clock starts.
pub(in crate::bench) async fn measure(
    address: SocketAddr,
    connections: usize,
    messages: u64,
) -> Result<f64, BenchError> {
    let bytes = Arc::new(render()?);
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(connect(address).await.map_err(|error| failed(&error))?);
    }
    let each = messages.div_ceil(connections.max(1) as u64);
    let began = Instant::now();
    let mut senders = JoinSet::new();
    for client in clients {
        senders.spawn(send(client, bytes.clone(), each));
    }
    while let Some(ended) = senders.join_next().await {
        ended.map_err(|error| BenchError::Send(error.to_string()))?.map_err(|error| failed(&error))?;
    }
    Ok(rate(each * connections as u64, began.elapsed()))
}

fn render() -> Result<Bytes, BenchError> {
    let message = mail::message(0, OffsetDateTime::now_utc());
    let mut content = mime::render(&message).map_err(|error| BenchError::Send(error.to_string()))?;
    let (from, to) = (message.email.from.address.as_str(), message.email.to[0].address.as_str());
    let size = content.len();
    content.extend_from_slice(b".\r\n");
    let commands = format!("MAIL FROM:<{from}> SIZE={size}\r\nRCPT TO:<{to}>\r\nDATA\r\n").into_bytes();
    Ok(Bytes { commands, content })
}

async fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut stream = BufReader::new(socket);
    hear(&mut stream, 1).await?;
    stream.write_all(b"EHLO bench.example\r\n").await?;
    let mut line = String::new();
    // Every line of the reply but the last has a hyphen after its code.
    while line.as_bytes().get(3) != Some(&b' ') {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(stream)
}

async fn send(mut stream: BufReader<TcpStream>, bytes: Arc<Bytes>, messages: u64) -> io::Result<()> {
    for _ in 0..messages {
        stream.write_all(&bytes.commands).await?;
        hear(&mut stream, 3).await?;
        stream.write_all(&bytes.content).await?;
        hear(&mut stream, 1).await?;
    }
    Ok(())
}

/// Reads so many lines, none of which may be a refusal.
async fn hear(stream: &mut BufReader<TcpStream>, lines: usize) -> io::Result<()> {
    let mut line = Vec::with_capacity(128);
    for _ in 0..lines {
        line.clear();
        stream.read_until(b'\n', &mut line).await?;
        if !matches!(line.first(), Some(b'2' | b'3')) {
            return Err(io::Error::other(String::from_utf8_lossy(&line).into_owned()));
        }
    }
    Ok(())
}

fn failed(error: &io::Error) -> BenchError {
    BenchError::Send(error.to_string())
}
