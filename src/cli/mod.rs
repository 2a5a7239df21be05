//! The commands of the `postrider` program, and what they print for people and for scripts.
//!
//! Owns arguments, output and exit codes. A client command speaks to a service over gRPC like anybody else.

mod bench;
mod cancel;
mod check_config;
mod client;
mod demo;
mod dev;
mod eml;
mod exit;
mod filter;
mod list;
mod local;
mod output;
mod providers;
mod request_file;
mod retry;
mod send;
mod serve;
mod show;
mod status;
mod table;
mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use exit::{Exit, Failure};

/// Sends transactional email for other services: a Postgres outbox, a chain of providers, failover.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: the gRPC API, the dispatcher and the clean-up, or some of them.
    Serve(serve::Serve),
    /// Create or update the tables of the outbox.
    Migrate(ConfigFile),
    /// Check the settings, say all that is wrong with them, and print those in effect.
    CheckConfig(ConfigFile),
    /// Send an email through a running service.
    Send(Box<send::Send>),
    /// Show where a message stands and how it came there.
    Status(status::ShowStatus),
    /// List messages of every client, newest first.
    List(list::List),
    /// Show one message of any client, with its content.
    Show(show::Show),
    /// Have messages tried again that wait for a person.
    Retry(retry::Retry),
    /// Show the providers and how they do, or take one out of rotation.
    Providers(providers::Providers),
    /// Show where a message stands, and each change, until it is finished.
    Watch(watch::Watch),
    /// Call messages off.
    Cancel(cancel::Cancel),
    /// Run everything on this machine, sandbox providers and a private Postgres included, until Ctrl-C.
    Dev(dev::Dev),
    /// Show a failover from beginning to end: 200 emails, a provider that breaks and heals, every inbox checked.
    Demo(demo::Demo),
    /// Measure how fast this build is on this machine, against what the machine itself can do.
    Bench(bench::Bench),
}

/// Where the settings are.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The file with the settings. Without it: ./postrider.toml if there is one, else the defaults.
    #[arg(long, short, env = "POSTRIDER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Cli {
    /// Runs the command.
    pub async fn run(self) -> Result<Exit, Failure> {
        match self.command {
            Command::Serve(serve) => serve.run().await,
            Command::Migrate(file) => serve::migrate(&file).await,
            Command::CheckConfig(file) => check_config::run(&file),
            Command::Send(send) => send.run().await,
            Command::Status(status) => status.run().await,
            Command::List(list) => list.run().await,
            Command::Show(show) => show.run().await,
            Command::Retry(retry) => retry.run().await,
            Command::Providers(providers) => providers.run().await,
            Command::Watch(watch) => watch.run().await,
            Command::Cancel(cancel) => cancel.run().await,
            Command::Dev(dev) => dev.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::Bench(bench) => bench.run().await,
        }
    }
}
