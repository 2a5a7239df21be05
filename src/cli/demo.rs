//! `postrider demo`.

use clap::Args;

use super::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct Demo {}

impl Demo {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        Ok(Exit::Done)
    }
}
