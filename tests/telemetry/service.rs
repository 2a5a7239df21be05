//! The service as the tests play it, in a process of its own.
//!
//! Owns no assertion but that the process ends well.

use std::{env, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue};
use postrider::{
    config,
    delivery::{Class, Health, Outcome, ProviderName, Scope, Verdict},
    message::{
        ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, RecipientIndex, TraceContext,
        UnknownOutcome,
    },
    telemetry,
};
use time::OffsetDateTime;
use tokio::process::Command;

/// The trace of the caller.
pub const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// Its span.
pub const CALLER: &str = "b7ad6b7169203331";
/// The call.
pub const METHOD: &str = "postrider.v1.EmailService/SendEmail";
const AS_SERVICE: &str = "POSTRIDER_TEST_AS_SERVICE";

/// Whether this process is the one that plays the service.
pub fn is_service() -> bool {
    env::var_os(AS_SERVICE).is_some()
}

/// What the service said.
pub struct Said {
    pub out: String,
    pub err: String,
}

impl Said {
    /// The word behind `name=` on a line of its own.
    pub fn value(&self, name: &str) -> &str {
        let prefix = format!("{name}=");
        let line = self.out.lines().find_map(|line| line.trim().strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("no {name} in {}\n{}", self.out, self.err))
    }
}

/// Runs that test as the service. It must end well, and soon.
pub async fn run(test: &str, environment: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("telemetry::{test}"), "--nocapture"]).env(AS_SERVICE, "1").kill_on_drop(true);
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("OTEL_") || name == "RUST_LOG") {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.expect("it ends").unwrap();
    let said = Said { out: String::from_utf8(output.stdout).unwrap(), err: String::from_utf8(output.stderr).unwrap() };
    assert!(output.status.success(), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("1 passed"), "{}", said.out);
    said
}

pub fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|&(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

pub fn called_with_context() -> HeaderMap {
    headers(&[("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", "shop=42")])
}

pub fn settings() -> config::Telemetry {
    config::Telemetry { flush_limit: Duration::from_millis(500), ..Default::default() }
}

pub fn message(trace: TraceContext) -> Arc<Message> {
    let mailbox = |address: &str| Mailbox { name: None, address: EmailAddress::parse(address).unwrap() };
    let now = OffsetDateTime::now_utc();
    let email = Email {
        from: mailbox("from@example.com"),
        to: vec![mailbox("to@example.com")],
        cc: vec![],
        bcc: vec![],
        reply_to: vec![],
        subject: "Confidential".into(),
        text: Some("Confidential".into()),
        html: None,
        attachments: vec![],
        headers: vec![],
        tags: vec![],
        metadata: Default::default(),
        document_type: None,
    };
    Arc::new(Message {
        id: MessageId::new_at(now),
        client: ClientId::new("shop"),
        accepted_at: now,
        correlation_id: "order-7".into(),
        trace,
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email,
    })
}

/// A call that brings a message.
pub fn accept(headers: &HeaderMap) -> Arc<Message> {
    let call = telemetry::server_span(METHOD, headers);
    call.in_scope(|| {
        tracing::info_span!(target: "h2::client", "a library's span").in_scope(|| {});
        message(telemetry::accept_context(headers))
    })
}

/// An attempt at it, made by whoever has the message now; what it sends as `traceparent`.
pub fn attempt(message: &Message, class: Class) -> String {
    let span = telemetry::attempt_span(message, &ProviderName::new("relay"));
    let traceparent = telemetry::traceparent(&span, message);
    let verdict = Verdict::new(class, Scope::Provider, "421 4.3.0", "to@example.com said Confidential");
    telemetry::end_attempt(&span, &Outcome::uniform(&[RecipientIndex(0)], &verdict, Health::Healthy));
    traceparent
}

/// Bytes as they stand in a header.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
