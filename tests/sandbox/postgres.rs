//! The private Postgres: made, used, restarted, and gone with the program.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use postrider::sandbox::{
    SandboxError,
    postgres::{Mode, Postgres, PostgresOptions},
};
use sqlx::{Connection, PgConnection, Row};

/// Set for the copy of this test program that is to be killed: the folder of its cluster, empty for a temporary one.
const TO_BE_KILLED: &str = "POSTRIDER_TEST_TO_BE_KILLED";

fn quick(dir: Option<&Path>) -> PostgresOptions {
    PostgresOptions { dir: dir.map(Path::to_owned), fsync: false, settings: Vec::new() }
}

async fn ask(url: &str, question: &'static str) -> String {
    let mut connection = PgConnection::connect(url).await.expect("it takes connections");
    let row = sqlx::query(question).fetch_one(&mut connection).await.expect("a row");
    connection.close().await.expect("closed");
    row.get(0)
}

#[tokio::test]
async fn a_database_is_reached_by_its_url_and_only_with_the_password() {
    let postgres = Postgres::start(quick(None)).await.expect("Postgres starts");
    postgres.create_database("postrider").await.expect("created");
    postgres.create_database("postrider").await.expect("there already");
    let url = postgres.url("postrider");
    assert_eq!(ask(&url, "select current_database()::text").await, "postrider");
    assert_eq!(ask(&url, "select current_setting('synchronous_commit')").await, "on");
    assert_eq!(ask(&url, "select current_setting('listen_addresses')").await, "127.0.0.1");

    let wrong = format!("postgres://postgres:wrong@127.0.0.1:{}/postrider", postgres.port());
    let refused = PgConnection::connect(&wrong).await.expect_err("a password is wanted");
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("28P01"));
    let password = url.split(['/', ':', '@']).nth(4).expect("a password").to_owned();
    assert_eq!(password.len(), 32);
    assert!(!format!("{postgres:?}").contains(&password));
}

#[tokio::test]
async fn commits_reach_the_disk_unless_asked_otherwise_and_given_settings_outrank() {
    let settings = vec![("max_connections".to_owned(), "17".to_owned())];
    let postgres = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }).await.expect("starts");
    assert_eq!(ask(&postgres.url("postgres"), "select current_setting('fsync')").await, "on");
    assert_eq!(ask(&postgres.url("postgres"), "select current_setting('max_connections')").await, "17");
}

#[tokio::test]
async fn what_was_committed_survives_both_ways_to_stop_on_the_same_port() {
    let postgres = Postgres::start(quick(None)).await.expect("Postgres starts");
    let url = postgres.url("postgres");
    ask(&url, "with made as (select 1) select 'ok' from made").await;
    let mut connection = PgConnection::connect(&url).await.expect("connected");
    sqlx::query("create table kept (n text)").execute(&mut connection).await.expect("created");
    sqlx::query("insert into kept values ('still here')").execute(&mut connection).await.expect("inserted");

    for mode in [Mode::Fast, Mode::Immediate] {
        let before = postgres.pid().expect("it runs");
        postgres.restart(mode).await.expect("restarted");
        assert_ne!(postgres.pid(), Some(before));
        assert_eq!(postgres.url("postgres"), url);
        assert_eq!(ask(&url, "select n from kept").await, "still here");
    }
    postgres.stop(Mode::Fast).await.expect("stopped");
    postgres.stop(Mode::Fast).await.expect("stopping twice is no matter");
    assert_eq!(postgres.pid(), None);
    PgConnection::connect(&url).await.expect_err("it is stopped");
    postgres.restart(Mode::Fast).await.expect("started");
    assert_eq!(ask(&url, "select n from kept").await, "still here");
}

#[tokio::test]
async fn a_given_folder_keeps_the_data_and_belongs_to_one_at_a_time() {
    let place = tempfile::tempdir().expect("a folder");
    set_mode(place.path(), 0o755);
    let dir = place.path().join("cluster");
    let postgres = Postgres::start(quick(Some(&dir))).await.expect("Postgres starts");
    postgres.create_database("kept").await.expect("created");
    let second = Postgres::start(quick(Some(&dir))).await.expect_err("the folder is taken");
    assert!(matches!(second, SandboxError::InUse { .. }), "{second}");
    let pid = postgres.pid().expect("it runs");
    drop(postgres);
    assert!(!is_running(pid), "stopped when it was dropped");

    // A crash leaves the state file; by then the process id can be anybody's, here our own.
    let state = format!("{}\n{}\n", std::process::id(), dir.join("data").display());
    fs::write(dir.join("data/postmaster.pid"), state).expect("written");
    let postgres = Postgres::start(quick(Some(&dir))).await.expect("Postgres starts again");
    assert_eq!(ask(&postgres.url("kept"), "select current_database()::text").await, "kept");
    drop(postgres);

    fs::write(dir.join("data/PG_VERSION"), "9\n").expect("written");
    let other = Postgres::start(quick(Some(&dir))).await.expect_err("made by another version");
    assert!(matches!(other, SandboxError::OtherVersion { .. }), "{other}");
}

#[tokio::test]
async fn a_temporary_cluster_leaves_nothing_behind() {
    let postgres = Postgres::start(quick(None)).await.expect("Postgres starts");
    let pid = postgres.pid().expect("it runs");
    let folder = folder_of(pid);
    assert!(folder.join("data").is_dir());
    drop(postgres);
    assert!(!folder.exists() && !is_running(pid));
}

#[tokio::test]
async fn a_setting_that_postgres_refuses_is_told_with_its_log() {
    let settings = vec![("shared_buffers".to_owned(), "nonsense".to_owned())];
    let options = PostgresOptions { settings, ..quick(None) };
    let error = Postgres::start(options).await.expect_err("no such size").to_string();
    assert!(error.contains("shared_buffers") && error.contains("nonsense"), "{error}");
}

#[tokio::test]
async fn a_folder_that_the_account_cannot_enter_is_named() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    set_mode(place.path(), 0o700);
    let error = Postgres::start(quick(Some(&place.path().join("cluster")))).await.expect_err("out of reach");
    assert!(matches!(error, SandboxError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("postgres"), "{error}");
}

#[tokio::test]
async fn a_killed_program_takes_its_postgres_with_it_and_the_next_goes_on_with_the_data() {
    let place = tempfile::tempdir().expect("a folder");
    set_mode(place.path(), 0o755);
    let dir = place.path().join("cluster");
    let (mut program, pid) = start_to_be_killed(&dir);
    assert!(is_running(pid));
    // SIGKILL: nothing of the program gets to run.
    program.kill().expect("killed");
    program.wait().expect("gone");

    // At once, so that the old server may still be ending: the new one waits for it.
    let postgres = Postgres::start(quick(Some(&dir))).await.expect("Postgres starts again");
    assert_eq!(ask(&postgres.url("kept"), "select current_database()::text").await, "kept");
    assert!(!is_running(pid));
}

#[test]
fn a_killed_program_leaves_no_postgres_even_if_nobody_starts_another() {
    let (mut program, pid) = start_to_be_killed(Path::new(""));
    let folder = folder_of(pid);
    program.kill().expect("killed");
    program.wait().expect("gone");
    let waited = Command::new("timeout")
        .args(["20", "tail", "-s", "0.01", &format!("--pid={pid}"), "-f", "/dev/null"])
        .status()
        .expect("coreutils are there");
    assert!(waited.success() && !is_running(pid), "Postgres outlived the program that started it");
    fs::remove_dir_all(folder).expect("the data of a killed program is removed here");
}

/// Not a test of its own: what the copy of this program does that is to be killed.
#[test]
fn to_be_killed() {
    let Ok(dir) = env::var(TO_BE_KILLED) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // From a task that ends, on a thread that may end: the server must outlive both.
        let dir = (!dir.is_empty()).then(|| PathBuf::from(dir));
        let starting = tokio::spawn(async move { Postgres::start(quick(dir.as_deref())).await });
        let postgres = starting.await.expect("no panic").expect("Postgres starts");
        postgres.create_database("kept").await.expect("created");
        writeln!(std::io::stdout(), "\nstarted {}", postgres.pid().expect("it runs")).expect("it is read");
        std::future::pending::<()>().await;
    });
}

fn start_to_be_killed(dir: &Path) -> (Child, u32) {
    let mut program = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "sandbox::postgres::to_be_killed", "--nocapture"])
        .env(TO_BE_KILLED, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the copy starts");
    let mut lines = BufReader::new(program.stdout.take().expect("piped")).lines();
    let started = lines.find_map(|line| line.ok()?.strip_prefix("started ")?.parse().ok());
    (program, started.expect("the copy says its server's process id"))
}

fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|command| command.contains("postgres"))
}

fn folder_of(pid: u32) -> PathBuf {
    let data = fs::read_link(format!("/proc/{pid}/cwd")).expect("it runs");
    data.parent().expect("the cluster's folder").to_owned()
}

fn set_mode(folder: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("ours");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
