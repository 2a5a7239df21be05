//! The kind `http`, as a subject of the tests that every adapter passes; its own are elsewhere.

use postrider::config::{self, HttpProvider, ProviderKind};

use super::{JSON, KEY, Subject, Way, response};

pub const SUBJECT: Subject = Subject {
    kind: "http",
    settings,
    accept: || response(200, JSON, r#"{"id":"id-1"}"#),
    accept_status: 200,
    refuse: || response(422, JSON, r#"{"error":{"class":"message_rejected","code":"content","detail":"no"}}"#),
    bad_credentials: || response(401, JSON, r#"{"error":{"code":"token"}}"#),
    throttle_body: r#"{"error":{"class":"throttled"}}"#,
};

fn settings(way: &Way) -> config::Provider {
    let Way { url, timeout, connect_timeout, ca_file } = way.clone();
    let token = Some(KEY.to_owned().into());
    let http = HttpProvider { token, timeout, connect_timeout, ca_file, ..HttpProvider::new(url) };
    config::Provider::new(ProviderKind::Http(http))
}
