//! The `postrider` program.
//!
//! Owns what must be there before a command runs, and how the program ends; the commands are the library's.

use std::process::ExitCode;

use clap::Parser;
use postrider::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    // One TLS implementation for everything; it can only fail if another was installed, and nothing else installs one.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return ExitCode::FAILURE;
    }
    match Cli::parse().run().await {
        Ok(exit) => exit.into(),
        Err(failure) => {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("postrider: {failure}");
            }
            (&failure).into()
        }
    }
}
