//! The program `postrider`, run as a user runs it.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::postgres::Database;

/// The password in the URL of every database: none of the program's words may hold it.
pub const DATABASE_PASSWORD: &str = "Hemlig-database";

/// Settings with a provider that is never there.
pub const NOBODY: &str = "[providers.nobody]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/v1/emails\"\n\
                          [chains]\ndefault = [\"nobody\"]\n";

/// The program in an environment that says nothing to it.
pub fn postrider(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let heard = |name: &str| name.starts_with("POSTRIDER_") || name.starts_with("OTEL_") || name == "RUST_LOG";
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(heard)) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// What it wrote to standard output, having ended well.
    #[track_caller]
    pub fn well(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Said {
    ended(command.spawn().expect("the program starts")).await
}

/// The same with something on its standard input.
pub async fn run_with_input(mut command: Command, input: &[u8]) -> Said {
    let mut process = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut stdin = process.stdin.take().expect("its input");
    stdin.write_all(input).await.expect("it reads");
    drop(stdin);
    ended(process).await
}

async fn ended(process: Child) -> Said {
    let output = timeout(Duration::from_secs(60), process.wait_with_output()).await.expect("it ends in time");
    let output = output.expect("its output can be read");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("it ends by itself");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

/// A folder with a settings file, and a database that the program is told of by its environment.
pub struct Place {
    pub database: Database,
    folder: TempDir,
}

impl Place {
    /// With those settings, besides the ones that every test needs.
    pub async fn new(settings: &str) -> Self {
        let common = "[server]\nlisten = \"127.0.0.1:0\"\n[telemetry]\nlog_format = \"json\"\n";
        let place = Self { database: Database::new().await, folder: tempfile::tempdir().expect("a folder") };
        place.write("postrider.toml", format!("{common}{settings}"));
        place
    }

    /// Puts a file into the folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("the file is written");
        path
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program in that folder, with that database.
    pub fn postrider(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut url: url::Url = self.database.url.expose_secret().parse().expect("a URL");
        url.set_password(Some(DATABASE_PASSWORD)).expect("a URL with a host");
        let mut command = postrider(arguments);
        command.current_dir(self.path()).env("POSTRIDER_DATABASE__URL", url.as_str());
        command
    }

    /// Starts the service.
    pub async fn serve(self) -> Program {
        let mut process = self.postrider(["serve"]).spawn().expect("the program starts");
        let stderr = process.stderr.take().expect("its log");
        let (said, mut log) = watch::channel(String::new());
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                said.send_modify(|log| *log += &(line + "\n"));
            }
        });
        let serving = timeout(Duration::from_secs(30), log.wait_for(|log| address(log).is_some())).await;
        let serving = serving.expect("it serves in time").map(|log| address(&log));
        let address = serving.ok().flatten().unwrap_or_else(|| panic!("it did not serve: {}", *log.borrow()));
        Program { address, place: self, process, log, reading }
    }
}

/// Tells a process to stop as a supervisor does, and waits until it has.
pub async fn terminate(process: &mut Child) -> ExitStatus {
    let pid = process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)).expect("it runs");
    kill_process(pid, Signal::TERM).expect("it can be told");
    timeout(Duration::from_secs(60), process.wait()).await.expect("it stops in time").expect("its status")
}

/// Where the log says that it serves, as a URL.
pub fn address(log: &str) -> Option<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut serving = lines.filter(|line| line["message"] == "serving");
    serving.next().and_then(|line| Some(format!("http://{}", line["address"].as_str()?)))
}

/// A running `postrider serve`.
pub struct Program {
    /// The URL of its API.
    pub address: String,
    pub place: Place,
    process: Child,
    log: watch::Receiver<String>,
    reading: JoinHandle<()>,
}

impl Program {
    /// A service with those settings, besides the ones that every test needs.
    pub async fn serve(settings: &str) -> Self {
        Place::new(settings).await.serve().await
    }

    /// Its database.
    pub fn database(&self) -> &Database {
        &self.place.database
    }

    /// A client command that speaks to it.
    pub fn postrider(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = postrider(arguments);
        command.current_dir(self.place.path()).env("POSTRIDER_ADDRESS", &self.address);
        command
    }

    /// Runs such a command to its end.
    pub async fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Said {
        run(self.postrider(arguments)).await
    }

    /// How many rows there are of what a message leaves behind.
    pub async fn stored(&self) -> [i64; 4] {
        let database = self.database();
        let mut counts = [0; 4];
        for (count, table) in counts.iter_mut().zip(["message", "pending", "event", "idempotency"]) {
            *count = database.count(table).await;
        }
        counts
    }

    /// Asks it to stop. It must end well, having logged no panic, no error, no secret and no address.
    pub async fn stop(mut self) {
        let status = terminate(&mut self.process).await;
        self.reading.await.expect("its log was read");
        let log = self.log.borrow().clone();
        assert!(status.success(), "{log}");
        for word in ["panicked", "\"ERROR\"", DATABASE_PASSWORD, "@"] {
            assert!(!log.contains(word), "{word:?} is in the log: {log}");
        }
    }
}
