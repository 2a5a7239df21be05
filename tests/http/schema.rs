//! What is sent, held against the published contract by a validator that no one here wrote.

use std::{io::Write, process::Stdio};

use super::*;
use crate::support::python::skipped;

#[tokio::test]
async fn what_is_sent_conforms_to_the_published_schema() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    let provider = provider(&peer.url());
    let mut least = bare(UnknownOutcome::Hold);
    least.email = Email {
        from: mailbox(None, "a@example.com"),
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: Vec::new(),
        subject: String::new(),
        text: None,
        html: None,
        headers: Vec::new(),
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        document_type: None,
        ..least.email
    };
    let mut documents = Vec::new();
    for message in [message(), least] {
        provider.send(submission(message, &[0])).await;
        documents.extend(peer.request().await.body);
        documents.push(b'\n');
    }

    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/gateway/openapi.yaml");
    let python = std::process::Command::new("python3")
        .args(["-c", include_str!("schema.py"), contract])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        skipped("python3 is not installed");
        return;
    };
    // Where it lacks a module it ends without reading, and its exit code says so.
    drop(python.stdin.take().unwrap().write_all(&documents));
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(77) => skipped(&format!("python3-yaml and python3-jsonschema are needed: {said}")),
        code => assert_eq!((code, said.trim()), (Some(0), "checked 22")),
    }
}
