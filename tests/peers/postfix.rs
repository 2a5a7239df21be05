//! Debian's postfix: a mail server as it is run, from its smtpd over its queue into mailboxes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::{has_grpcio, judge, send_specimens};
use crate::support::{program::Program, python::skipped};

/// A postfix of its own folder. It stops when it is dropped.
struct Postfix {
    folder: TempDir,
    port: u16,
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.control("stop");
    }
}

impl Postfix {
    /// Starts it; `None`, said aloud, where that cannot be.
    fn start() -> Option<Self> {
        if !Path::new("/usr/sbin/postfix").exists() {
            skipped("postfix is not installed");
            return None;
        }
        let id = Command::new("id").arg("-u").output().expect("id");
        if id.stdout != b"0\n" {
            skipped("postfix can only be started as root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("postrider-postfix-").tempdir_in("/tmp").expect("a folder");
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let postfix = Self { folder, port };
        postfix.write_settings();
        assert!(postfix.control("start"), "postfix does not start: {}", postfix.log());
        Some(postfix)
    }

    fn write_settings(&self) {
        let root = self.folder.path();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let pem = made.signing_key.serialize_pem() + &made.cert.pem();
        fs::create_dir_all(root.join("data")).expect("a folder");
        fs::create_dir_all(root.join("spool")).expect("a folder");
        fs::create_dir_all(root.join("mail")).expect("a folder");
        fs::write(root.join("tls.pem"), pem).expect("the certificate is written");
        fs::write(root.join("ca.pem"), made.cert.pem()).expect("the certificate is written");
        for folder in ["data", "mail"] {
            let status = Command::new("chown").arg("postfix").arg(root.join(folder)).status();
            assert!(status.is_ok_and(|status| status.success()), "chown {folder}");
        }
        fs::write(root.join("main.cf"), self.main()).expect("the settings are written");
        fs::write(root.join("master.cf"), self.master()).expect("the settings are written");
    }

    /// Every message to the three domains goes into one mailbox.
    fn main(&self) -> String {
        let uid = Command::new("id").args(["-u", "postfix"]).output().expect("id").stdout;
        let uid = String::from_utf8(uid).expect("a number");
        format!(
            "compatibility_level = 3.6\nqueue_directory = {root}/spool\ndata_directory = {root}/data\n\
             maillog_file = {root}/log\nmaillog_file_prefixes = /tmp\n\
             myhostname = localhost\nmydestination =\ninet_interfaces = 127.0.0.1\ninet_protocols = ipv4\n\
             mynetworks = 127.0.0.0/8\nalias_maps =\nlocal_recipient_maps =\n\
             smtpd_tls_chain_files = {root}/tls.pem\nsmtpd_tls_security_level = encrypt\n\
             virtual_mailbox_domains = example.com, shop.example, evil.example\nvirtual_mailbox_base = {root}/mail\n\
             virtual_mailbox_maps = static:all/\nvirtual_minimum_uid = 1\n\
             virtual_uid_maps = static:{uid}\nvirtual_gid_maps = static:{uid}\n",
            root = self.folder.path().display(),
            uid = uid.trim(),
        )
    }

    fn master(&self) -> String {
        let port = self.port;
        let smtpd = format!("127.0.0.1:{port} inet n - n - - smtpd\n");
        let daemons = "pickup unix n - n 60 1 pickup\n\
             cleanup unix n - n - 0 cleanup\n\
             qmgr unix n - n 300 1 qmgr\n\
             tlsmgr unix - - n 1000? 1 tlsmgr\n\
             rewrite unix - - n - - trivial-rewrite\n\
             bounce unix - - n - 0 bounce\n\
             defer unix - - n - 0 bounce\n\
             virtual unix - n n - - virtual\n\
             error unix - - n - - error\n\
             smtp unix - - n - - smtp\n\
             anvil unix - - n - 1 anvil\n\
             scache unix - - n - 1 scache\n\
             proxymap unix - - n - - proxymap\n\
             postlog unix-dgram n - n - 1 postlogd\n";
        smtpd + daemons
    }

    fn control(&self, verb: &str) -> bool {
        let mut postfix = Command::new("/usr/sbin/postfix");
        postfix.arg("-c").arg(self.folder.path()).arg(verb).stdin(Stdio::null());
        postfix.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What was delivered, once it is so many messages and the queue is empty.
    async fn delivered(&self, expected: usize) -> Vec<Vec<u8>> {
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let found = files(&self.folder.path().join("mail/all/new"));
            let queued = ["incoming", "active", "deferred", "maildrop"]
                .iter()
                .flat_map(|queue| files(&self.folder.path().join("spool").join(queue)))
                .count();
            if found.len() >= expected && queued == 0 {
                return found.iter().map(|path| fs::read(path).expect("a message")).collect();
            }
            let late = tokio::time::Instant::now() > until;
            assert!(!late, "{} of {expected} delivered, {queued} queued: {}", found.len(), self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn postfix_delivers_what_was_sent_and_nothing_besides() {
    if !has_grpcio() {
        return;
    }
    let Some(postfix) = Postfix::start() else { return };
    let settings = format!(
        "[providers.relay]\nkind = \"smtp\"\nhost = \"localhost\"\nport = {}\ntls = \"starttls\"\nca_file = {:?}\n\
         [chains]\ndefault = [\"relay\"]\n",
        postfix.port,
        postfix.folder.path().join("ca.pem")
    );
    let program = Program::serve(&settings).await;
    let ids = send_specimens(&program, 1, &[]).await;
    let delivered = postfix.delivered(5).await;
    assert_eq!(delivered.len(), 5, "one copy for each recipient, and no message of its own");
    let mut owners = Vec::new();
    for copy in &delivered {
        let (content, owner) = without_trace(copy);
        judge(&content, &ids[0], &[]).await;
        owners.push(owner);
    }
    owners.sort();
    let expected =
        ["ada@example.com", "anna@example.com", "archive@shop.example", "joerg@example.com", "plain@example.com"];
    assert_eq!(owners, expected);
    program.stop().await;
}

/// A delivered message without what delivery put before it and with the line ends of SMTP, and whose copy it is.
fn without_trace(copy: &[u8]) -> (Vec<u8>, String) {
    let text = String::from_utf8(copy.to_vec()).expect("ASCII");
    let owner = text.lines().find_map(|line| line.strip_prefix("Delivered-To: ")).expect("whose it is");
    let own = text.find("\nFrom: ").expect("a sender") + 1;
    (text[own..].replace('\n', "\r\n").into_bytes(), owner.to_owned())
}
