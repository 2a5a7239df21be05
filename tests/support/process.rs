//! A whole service as a process of its own: the program that a user runs, to be stopped, frozen and killed.

use std::{
    ops::Deref,
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
    sync::watch,
    time::timeout,
};

use super::{
    caller::{Caller, PATIENCE},
    postgres::Database,
    program::{address, postrider},
    setup::Setup,
};

/// A running program with somebody who calls it. It is killed when it is dropped.
pub struct Process {
    child: Child,
    caller: Caller,
    log: watch::Receiver<String>,
    _folder: tempfile::TempDir,
}

impl Process {
    /// `postrider serve --migrate` on that database; takes calls when this returns.
    pub async fn start(database: &Database, setup: &Setup) -> Self {
        Self::start_at(database.url.expose_secret(), setup).await
    }

    /// `postrider serve` on that database, with the tables that it has.
    pub async fn start_as_is(database: &Database, setup: &Setup) -> Self {
        Self::run(database.url.expose_secret(), setup, &["serve"]).await
    }

    /// On the database at that URL.
    pub async fn start_at(database_url: &str, setup: &Setup) -> Self {
        Self::run(database_url, setup, &["serve", "--migrate"]).await
    }

    async fn run(database_url: &str, setup: &Setup, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("postrider.toml");
        setup.write(database_url, &file);
        let mut command = postrider(arguments);
        command.arg("--config").arg(&file);
        let mut child = command.current_dir(folder.path()).stdout(Stdio::null()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let (publish, log) = watch::channel(String::new());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                publish.send_modify(|log| {
                    log.push_str(&line);
                    log.push('\n');
                });
            }
        });
        let url = address(&line_with(&log, "\"serving\"").await).expect("it says where it serves");
        Self { child, caller: Caller::at(url), log, _folder: folder }
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        self.log.borrow().clone()
    }

    /// Waits until it has written a line with that in it.
    pub async fn wrote(&self, what: &str) -> String {
        line_with(&self.log, what).await
    }

    /// Kills it, as `kill -9` does.
    pub async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().await.expect("it ends");
    }

    /// Keeps it from doing anything, until [`Process::thaw`].
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to stop, as a supervisor does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").expect("it can be waited for")
    }

    /// Asks it to stop; it must do so, and well.
    pub async fn finish(self) {
        self.terminate();
        let log = self.log.clone();
        let status = self.ended().await;
        assert!(status.success(), "{status}\n{}", *log.borrow());
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        kill_process(id, signal).expect("it can be sent a signal");
    }
}

impl Deref for Process {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

async fn line_with(log: &watch::Receiver<String>, what: &str) -> String {
    let find = |log: &String| log.lines().find(|line| line.contains(what)).map(str::to_owned);
    let mut changes = log.clone();
    match timeout(PATIENCE, changes.wait_for(|log| find(log).is_some())).await {
        Ok(Ok(log)) => find(&log).expect("it was there"),
        Ok(Err(_)) => panic!("it ended without a line with {what:?}: {}", *log.borrow()),
        Err(_) => panic!("there came no line with {what:?}: {}", *log.borrow()),
    }
}
