//! smtp-sink of Debian's postfix: a server that throws away what it takes, and fails where it is told to.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};

use super::python::skipped;

const PROGRAM: &str = "/usr/sbin/smtp-sink";

/// The server. It stops when it is dropped.
pub struct SmtpSink {
    pub address: SocketAddr,
    _process: Child,
}

impl SmtpSink {
    /// Starts it with those options; `None`, said aloud, where it is not installed.
    pub async fn start(options: &[&str]) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skipped("smtp-sink is not installed (Debian's package postfix has it)");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.expect("a port");
        let mut command = Command::new(PROGRAM);
        if rustix::process::getuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command.args(options).arg(address.to_string()).arg("100").kill_on_drop(true);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("smtp-sink runs");
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).await.is_err() {
            assert!(Instant::now() < until, "smtp-sink does not listen");
            sleep(Duration::from_millis(10)).await;
        }
        Some(Self { address, _process: process })
    }
}
