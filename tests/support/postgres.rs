//! A private Postgres for the tests: one cluster a run, one database a test.
//!
//! `POSTRIDER_TEST_DATABASE_URL` names another server to use; its user must be allowed to create databases.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use postrider::{config, outbox::Outbox};
use secrecy::SecretString;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// A database of one test, migrated, with the tables of the days around now.
pub struct Database {
    pub outbox: Outbox,
    /// For looking and for arranging: not what is tested.
    pub sql: PgPool,
    pub settings: config::Database,
    pub url: SecretString,
}

impl Database {
    /// A fresh one.
    pub async fn new() -> Self {
        let server = server();
        let name = server.unique_name();
        server.create_database(&name, Some(&server.template)).await;
        let options = server.options.clone().database(&name);
        let settings = config::Database::default();
        let url = SecretString::from(options.to_url_lossy().to_string());
        let outbox = Outbox::connect(&settings, &url).await.expect("the test's database can be reached");
        let sql = PgPoolOptions::new()
            .max_connections(5)
            .connect_lazy_with(options.options([("search_path", settings.schema.as_str())]));
        Self { outbox, sql, settings, url }
    }

    /// The outbox as another process has it: with its own connections and memory.
    pub async fn another_process(&self) -> Outbox {
        Outbox::connect(&self.settings, &self.url).await.expect("the test's database can be reached")
    }

    /// Runs statements as they are.
    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.sql).await.expect("the statement is right");
    }

    /// One value of one row.
    pub async fn scalar<T>(&self, sql: &str) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.sql).await.expect("the statement is right")
    }

    /// Waits until the sessions of closed outboxes have ended: that is when they tell Postgres what they did.
    pub async fn sessions_ended(&self) {
        let theirs = "pg_stat_activity where application_name = 'postrider' and datname = current_database()";
        while self.count(theirs).await > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// How often Postgres had to end a deadlock. Closes the outbox.
    pub async fn deadlocks(&self) -> i64 {
        self.outbox.close().await;
        self.sessions_ended().await;
        self.scalar("select deadlocks from pg_stat_database where datname = current_database()").await
    }

    /// How many rows there are.
    pub async fn count(&self, from: &str) -> i64 {
        self.scalar(&format!("select count(*) from {from}")).await
    }
}

/// The server of this run.
struct Server {
    options: PgConnectOptions,
    template: String,
    databases: AtomicU32,
    /// Stops the cluster when this program ends, however it ends.
    _watch: Option<Child>,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        // On a thread and a runtime of its own: the first test to come here has one already.
        let started = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(Server::start())
        });
        started.join().expect("the test's server starts")
    })
}

impl Server {
    async fn start() -> Self {
        let (options, watch) = match env::var("POSTRIDER_TEST_DATABASE_URL") {
            Ok(url) => (PgConnectOptions::from_str(&url).expect("POSTRIDER_TEST_DATABASE_URL is a URL"), None),
            Err(_) => start_cluster(),
        };
        let template = format!("postrider_test_{}_template", std::process::id());
        let server = Self { options, template, databases: AtomicU32::new(0), _watch: watch };
        server.create_database(&server.template, None).await;
        let url = server.options.clone().database(&server.template).to_url_lossy().to_string();
        let outbox = Outbox::connect(&config::Database::default(), &url.into()).await.expect("the template");
        outbox.migrate().await.expect("the migrations");
        outbox.ensure_days(2).await.expect("the tables of the days");
        outbox.close().await;
        server
    }

    fn unique_name(&self) -> String {
        let nth = self.databases.fetch_add(1, Ordering::Relaxed);
        format!("postrider_test_{}_{nth}", std::process::id())
    }

    async fn create_database(&self, name: &str, template: Option<&str>) {
        let mut admin = self.options.connect().await.expect("the test's server can be reached");
        let template = template.map(|template| format!("template {template}")).unwrap_or_default();
        let sql = format!("create database {name} {template}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.expect("a database for the test");
        admin.close().await.expect("the connection closes");
    }
}

/// Starts a cluster in a folder of its own, reached through a socket there.
fn start_cluster() -> (PgConnectOptions, Option<Child>) {
    let folder = tempfile::Builder::new().prefix("postrider-pg-").tempdir().expect("a folder").keep();
    let bin = programs();
    let as_postgres = is_root();
    if as_postgres {
        run(Command::new("chown").arg("postgres").arg(&folder));
    }
    let data = folder.join("data");
    run(command(as_postgres, &bin.join("initdb"))
        .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "-D"])
        .arg(&data));
    let settings = format!(
        "listen_addresses = ''\nunix_socket_directories = '{}'\nmax_connections = 400\nfsync = off\n",
        folder.display()
    );
    fs::write(data.join("postgresql.auto.conf"), settings).expect("the cluster's settings");
    run(command(as_postgres, &bin.join("pg_ctl"))
        .args(["start", "-w", "-l"])
        .arg(folder.join("log"))
        .arg("-D")
        .arg(&data));
    // `cat` ends when this program does and its end of the pipe is closed.
    let stop = command(as_postgres, &bin.join("pg_ctl"));
    let watch = Command::new("sh")
        .args(["-c", r#"cat >/dev/null; "$@"; rm -rf "$0""#])
        .arg(&folder)
        .arg(stop.get_program())
        .args(stop.get_args())
        .args(["stop", "-m", "immediate", "-D"])
        .arg(&data)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let socket = PgConnectOptions::new_without_pgpass().socket(&folder).username("postgres").database("postgres");
    (socket, Some(watch))
}

/// Where initdb and pg_ctl are: in the PATH or where Debian puts them, the newest first.
fn programs() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|folder| folder.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    versions
        .into_iter()
        .rev()
        .chain(env::split_paths(&path))
        .find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
        .expect("PostgreSQL's initdb and pg_ctl are installed")
}

/// Postgres refuses to run as root.
fn command(as_postgres: bool, program: &Path) -> Command {
    if !as_postgres {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    id.stdout.starts_with(b"0\n")
}

fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/").status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
}
