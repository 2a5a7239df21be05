//! Debian's Python, by which the tests get peers that nobody here wrote.

use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The program. Not the PATH's: Debian's packages belong to Debian's Python.
pub const PYTHON: &str = "/usr/bin/python3";
/// Set, these tests are left out, and say so.
const SKIP: &str = "POSTRIDER_SKIP_PEERS";

/// Whether a test that needs these modules, each given with its Debian package, can run.
///
/// # Panics
///
/// Where they are missing: a test that is left out in silence is taken for one that passed.
pub fn has_modules(modules: &[(&str, &str)]) -> bool {
    if env::var_os(SKIP).is_some_and(|value| !value.is_empty()) {
        skipped(&format!("the environment has {SKIP}"));
        return false;
    }
    let missing: Vec<&str> =
        modules.iter().filter(|(module, _)| !has_module(module)).map(|(_, package)| *package).collect();
    assert!(
        missing.is_empty(),
        "missing: {0}. Install them (as root: apt-get install --yes --no-install-recommends {0}), \
         or set {SKIP}=1 to leave these tests out",
        missing.join(" "),
    );
    true
}

fn has_module(module: &str) -> bool {
    let import = format!("import {module}");
    let python = Command::new(PYTHON).args(["-c", &import]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    python.is_ok_and(|status| status.success())
}

/// Says that the test that runs is left out. Past the test harness, which keeps what a passing test prints to itself.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    writeln!(std::io::stderr(), "SKIPPED {test}: {why}").expect("standard error is open");
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
