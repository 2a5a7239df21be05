//! What must hold between settings, and for values whose type does not say enough.
//!
//! Owns the checks of everything but providers, chains and routes; what one setting alone can have wrong is found by the
//! reader.

use secrecy::ExposeSecret;
use tracing_subscriber::EnvFilter;
use url::Url;

use super::{Settings, problem::Problems, value::Value};

/// Checks the settings as a whole.
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
    check_server(settings, problems);
    check_database(settings, problems);
    check_dispatch(settings, problems);
    check_retry(settings, problems);
    check_policy(settings, problems);
    check_telemetry(settings, problems);
    super::provider_rules::check(settings, problems);
    super::chain_rules::check(settings, problems);
}

impl Problems {
    /// Adds a problem of the first path unless `holds`, or unless one of the paths is wrong already: then nothing can
    /// be said of how they compare.
    pub(super) fn require<T: Value>(&mut self, holds: bool, paths: &[&str], value: &T, what: &str) {
        if !holds && paths.iter().all(|path| self.is_sound(path)) {
            self.add(paths[0], Some(&value.show()), what);
        }
    }
}

fn check_server(settings: &Settings, problems: &mut Problems) {
    let server = &settings.server;
    problems.require(
        server.listen.ip().is_loopback(),
        &["server.listen"],
        &server.listen,
        "expected a loopback address, since calls are not authenticated",
    );
    let what = format!("expected policy.max_message_bytes ({}) at least", settings.policy.max_message_bytes);
    problems.require(
        server.max_request_bytes >= settings.policy.max_message_bytes,
        &["server.max_request_bytes", "policy.max_message_bytes"],
        &server.max_request_bytes,
        &what,
    );
}

fn check_database(settings: &Settings, problems: &mut Problems) {
    let database = &settings.database;
    match &database.url {
        None if !problems.is_given("database.url") && !problems.is_given("database.url_file") => {
            problems.add("database.url", None, "missing, expected postgres://user:password@host:port/database");
        }
        Some(url) if !is_postgres(url.expose_secret()) => {
            let path = if problems.is_given("database.url_file") { "database.url_file" } else { "database.url" };
            let what = "expected postgres://user:password@host:port/database (the value is not shown, it is a secret)";
            problems.add(path, None, what);
        }
        _ => {}
    }
    problems.require(
        is_identifier(&database.schema),
        &["database.schema"],
        &database.schema,
        "expected a name of small letters, digits and _, up to 63 of them, not beginning with a digit or with pg_",
    );
}

fn is_postgres(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "postgres" | "postgresql"))
}

fn is_identifier(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
}

fn check_dispatch(settings: &Settings, problems: &mut Problems) {
    let dispatch = &settings.dispatch;
    let what = format!("expected dispatch.poll_longest ({}) at most", dispatch.poll_longest.show());
    problems.require(
        dispatch.poll_shortest <= dispatch.poll_longest,
        &["dispatch.poll_shortest", "dispatch.poll_longest"],
        &dispatch.poll_shortest,
        &what,
    );
    let what =
        format!("expected less than half of dispatch.lease ({}), so that one renewal may fail", dispatch.lease.show());
    problems.require(
        dispatch.lease_renewal * 2 < dispatch.lease,
        &["dispatch.lease_renewal", "dispatch.lease"],
        &dispatch.lease_renewal,
        &what,
    );
}

fn check_retry(settings: &Settings, problems: &mut Problems) {
    let retry = &settings.retry;
    for (path, bound) in [("retry.ceiling", &retry.ceiling), ("retry.longest_wait", &retry.longest_wait)] {
        let what = format!("expected {path} ({}) at most", bound.show());
        problems.require(retry.pause <= *bound, &["retry.pause", path], &retry.pause, &what);
    }
}

fn check_policy(settings: &Settings, problems: &mut Problems) {
    let policy = &settings.policy;
    let document_type = |word: &String| {
        (1..=64).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for word in policy.document_types.iter().filter(|word| !document_type(word)) {
        problems.add("policy.document_types", Some(&word.show()), "expected up to 64 of A-Z, 0-9 and _");
    }
    for word in policy.attachment_types.iter().filter(|word| !is_media_type(word)) {
        let what = "expected a media type in small letters, such as \"application/pdf\" or \"image/*\"";
        problems.add("policy.attachment_types", Some(&word.show()), what);
    }
}

fn is_media_type(word: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&-^_.+".contains(&byte))
    };
    word.split_once('/').is_some_and(|(kind, subtype)| token(kind) && (subtype == "*" || token(subtype)))
}

fn check_telemetry(settings: &Settings, problems: &mut Problems) {
    let level = &settings.telemetry.log_level;
    problems.require(
        !level.is_empty() && EnvFilter::builder().parse(level).is_ok(),
        &["telemetry.log_level"],
        level,
        "expected error, warn, info, debug or trace, or directives such as \"info,postrider::chain=debug\"",
    );
}
