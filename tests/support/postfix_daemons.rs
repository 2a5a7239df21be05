//! What a postfix asks: who may authenticate, and whether a recipient is taken yet.

use std::{collections::HashSet, io, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinHandle,
};

/// A server of Dovecot's authentication protocol, which postfix's smtpd speaks, with one user. It stops when it is
/// dropped.
pub struct SaslServer {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Drop for SaslServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SaslServer {
    pub async fn start(user: &str, password: &str) -> Self {
        let (listener, port) = listen().await;
        let right = BASE64_STANDARD.encode(format!("\0{user}\0{password}"));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let right = right.clone();
                // How a connection ends is postfix's business.
                tokio::spawn(async move { drop(authenticate(socket, &right).await) });
            }
        });
        Self { port, task }
    }
}

async fn authenticate(socket: TcpStream, right: &str) -> io::Result<()> {
    let mut stream = BufReader::new(socket);
    stream.write_all(b"VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t00\nDONE\n").await?;
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let words: Vec<&str> = line.trim_end().split('\t').collect();
        if let ["AUTH", id, "PLAIN", parameters @ ..] = words.as_slice() {
            let is_right = parameters.iter().any(|parameter| parameter.strip_prefix("resp=") == Some(right));
            let answer = if is_right { format!("OK\t{id}\tuser=user\n") } else { format!("FAIL\t{id}\n") };
            stream.write_all(answer.as_bytes()).await?;
        }
        line.clear();
    }
    Ok(())
}

/// A policy server that greylists one recipient: refused for now the first time. It stops when it is dropped.
pub struct GreylistingPolicy {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Drop for GreylistingPolicy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GreylistingPolicy {
    pub async fn start(greylisted: &str) -> Self {
        let (listener, port) = listen().await;
        let unknown = Arc::new(Mutex::new(HashSet::from([format!("recipient={greylisted}")])));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let unknown = unknown.clone();
                // How a connection ends is postfix's business.
                tokio::spawn(async move { drop(decide(socket, &unknown).await) });
            }
        });
        Self { port, task }
    }
}

/// A request is lines of names with values, ended by an empty one, and so is the answer.
async fn decide(socket: TcpStream, unknown: &Mutex<HashSet<String>>) -> io::Result<()> {
    let mut stream = BufReader::new(socket);
    let (mut line, mut is_unknown) = (String::new(), false);
    while stream.read_line(&mut line).await? > 0 {
        is_unknown |= unknown.lock().await.remove(line.trim_end());
        if line == "\n" {
            let action = if is_unknown { "450 4.2.0 Greylisted, come again" } else { "DUNNO" };
            stream.write_all(format!("action={action}\n\n").as_bytes()).await?;
            is_unknown = false;
        }
        line.clear();
    }
    Ok(())
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    (listener, port)
}
