//! `postrider dev`.

use clap::Args;

use super::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct Dev {}

impl Dev {
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        Ok(Exit::Done)
    }
}
