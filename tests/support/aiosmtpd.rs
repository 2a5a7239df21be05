//! aiosmtpd, an SMTP server that nobody here wrote.

use std::{path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};

use super::python::{PYTHON, has_modules, repository};

/// The user it knows, and the password.
pub const CREDENTIALS: (&str, &str) = ("user", "secret");

/// The server: TLS is required, then AUTH. It stops when it is dropped.
pub struct Aiosmtpd {
    pub port: u16,
    folder: TempDir,
    lines: mpsc::UnboundedReceiver<String>,
    _process: Child,
}

/// A message as it was handed over.
#[derive(Debug, serde::Deserialize)]
pub struct Handed {
    /// The recipients of the envelope that were not refused.
    pub to: Vec<String>,
    #[serde(deserialize_with = "from_base64")]
    /// The content, dots unstuffed.
    pub content: Vec<u8>,
}

fn from_base64<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
}

impl Aiosmtpd {
    /// Starts it with STARTTLS; `None` where the environment leaves such tests out.
    pub async fn start() -> Option<Self> {
        Self::start_secured("starttls").await
    }

    /// Starts it with TLS from the first byte; `None` where the environment leaves such tests out.
    pub async fn start_implicit() -> Option<Self> {
        Self::start_secured("implicit").await
    }

    async fn start_secured(how: &str) -> Option<Self> {
        if !has_modules(&[("aiosmtpd", "python3-aiosmtpd")]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("the certificate is written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("the key is written");
        let mut process = Command::new(PYTHON)
            .arg(repository("tests/support/aiosmtpd_server.py"))
            .args([certificate, key])
            .arg(how)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Python runs");
        let mut output = BufReader::new(process.stdout.take().expect("its output")).lines();
        let (say, lines) = mpsc::unbounded_channel();
        // Read at once: a server that waits until somebody reads what it writes does not answer its clients.
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                drop(say.send(line));
            }
        });
        let mut server = Self { port: 0, folder, lines, _process: process };
        server.port = server.line().await.parse().expect("a port");
        Some(server)
    }

    /// The certificate, which no one trusts who was not told to.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    /// The next message.
    pub async fn handed(&mut self) -> Handed {
        serde_json::from_str(&self.line().await).expect("a message")
    }

    async fn line(&mut self) -> String {
        let line = timeout(Duration::from_secs(30), self.lines.recv()).await;
        line.expect("the server says it in time").expect("the server runs")
    }
}
