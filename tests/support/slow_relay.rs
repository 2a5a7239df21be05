//! The SMTP of [`super::slow_provider`]: every mail is taken at its final dot.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::slow_provider::Desk;

/// Speaks with everybody who comes.
pub async fn serve(listener: TcpListener, desk: Desk) {
    let mut conversations = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        let desk = desk.clone();
        // Clients that are killed break off at any place.
        conversations.spawn(async move { drop(converse(socket, &desk).await) });
    }
}

async fn converse(socket: TcpStream, desk: &Desk) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = BufReader::new(socket);
    stream.write_all(b"220 relay ESMTP\r\n").await?;
    let mut caller = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let (verb, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => {
                caller = rest.to_owned();
                stream.write_all(b"250-relay\r\n250 8BITMIME\r\n").await?;
            }
            "DATA" => {
                stream.write_all(b"354 go ahead\r\n").await?;
                let message = read_content(&mut stream).await?;
                desk.take(message, caller.clone()).await;
                stream.write_all(b"250 2.0.0 OK: queued\r\n").await?;
            }
            "QUIT" => return stream.write_all(b"221 bye\r\n").await,
            _ => stream.write_all(b"250 OK\r\n").await?,
        }
    }
}

/// Reads to the final dot, and gives the message's id, which its Message-ID begins with.
async fn read_content(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut id = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((named, _)) = line.strip_prefix("Message-ID: <").and_then(|rest| rest.split_once('@')) {
            id = Some(named.to_owned());
        }
        if line == ".\r\n" {
            return Ok(id.expect("every mail has a Message-ID"));
        }
    }
}
