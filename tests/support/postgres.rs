//! A private Postgres for the tests: one cluster a run, one database a test.
//!
//! `POSTRIDER_TEST_DATABASE_URL` names another server to use; its user must be allowed to create databases.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use postrider::{
    config,
    outbox::Outbox,
    sandbox::postgres::{Postgres, PostgresOptions},
};
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
        Self::at(server.options.clone().database(&name)).await
    }

    /// A fresh one on a server that no other test uses: for what depends on everybody's transactions.
    pub async fn on(server: &Postgres) -> Self {
        server.create_database("postrider_test").await.expect("a database for the test");
        let options = PgConnectOptions::from_str(&server.url("postrider_test")).expect("a URL");
        let database = Self::at(options).await;
        database.outbox.migrate().await.expect("the migrations");
        database.outbox.ensure_days(2).await.expect("the tables of the days");
        database
    }

    async fn at(options: PgConnectOptions) -> Self {
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

    /// Checks that the tally says how many messages of each day there are in each status, however it is asked.
    pub async fn tally_is_exact(&self) {
        let wrong: Option<Vec<String>> = self
            .scalar(
                "with counted as (
                    select day_of(id) as day, status, count(*) as n from outbox group by day_of(id), status
                ),
                added as (
                    select day, status, sum(n) as n from tally group by day, status having sum(n) <> 0
                )
                select array_agg(concat_ws(' ', day, status, counted.n, 'are there, the sum is', tallied.n, added.n))
                from counted
                full join tally_sum() as tallied using (day, status)
                full join added using (day, status)
                where counted.n is distinct from tallied.n or counted.n is distinct from added.n",
            )
            .await;
        assert_eq!(wrong, None, "the tally is wrong");
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
    _cluster: Option<Cluster>,
}

/// A cluster of this run, and what removes it in the end.
struct Cluster {
    _postgres: Postgres,
    _watch: Child,
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
        let (options, cluster) = match env::var("POSTRIDER_TEST_DATABASE_URL") {
            Ok(url) => (PgConnectOptions::from_str(&url).expect("POSTRIDER_TEST_DATABASE_URL is a URL"), None),
            Err(_) => {
                let (options, cluster) = start_cluster().await;
                (options, Some(cluster))
            }
        };
        let template = format!("postrider_test_{}_template", std::process::id());
        let server = Self { options, template, databases: AtomicU32::new(0), _cluster: cluster };
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

/// Starts a cluster in a folder of its own. It is reached through its socket, which lies where only its owner comes, so
/// that no test has to compute a password's proof for each of its connections.
async fn start_cluster() -> (PgConnectOptions, Cluster) {
    let folder = tempfile::Builder::new().prefix("postrider-test-").tempdir().expect("a folder").keep();
    // Postgres may run as another account, which has to pass.
    fs::set_permissions(&folder, Permissions::from_mode(0o711)).expect("the folder is ours");
    let access = folder.join("access.conf");
    fs::write(&access, "local all all trust\n").expect("the folder is ours");
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = PostgresOptions {
        dir: Some(folder.join("cluster")),
        fsync: false,
        settings: vec![
            setting("hba_file", access.to_str().expect("a path of letters")),
            setting("max_connections", "400"),
        ],
    };
    let postgres = Postgres::start(options).await.expect("Postgres starts");
    let options = PgConnectOptions::new_without_pgpass()
        .socket(folder.join("cluster/data"))
        .port(postgres.port())
        .username("postgres")
        .database("postgres");
    let watch = watch(&folder, postgres.pid().expect("Postgres runs"));
    (options, Cluster { _postgres: postgres, _watch: watch })
}

/// Stops the server and removes the folder when this program ends, however it ends: nothing static is dropped, but
/// `cat` ends when this program's end of the pipe is closed.
fn watch(folder: &Path, server: u32) -> Child {
    let script = r#"trap "" INT; cat >/dev/null; while kill -QUIT "$1" 2>/dev/null; do sleep 0.1; done; rm -rf "$0""#;
    Command::new("sh")
        .args(["-c", script])
        .arg(folder)
        .arg(server.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}
