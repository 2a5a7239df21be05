//! Debian's postfix, from its smtpd over its queue into mailboxes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::python::skipped;

/// A postfix of its own folder. It stops when it is dropped.
pub struct Postfix {
    folder: TempDir,
    pub port: u16,
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.control("stop");
    }
}

impl Postfix {
    /// Starts it with those lines added to its settings, `{root}` in them for its folder; `None`, said aloud, where that
    /// cannot be.
    pub fn start(settings: &str) -> Option<Self> {
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
        postfix.write_settings(settings);
        assert!(postfix.control("start"), "postfix does not start: {}", postfix.log());
        Some(postfix)
    }

    fn write_settings(&self, more: &str) {
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
        let more = more.replace("{root}", &root.display().to_string());
        fs::write(root.join("main.cf"), self.main() + &more).expect("the settings are written");
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

    /// The certificate, which no one trusts who was not told to.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What was delivered, once it is so many messages and the queue is empty.
    pub async fn delivered(&self, expected: usize) -> Vec<Vec<u8>> {
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
