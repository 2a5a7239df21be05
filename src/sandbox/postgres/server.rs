//! The server of a cluster: made, started, stopped, started again.
//!
//! Owns the order of these steps and the server's settings; blocks while it waits.

use std::{
    fs, io,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    Mode, PostgresOptions,
    binaries::{Account, Binaries, prepare, run},
    folder::Folder,
    keeper::Keeper,
};
use crate::sandbox::SandboxError;

/// The longest start; recovery after a crash takes its time.
const LONGEST_START: Duration = Duration::from_secs(60);
/// The longest a stop may take before a harder one is tried.
const LONGEST_STOP: Duration = Duration::from_secs(30);
/// How often the server's state file is looked at while it starts.
const LOOK: Duration = Duration::from_millis(10);
/// How many ports are tried: a free one can be taken by somebody else before the server has it.
const PORTS: usize = 3;

/// A cluster with its server, which may be stopped for a while.
pub(super) struct Server {
    binaries: Binaries,
    account: Option<Account>,
    password: String,
    settings: Vec<(String, String)>,
    running: Mutex<Running>,
    /// Last, since the server must have ended before a temporary folder goes.
    folder: Folder,
}

struct Running {
    port: u16,
    keeper: Option<Arc<Keeper>>,
}

impl Server {
    /// Makes the cluster where there is none yet and starts it.
    pub(super) fn start(options: &PostgresOptions) -> Result<Self, SandboxError> {
        let account = Account::choose()?;
        let newest = Binaries::find(None)?;
        let folder = Folder::take(options.dir.as_deref(), account.as_ref())?;
        let binaries = match folder.made_by() {
            Some(made_by) if made_by != newest.major().to_string() => {
                let wanted = made_by.parse().ok().and_then(|major| Binaries::find(Some(major)).ok());
                wanted.ok_or_else(|| SandboxError::OtherVersion { folder: folder.path().into(), made_by })?
            }
            _ => newest,
        };
        let password = folder.password(account.as_ref())?;
        let running = Mutex::new(Running { port: 0, keeper: None });
        let settings = settings(options);
        let server = Self { binaries, account, password, settings, running, folder };
        if server.folder.made_by().is_none() {
            server.make_cluster(options.fsync)?;
        }
        server.end_leftover()?;
        server.launch_at_a_free_port()?;
        Ok(server)
    }

    /// The URL of a database.
    pub(super) fn url(&self, database: &str) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/{database}", self.password, self.port())
    }

    /// The port.
    pub(super) fn port(&self) -> u16 {
        self.running().port
    }

    /// The process id, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        let running = self.running();
        running.keeper.as_ref().filter(|keeper| keeper.end().is_none()).map(|keeper| keeper.pid())
    }

    /// Creates the database if there is none of that name.
    pub(super) fn create_database(&self, name: &str) -> Result<(), SandboxError> {
        let mut list = self.client("psql");
        list.args(["--no-psqlrc", "--list", "--quiet", "--no-align", "--tuples-only", "postgres"]);
        let listed = run("psql", list)?.stdout;
        let exists = String::from_utf8_lossy(&listed).lines().any(|line| line.split('|').next() == Some(name));
        if exists {
            return Ok(());
        }
        let mut create = self.client("createdb");
        create.arg("--").arg(name);
        run("createdb", create).map(|_| ())
    }

    /// Starts the server at the port it had before. It must not be running.
    pub(super) fn launch(&self) -> Result<(), SandboxError> {
        let mut running = self.running();
        let keeper = self.launch_at(running.port)?;
        running.keeper = Some(keeper);
        Ok(())
    }

    /// Stops the server, harder if it does not stop in time.
    pub(super) fn stop(&self, mode: Mode) -> Result<(), SandboxError> {
        let Some(keeper) = self.running().keeper.take() else { return Ok(()) };
        let gentle = (mode == Mode::Fast).then_some(Signal::INT);
        for signal in gentle.into_iter().chain([Signal::QUIT, Signal::KILL]) {
            keeper.signal(signal);
            if keeper.wait(LONGEST_STOP) {
                return Ok(());
            }
        }
        Err(SandboxError::NotStopped { pid: keeper.pid() })
    }

    fn make_cluster(&self, fsync: bool) -> Result<(), SandboxError> {
        self.folder.clear_unfinished(self.account.as_ref())?;
        self.check_reach()?;
        let mut command = self.program("initdb");
        command.arg("--pgdata").arg(self.folder.unfinished()).arg("--pwfile").arg(self.folder.password_file());
        command.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
        if !fsync {
            command.arg("--no-sync");
        }
        run("initdb", command)?;
        self.folder.finish()
    }

    /// Whether the account that Postgres runs as can come to its data at all.
    fn check_reach(&self) -> Result<(), SandboxError> {
        let Some(account) = &self.account else { return Ok(()) };
        let entered = prepare(Command::new("true"), Some(account), &self.folder.unfinished()).status();
        match entered {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(SandboxError::Unreachable { folder: self.folder.path().into(), account: account.name.clone() })
            }
            Err(error) => Err(SandboxError::Program { program: "true", output: error.to_string() }),
            Ok(_) => Ok(()),
        }
    }

    /// Deals with what a program that was killed left in the folder: a server that still runs, or its state file.
    ///
    /// The folder's lock is ours, so whoever started that server is gone. The file's process may be any other by now;
    /// a server of this cluster is known by its working directory, where the system shows it.
    fn end_leftover(&self) -> Result<(), SandboxError> {
        let file = self.folder.data().join("postmaster.pid");
        let Ok(state) = fs::read_to_string(&file) else { return Ok(()) };
        let pid = state.lines().next().unwrap_or_default();
        if Path::new("/proc/self").exists() {
            let its_own = fs::read_link(format!("/proc/{pid}/cwd")).ok();
            if its_own != self.folder.data().canonicalize().ok() {
                return match fs::remove_file(&file) {
                    // A server that has just ended removed it itself.
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        Err(SandboxError::Folder { path: file, source })
                    }
                    _ => Ok(()),
                };
            }
        }
        let mut command = self.program("pg_ctl");
        command.arg("stop").arg("--pgdata").arg(self.folder.data()).args(["--mode=fast", "--silent"]);
        match run("pg_ctl", command) {
            // It may have ended by itself meanwhile.
            Err(_) if !file.exists() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn launch_at_a_free_port(&self) -> Result<(), SandboxError> {
        let mut tried = 0;
        loop {
            let port = free_port()?;
            self.running().port = port;
            tried += 1;
            match self.launch() {
                Err(_) if tried < PORTS && TcpListener::bind(("127.0.0.1", port)).is_err() => {}
                result => return result,
            }
        }
    }

    fn launch_at(&self, port: u16) -> Result<Arc<Keeper>, SandboxError> {
        let keeper = Keeper::spawn(self.server_command(port)?)
            .map_err(|error| SandboxError::Program { program: "postgres", output: error.to_string() })?;
        let began = Instant::now();
        while !self.is_ready(&keeper) {
            let reason = if keeper.wait(LOOK) {
                keeper.end().map_or_else(String::new, |end| format!("it ended with {end}"))
            } else if began.elapsed() > LONGEST_START {
                keeper.signal(Signal::QUIT);
                format!("it was not ready after {} s", LONGEST_START.as_secs())
            } else {
                continue;
            };
            return Err(SandboxError::NotStarted { reason, log: self.folder.end_of_log() });
        }
        Ok(keeper)
    }

    /// The server as a child of its own process group, so that Ctrl-C at the terminal reaches this program alone and
    /// Postgres is still there while it ends its work.
    fn server_command(&self, port: u16) -> Result<Command, SandboxError> {
        use std::os::unix::process::CommandExt;

        let postgres = self.binaries.path("postgres");
        let mut command = if has_setpriv() {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "INT", "--"]).arg(postgres);
            command
        } else {
            Command::new(postgres)
        };
        command.arg("-D").arg(self.folder.data()).arg("-p").arg(port.to_string());
        command.arg("-c").arg(format!("unix_socket_directories={}", self.socket_folder()));
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let log = self.folder.open_log()?;
        let copy = log.try_clone().map_err(|source| SandboxError::Folder { path: self.folder.log(), source })?;
        command.stdin(Stdio::null()).stdout(copy).stderr(log).process_group(0);
        Ok(prepare(command, self.account.as_ref(), &self.folder.data()))
    }

    /// The data folder, or nothing where the path would be longer than a socket's may be.
    fn socket_folder(&self) -> String {
        let folder = self.folder.data().to_string_lossy().into_owned();
        // sun_path holds 104 bytes on some systems; the name of the socket's lock file is the longest.
        let fits = folder.len() + "/.s.PGSQL.65535.lock".len() < 104 && !folder.contains([',', '"']);
        if fits { folder } else { String::new() }
    }

    fn is_ready(&self, keeper: &Keeper) -> bool {
        let state = fs::read_to_string(self.folder.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = state.lines();
        lines.next() == Some(&keeper.pid().to_string()) && lines.nth(6).is_some_and(|status| status.trim() == "ready")
    }

    fn program(&self, program: &str) -> Command {
        prepare(Command::new(self.binaries.path(program)), self.account.as_ref(), self.folder.path())
    }

    fn client(&self, program: &str) -> Command {
        let mut command = self.program(program);
        command.env("PGPASSWORD", &self.password).args(["--host=127.0.0.1", "--username=postgres", "--no-password"]);
        command.arg(format!("--port={}", self.port()));
        command
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mode = if self.folder.is_temporary() { Mode::Immediate } else { Mode::Fast };
        if let Err(error) = self.stop(mode) {
            tracing::warn!(%error, "a sandbox's Postgres was left behind");
        }
    }
}

/// The server's settings, those given last since the last one counts.
fn settings(options: &PostgresOptions) -> Vec<(String, String)> {
    let own = [
        ("listen_addresses", "127.0.0.1"),
        ("max_connections", "200"),
        ("synchronous_commit", "on"),
        ("max_wal_size", "2GB"),
        ("timezone", "UTC"),
        ("log_timezone", "UTC"),
        ("logging_collector", "off"),
        ("log_line_prefix", "%m [%p] "),
    ];
    let unsafe_but_fast: &[(&str, &str)] =
        if options.fsync { &[("fsync", "on")] } else { &[("fsync", "off"), ("full_page_writes", "off")] };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    own.iter().chain(unsafe_but_fast).map(owned).chain(options.settings.iter().cloned()).collect()
}

fn free_port() -> Result<u16, SandboxError> {
    let any = ([127, 0, 0, 1], 0).into();
    let bound = TcpListener::bind(any).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|source| SandboxError::Listen { address: any, source })
}

/// Whether the program is there that has the system stop the server when this program is killed (Linux).
fn has_setpriv() -> bool {
    let probe = Command::new("setpriv").args(["--pdeathsig", "INT", "--", "true"]).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}
