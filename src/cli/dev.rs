//! `postrider dev`.
//!
//! Owns what is said at the start; what runs is put together in `local`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{
    Exit, Failure,
    local::{BACKUP, LocalSystem, PRIMARY, Places},
    serve::StopSignals,
};
use crate::{config, sandbox::console::Console, telemetry};

/// Run everything on this machine, sandbox providers and a private Postgres included, until Ctrl-C.
#[derive(Debug, Args)]
pub(super) struct Dev {
    /// Where the service listens.
    #[arg(long, default_value = "127.0.0.1:50051", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where the sandbox's console listens.
    #[arg(long, default_value = "127.0.0.1:8025", value_name = "ADDRESS")]
    console: SocketAddr,
    /// Keep the database in this folder instead of one that is gone afterwards.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

impl Dev {
    #[allow(clippy::print_stdout)]
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        let telemetry = telemetry::init(&config::Telemetry::default())
            .map_err(|error| Failure::Usage(format!("telemetry: {error}")))?;
        let mut signals = StopSignals::new()?;
        let places = Places { data: self.data.clone(), listen: Some(self.listen) };
        let system = LocalSystem::start(places).await?;
        let switches = vec![system.primary.switch(), system.backup.switch()];
        let console = Console::start(Some(self.console), system.inbox.clone(), switches).await?;
        print!("{}", welcome(&system, &console));
        signals.received().await;
        println!("Stopping.");
        system.stop().await?;
        telemetry.shutdown().await;
        Ok(Exit::Done)
    }
}

fn welcome(system: &LocalSystem, console: &Console) -> String {
    let service = system.app.address();
    let console = console.url();
    let program = std::env::args().next().unwrap_or_else(|| "postrider".to_owned());
    let address = if service.port() == 50051 { String::new() } else { format!(" --address http://{service}") };
    format!(
        r#"
Postrider is up, and stops with Ctrl-C.

  gRPC        {service}   (no TLS; reflection is on)
  inbox       {console}   what the sandbox's providers received; faults to switch on
  {PRIMARY:<11} {primary}
  {BACKUP:<11} {backup}
  Postgres    {database}

Send an email:

  {program} send{address} --from shop@example.com --to ada@example.org \
    --subject 'Hello' --text 'Sent by Postrider.' --wait

The same from any gRPC client, for example grpcurl:

  grpcurl -plaintext -d '{{"email":{{"from":{{"address":"shop@example.com"}},"to":[{{"address":"ada@example.org"}}],"subject":"Hello","text":"Sent by Postrider."}}}}' \
    {service} postrider.v1.EmailService/SendEmail

Break the first provider, send again, and heal it:

  curl -X POST {console}faults/{PRIMARY}/status:503
  curl -X POST {console}faults/{PRIMARY}/none

"#,
        primary = system.primary.url(),
        backup = system.backup.url(),
        database = system.database_url(),
    )
}
