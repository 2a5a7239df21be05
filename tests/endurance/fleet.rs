//! Four processes on one database, and the one provider they all hand mails to.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};
use tokio::time::sleep;

use crate::support::{
    caller::Caller,
    process::Process,
    setup::Setup,
    slow_provider::{Protocol, SlowProvider},
};

/// How many there are.
pub const PROCESSES: usize = 4;

/// The processes.
pub struct Fleet {
    pub ground: Arc<Ground>,
    pub members: Vec<Member>,
}

/// What the processes have in common.
pub struct Ground {
    pub provider: SlowProvider,
    protocol: Protocol,
    database_url: String,
    sql: PgPool,
    setup: Setup,
    /// How each member's present process is called.
    callers: RwLock<Vec<Caller>>,
    /// The names of the processes that were killed.
    killed: Mutex<BTreeSet<String>>,
}

/// One of four: a process, and after its end the next.
pub struct Member {
    ground: Arc<Ground>,
    place: usize,
    /// How many processes it has had before.
    life: usize,
    process: Process,
}

impl Fleet {
    /// On the database at that URL, which may be empty, with a provider that speaks so.
    pub async fn start(database_url: &str, protocol: Protocol) -> Self {
        let provider = SlowProvider::start(protocol).await;
        let setup = match protocol {
            Protocol::Http => Setup::new().http("provider", "http://127.0.0.1/"),
            Protocol::Smtp => Setup::new().smtp("provider", provider.address),
        };
        // Leases are short, so that what a process leaves behind is soon taken over.
        let setup = setup
            // On a machine that has other things to do, a process that is alone with all the work would not get anywhere
            // before its end if it began everything at once.
            .set("dispatch.concurrency", 16)
            .set("dispatch.lease", "2s")
            .set("dispatch.lease_renewal", "500ms")
            .set("database.acquire_timeout", "1s");
        let ground = Arc::new(Ground {
            provider,
            protocol,
            database_url: database_url.to_owned(),
            sql: PgPoolOptions::new().max_connections(PROCESSES as u32).connect_lazy(database_url).expect("a URL"),
            setup,
            callers: RwLock::default(),
            killed: Mutex::default(),
        });
        let members = join_all((0..PROCESSES).map(|place| Member::start(ground.clone(), place))).await;
        let callers = members.iter().map(|member| Caller::clone(&member.process)).collect();
        *ground.callers.write().unwrap_or_else(PoisonError::into_inner) = callers;
        Self { ground, members }
    }

    /// All of them stop, and well; none may have panicked.
    pub async fn finish(self) {
        join_all(self.members.into_iter().map(Member::finish)).await;
    }
}

impl Ground {
    /// One of the processes, which may be one that was killed a moment ago.
    pub fn any_caller(&self) -> Caller {
        let callers = self.callers.read().unwrap_or_else(PoisonError::into_inner);
        callers[rand::random_range(..callers.len())].clone()
    }

    /// Whether the processes may take the provider for one that recognises a message by its key.
    pub fn knows_keys(&self) -> bool {
        matches!(self.protocol, Protocol::Http)
    }

    /// Whether the process of that name was killed.
    pub fn was_killed(&self, name: &str) -> bool {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// A text for each row.
    pub async fn select(&self, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(&self.sql).await.expect("the statement is right")
    }
}

impl Member {
    async fn start(ground: Arc<Ground>, place: usize) -> Self {
        let process = start(&ground, place, 0).await;
        Self { ground, place, life: 0, process }
    }

    /// Waits until its process has handed over a mail, and the provider has not answered yet.
    pub async fn is_waiting_for_an_answer(&self) {
        let name = name(self.place, self.life);
        self.ground.provider.takes_mail_of(|by| by == name).await;
    }

    /// Kills the process. Gives the messages that the provider had taken of it without answering, and that the database
    /// still had as being sent when the process was dead.
    pub async fn kill(self) -> (Fallen, Vec<String>) {
        let Self { ground, place, life, process } = self;
        process.kill().await;
        let name = name(place, life);
        // Nobody is there any more who could hear the answer.
        let taken = ground.provider.unanswered(|by| by == name);
        ground.killed.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        let in_process = ground.select("select id::text from postrider.pending where status = 'IN_PROCESS'").await;
        let caught = taken.into_iter().filter(|id| in_process.contains(id)).collect();
        (Fallen { ground, place, life: life + 1 }, caught)
    }

    /// Keeps the process from doing anything for so long, though it holds leases.
    pub async fn pause(&self, time: Duration) {
        self.process.freeze();
        sleep(time).await;
        self.process.thaw();
    }

    async fn finish(self) {
        assert!(!self.process.log().contains("\"panicked\""), "{}", self.process.log());
        self.process.finish().await;
    }
}

/// A member without a process.
pub struct Fallen {
    ground: Arc<Ground>,
    place: usize,
    life: usize,
}

impl Fallen {
    /// Starts the next process.
    pub async fn rise(self) -> Member {
        let Self { ground, place, life } = self;
        let process = start(&ground, place, life).await;
        ground.callers.write().unwrap_or_else(PoisonError::into_inner)[place] = Caller::clone(&process);
        Member { ground, place, life, process }
    }
}

/// How the provider knows a process.
fn name(place: usize, life: usize) -> String {
    format!("process-{place}-{life}.example")
}

async fn start(ground: &Ground, place: usize, life: usize) -> Process {
    let (setup, name) = (ground.setup.clone(), name(place, life));
    let setup = match ground.protocol {
        Protocol::Http => setup.set("providers.provider.url", format!("http://{}/{name}", ground.provider.address)),
        Protocol::Smtp => setup.set("providers.provider.hello_name", name),
    };
    Process::start_at(&ground.database_url, &setup).await
}
