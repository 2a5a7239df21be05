//! A real nginx between us and the provider: it answers for a provider that is gone, and with a page of its own.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{net::TcpStream, time::timeout};

use super::{Way, build, carried_by_all, subject::SUBJECTS, submission};
use crate::support::python::skipped;

const PROGRAM: &str = "/usr/sbin/nginx";

/// An nginx in a folder of its own. It stops when it is dropped.
struct Nginx {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Nginx {
    /// Starts it with those locations; `None`, said aloud, where it is not installed.
    async fn start(locations: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skipped("nginx is not installed (as root: apt-get install --yes --no-install-recommends nginx-light)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().port();
        let root = folder.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {root}/{kind};"))
            .concat();
        let settings = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;\n\
             events {{ }}\n\
             http {{ access_log off; {temporary} client_max_body_size 64m;\n\
             server {{ listen 127.0.0.1:{port}; {locations} }} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), settings).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf")).stderr(Stdio::null());
        let nginx = Self { child: command.spawn().unwrap(), port, _folder: folder };
        nginx.answers().await;
        Some(nginx)
    }

    async fn answers(&self) {
        let address = ("127.0.0.1", self.port);
        let connect = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await
            }
        };
        timeout(Duration::from_secs(20), connect).await.expect("nginx listens");
    }

    /// What each adapter makes of it, with that path before the provider's own.
    async fn outcomes(&self, path: &str) -> Vec<String> {
        let way = Way::to(&format!("http://127.0.0.1:{}/{path}", self.port));
        let mut outcomes = Vec::new();
        for subject in SUBJECTS {
            let account = build(&(subject.settings)(&way));
            let outcome = account.send(submission(carried_by_all(), &[0, 1, 2, 3])).await;
            let (_, verdict) = &outcome.verdicts[0];
            outcomes.push(format!("{} {} {}", verdict.class.as_str(), verdict.code, super::health(outcome.health)));
        }
        outcomes
    }
}

#[tokio::test]
async fn a_proxy_without_its_provider_leaves_it_unknown_and_a_page_of_it_is_no_acceptance() {
    // Bound and not listened on: nobody else can get the port, and nobody answers.
    let gone = tokio::net::TcpSocket::new_v4().unwrap();
    gone.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let locations = format!(
        "location /gone/ {{ proxy_pass http://{}; }}\n\
         location /page/ {{ default_type text/html; return 200 '<html><body>Welcome</body></html>'; }}\n\
         location /login/ {{ return 302 /page/; }}\n\
         location /busy/ {{ return 503; }}",
        gone.local_addr().unwrap()
    );
    let Some(nginx) = Nginx::start(&locations).await else { return };
    for (path, expected) in [
        ("gone/", "OUTCOME_UNKNOWN 502 failing"),
        ("page/", "MISCONFIGURED 200 misconfigured"),
        ("login/", "MISCONFIGURED 302 misconfigured"),
        ("busy/", "UNAVAILABLE 503 failing"),
    ] {
        for (subject, outcome) in SUBJECTS.iter().zip(nginx.outcomes(path).await) {
            assert_eq!(outcome, expected, "{} behind {path}", subject.kind);
        }
    }
}
