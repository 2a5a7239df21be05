//! Clients and servers that nobody here wrote, at both ends of a running `postrider serve`.

mod clients;
mod eml;
mod gateway;
mod grpcurl;
mod postfix;

use std::{path::PathBuf, process::Stdio};

use tokio::process::Command;

use crate::support::{
    aiosmtpd::{Aiosmtpd, CREDENTIALS},
    program::{Program, run, run_with_input},
    python::{PYTHON, has_modules, repository},
};

/// Settings with aiosmtpd as the only provider.
fn relay(server: &Aiosmtpd, auth: &str) -> String {
    let ((user, password), port, ca_file) = (CREDENTIALS, server.port, server.ca_file());
    format!(
        "[retry]\npause = \"100ms\"\njitter = 0\n\
         [providers.relay]\nkind = \"smtp\"\nhost = \"localhost\"\nport = {port}\ntls = \"starttls\"\nauth = {auth:?}\n\
         username = {user:?}\npassword = {password:?}\nca_file = {ca_file:?}\n\
         [chains]\ndefault = [\"relay\"]\n"
    )
}

/// A Python program of this folder.
fn python(script: &str) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg(repository("tests/peers").join(script)).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether the clients on grpcio can run.
fn has_grpcio() -> bool {
    has_modules(&[("grpc", "python3-grpcio"), ("grpc_tools", "python3-grpc-tools")])
}

/// Sends so many specimens by Python's grpcio, each call with that metadata, and gives the ids of the messages once
/// they are sent.
async fn send_specimens(program: &Program, count: usize, metadata: &[&str]) -> Vec<String> {
    let mut client = python("client.py");
    client.args([&program.address, stubs(program).to_str().expect("a path in UTF-8"), &count.to_string()]);
    client.args(metadata);
    let said = run(client).await;
    let ids: Vec<String> = said.well().lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), count, "{said:?}");
    ids
}

fn stubs(program: &Program) -> PathBuf {
    let folder = program.place.path().join("stubs");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Holds what arrived against the specimen, by Python's email package.
async fn judge(content: &[u8], message_id: &str, optional_headers: &[&str]) {
    let mut judge = python("judge.py");
    judge.arg(message_id).args(optional_headers);
    let said = run_with_input(judge, content).await;
    assert_eq!(said.well(), "equal\n");
}
