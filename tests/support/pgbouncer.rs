//! Debian's pgbouncer, the pooler that most who have one in front of Postgres have.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    str::FromStr,
};

use postrider::{
    config::{self, Pooling},
    outbox::Outbox,
};
use secrecy::{ExposeSecret, SecretString};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, postgres::PgConnectOptions};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::{postgres::Database, python::skipped};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Connections to Postgres for each database: few where clients take turns, so that they really share them.
pub const SHARED: usize = 3;
const OWN: usize = 100;

/// How often another port is tried where somebody was quicker.
const PORTS: u32 = 5;

/// A pgbouncer of its own folder, in front of the server of the tests. It stops when it is dropped.
pub struct Pgbouncer {
    pooling: Pooling,
    port: u16,
    folder: TempDir,
    process: Child,
}

impl Pgbouncer {
    /// Starts one in front of the server of that URL; `None`, said aloud, where that cannot be.
    pub async fn start(pooling: Pooling, server: &SecretString) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skipped("pgbouncer is not installed");
            return None;
        }
        for _ in 0..PORTS {
            let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let port = free.expect("a free port").port();
            let folder = tempfile::Builder::new().prefix("postrider-pgbouncer-").tempdir_in("/tmp").expect("a folder");
            write_settings(folder.path(), port, pooling, server);
            let process = spawn(folder.path());
            let mut pgbouncer = Self { pooling, port, folder, process };
            if pgbouncer.listens().await {
                return Some(pgbouncer);
            }
        }
        panic!("pgbouncer does not start");
    }

    /// The same database, reached through it.
    pub async fn in_front_of(&self, database: &Database) -> Database {
        let settings = config::Database { pooling: self.pooling, ..database.settings.clone() };
        let url = self.url(PgConnectOptions::from_str(database.url.expose_secret()).expect("a URL").get_database());
        let outbox = Outbox::connect(&settings, &url).await.expect("the database can be reached through pgbouncer");
        Database { outbox, sql: database.sql.clone(), settings, url }
    }

    /// The URL of a database.
    pub fn url(&self, database: Option<&str>) -> SecretString {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.port, database.unwrap_or("postgres")).into()
    }

    /// Says something to its console, and gives the figure of that name in the row of that database, if it has one.
    pub async fn console(&self, command: &str, figure: &str, database: &str) -> Option<i64> {
        let console = PgConnectOptions::from_str(self.url(Some("pgbouncer")).expose_secret()).expect("a URL");
        let mut console = console.extra_float_digits(None).connect().await.expect("the console answers");
        let rows = sqlx::raw_sql(AssertSqlSafe(command.to_owned())).fetch_all(&mut console).await;
        let rows = rows.unwrap_or_else(|error| panic!("{command}: {error}"));
        console.close().await.expect("it closes");
        let row = rows.iter().find(|row| row.try_get_unchecked::<&str, _>("database").is_ok_and(|it| it == database));
        row.map(|row| row.try_get_unchecked::<&str, _>(figure).expect(figure).parse().expect("a figure"))
    }

    /// Ends it as `kill -9` does, and starts it again at the same port.
    pub async fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.folder.path());
        assert!(self.listens().await, "pgbouncer does not start again: {}", self.log());
    }

    /// What it wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until it takes connections; `false` if it ended.
    async fn listens(&mut self) -> bool {
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if self.process.try_wait().expect("it can be asked for").is_some() {
                return false;
            }
            tokio::task::yield_now().await;
        }
        // Somebody else may be what listens there.
        self.process.try_wait().expect("it can be asked for").is_none()
    }

    fn kill(&mut self) {
        self.process.kill().expect("it can be ended");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("pgbouncer wrote:\n{}", self.log());
        }
    }
}

fn write_settings(folder: &Path, port: u16, pooling: Pooling, server: &SecretString) {
    let (mode, connections) = match pooling {
        Pooling::Session => ("session", OWN),
        Pooling::Transaction => ("transaction", SHARED),
    };
    let server = behind(server.expose_secret());
    let settings = format!(
        "[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = trust\nauth_file = users\nadmin_users = postgres\npool_mode = {mode}\ndefault_pool_size = {connections}\nmax_client_conn = 1000\n\
         server_login_retry = 0.1\n"
    );
    let file = folder.join("pgbouncer.ini");
    fs::write(&file, settings).expect("the settings are written");
    let users = folder.join("users");
    fs::write(&users, "\"postgres\" \"\"\n").expect("the users are written");
    if let Some((uid, gid)) = account() {
        for path in [folder, &file, &users] {
            chown(path, Some(uid), Some(gid)).expect("it is ours");
            let mode = if path == folder { 0o700 } else { 0o600 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
    }
}

/// Where the server is, in pgbouncer's words.
fn behind(url: &str) -> String {
    let server = PgConnectOptions::from_str(url).expect("a URL");
    let host = server.get_socket().map_or(server.get_host(), |path| path.to_str().expect("a path of letters"));
    let password = url::Url::parse(url).ok().and_then(|url| Some(format!(" password={}", url.password()?)));
    let (port, user) = (server.get_port(), server.get_username());
    format!("host={host} port={port} user={user}{}", password.unwrap_or_default())
}

/// Starts it so that it ends with this program, whatever ends that.
fn spawn(folder: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", PROGRAM]).arg(folder.join("pgbouncer.ini")).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    if let Some((uid, gid)) = account() {
        command.uid(uid).gid(gid);
    }
    command.spawn().expect("setpriv runs")
}

/// The account to run it as: Postgres's own where this program runs as root, which pgbouncer refuses.
fn account() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("id").stdout;
        String::from_utf8_lossy(&output).trim().parse::<u32>().expect("a number")
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
