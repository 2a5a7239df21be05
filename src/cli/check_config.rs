//! `postrider check-config`.
//!
//! Owns what is printed; what is wrong or hardly meant is found where settings are read.

use std::{env, ffi::OsString};

use super::{ConfigFile, Exit, Failure, output};
use crate::config::{self, Roles, Settings};

/// Reads and checks the settings; the failure lists all that is wrong.
pub(super) fn load(file: &ConfigFile) -> Result<Settings, Failure> {
    load_for(file, None)
}

/// The same for a process with those roles, whatever the settings say: what they have to hold depends on it.
pub(super) fn load_for(file: &ConfigFile, roles: Option<&Roles>) -> Result<Settings, Failure> {
    let roles = roles.map(|roles| (OsString::from("POSTRIDER_PROCESS__ROLES"), OsString::from(roles.to_string())));
    let variables = env::vars_os().chain(roles);
    config::load(file.config.as_deref(), variables).map_err(|errors| Failure::Usage(errors.to_string()))
}

/// Check the settings, say all that is wrong with them, and print those in effect. What is hardly meant goes to stderr:
/// what is on stdout can be kept as a file of settings.
pub(super) fn run(file: &ConfigFile) -> Result<Exit, Failure> {
    let settings = load(file)?;
    output::answer(&settings.summary())?;
    for warning in settings.warnings() {
        output::remark(&warning)?;
    }
    Ok(Exit::Done)
}
