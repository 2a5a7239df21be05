//! What must hold for providers.
//!
//! Owns these checks only; the adapters rely on them.

use std::{collections::BTreeSet, net::IpAddr, path::Path, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{
    Chain, HttpProvider, Provider, ProviderKind, Settings, SmtpProvider, SmtpTls, certificates::read_certificates,
    problem::Problems, source::same_name, value::Value,
};

/// Checks the providers.
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
    let mut before: Vec<&str> = Vec::new();
    for (name, provider) in &settings.providers {
        let path = format!("providers.{name}");
        check_name("providers", name, &before, problems);
        before.push(name);
        check_breaker(&path, provider, problems);
        match &provider.kind {
            ProviderKind::Http(http) => check_http(&path, http, problems),
            ProviderKind::Smtp(smtp) => check_smtp(&path, smtp, problems),
        }
        check_patience(&path, provider, settings.dispatch.attempt_timeout, problems);
    }
}

/// What is no mistake, but hardly meant.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let used: BTreeSet<&str> = settings.chains.values().flat_map(Chain::providers).collect();
    let unused = settings.providers.keys().filter(|name| !used.contains(name.as_str()));
    let mut warnings: Vec<String> =
        unused.map(|name| format!("providers.{name}: stands in no chain, so it is never asked")).collect();
    for (name, provider) in &settings.providers {
        if let ProviderKind::Http(http) = &provider.kind
            && http.token.is_some()
            && is_clear_text_abroad(&http.url)
        {
            warnings.push(format!("providers.{name}.url: the token is sent over it without TLS"));
        }
    }
    warnings
}

/// A name stands in logs, metrics and the names of environment variables.
pub(super) fn check_name(section: &str, name: &str, before: &[&str], problems: &mut Problems) {
    let path = &format!("{section}.{name}");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let ends_well = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.ends_with(|last: char| last.is_ascii_alphanumeric())
    };
    let doubled = name.as_bytes().windows(2).any(|pair| pair.iter().all(|byte| matches!(byte, b'-' | b'_')));
    if !name.bytes().all(plain) || !ends_well(name) || doubled || name.len() > 40 {
        let what = "expected a name of up to 40 letters and digits, with single - or _ between them";
        problems.add(path, None, what);
    }
    if let Some(other) = before.iter().find(|other| same_name(other, name)) {
        problems.add(
            path,
            None,
            &format!("differs from {section}.{other} only by case, - or _: expected another name"),
        );
    }
}

fn check_breaker(path: &str, provider: &Provider, problems: &mut Problems) {
    let breaker = &provider.breaker;
    let (open_for, longest) = (format!("{path}.breaker.open_for"), format!("{path}.breaker.open_longest"));
    let what = format!("expected {longest} ({}) at most", breaker.open_longest.show());
    problems.require(breaker.open_for <= breaker.open_longest, &[&open_for, &longest], &breaker.open_for, &what);
}

fn check_http(path: &str, http: &HttpProvider, problems: &mut Problems) {
    let url_path = format!("{path}.url");
    check_token(path, http, problems);
    check_certificates(&format!("{path}.ca_file"), http.ca_file.as_deref(), problems);
    let is_missing = http.url.is_empty() && !problems.is_given(&url_path);
    if !problems.is_sound(&url_path) || is_missing {
        return;
    }
    // A URL without a host is repaired by the parser: it takes the path's first part for one.
    let has_host = !http.url.contains(":///");
    match Url::parse(&http.url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host().is_some() && has_host => {
            let bare = url.username().is_empty() && url.password().is_none();
            let what = "expected no user and no password in it, give a token instead";
            problems.require(bare, &[&url_path], &http.url, what);
        }
        _ => problems.add(&url_path, Some(&http.url.show()), "expected an http:// or https:// URL"),
    }
}

/// The token goes into a header.
fn check_token(path: &str, http: &HttpProvider, problems: &mut Problems) {
    let is_sendable = |token: &SecretString| token.expose_secret().chars().all(|c| c.is_ascii_graphic());
    if !http.token.as_ref().is_none_or(is_sendable) {
        problems.add(
            &format!("{path}.token"),
            None,
            "expected printable ASCII without spaces, as it goes into a header",
        );
    }
}

fn check_smtp(path: &str, smtp: &SmtpProvider, problems: &mut Problems) {
    let at = |key: &str| format!("{path}.{key}");
    if !smtp.host.is_empty() || problems.is_given(&at("host")) {
        let what = "expected a host name or an IP address, without a port";
        problems.require(is_host(&smtp.host), &[&at("host")], &smtp.host, what);
    }
    if let Some(name) = &smtp.hello_name {
        let what = "expected a host name or an address in square brackets";
        problems.require(is_hello_name(name), &[&at("hello_name")], name, what);
    }
    check_credentials(path, smtp, problems);
    check_certificates(&at("ca_file"), smtp.ca_file.as_deref(), problems);
}

fn check_credentials(path: &str, smtp: &SmtpProvider, problems: &mut Problems) {
    let at = |key: &str| format!("{path}.{key}");
    let has_password = problems.is_given(&at("password")) || problems.is_given(&at("password_file"));
    if smtp.username.is_some() && !has_password {
        problems.add(&at("password"), None, &format!("missing, since {} is given", at("username")));
    }
    if smtp.username.is_none() && has_password && problems.is_sound(&at("username")) {
        problems.add(&at("username"), None, "missing, since a password is given");
    }
    if let (Some(auth), None) = (smtp.auth, &smtp.username) {
        problems.require(has_password, &[&at("auth"), &at("username")], &auth, "expected a username besides it");
    }
    let in_clear = smtp.tls == SmtpTls::None && (smtp.username.is_some() || has_password) && !is_loopback(&smtp.host);
    let what = "expected \"starttls\" or \"implicit\": credentials are not sent to another machine in clear text";
    problems.require(!in_clear, &[&at("tls"), &at("host")], &smtp.tls, what);
}

/// The adapters' own timeouts must end first: only they can tell how far an attempt came.
fn check_patience(path: &str, provider: &Provider, attempt_timeout: Duration, problems: &mut Problems) {
    let (keys, sum): (&[&str], Duration) = match &provider.kind {
        ProviderKind::Http(http) => (&["connect_timeout", "timeout"], http.connect_timeout + http.timeout),
        ProviderKind::Smtp(smtp) => (
            &["connect_timeout", "command_timeout", "data_timeout"],
            smtp.connect_timeout + smtp.command_timeout + smtp.data_timeout,
        ),
    };
    let keys: Vec<String> = keys.iter().map(|key| format!("{path}.{key}")).collect();
    let mut paths = vec!["dispatch.attempt_timeout"];
    paths.extend(keys.iter().map(String::as_str));
    let what = format!("expected {} at least, the sum of {}", sum.show(), keys.join(", "));
    problems.require(sum <= attempt_timeout, &paths, &attempt_timeout, &what);
}

fn check_certificates(path: &str, file: Option<&Path>, problems: &mut Problems) {
    let Some(file) = file else { return };
    if let Err(wrong) = read_certificates(file) {
        problems.add(path, Some(&file.to_owned().show()), &wrong.to_string());
    }
}

fn is_host(host: &str) -> bool {
    address(host).is_some() || is_domain(host)
}

/// The IP address that the host is, which may stand in square brackets.
fn address(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn is_hello_name(name: &str) -> bool {
    is_domain(name) || name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(is_address_literal)
}

fn is_address_literal(inner: &str) -> bool {
    inner.strip_prefix("IPv6:").unwrap_or(inner).parse::<IpAddr>().is_ok()
}

fn is_domain(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

fn is_loopback(host: &str) -> bool {
    match address(host) {
        Some(address) => address.is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    }
}

fn is_clear_text_abroad(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "http" && !url.host_str().is_some_and(is_loopback))
}
