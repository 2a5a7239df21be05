//! What must hold for providers.
//!
//! Owns these checks only; the adapters rely on them.

use std::{collections::BTreeSet, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::{
    ApiProvider, ApiService, Chain, HttpProvider, Provider, ProviderKind, Settings,
    certificates::read_certificates,
    problem::Problems,
    smtp_rules::{self, check_file, is_domain, is_loopback},
    source::same_name,
    value::Value,
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
            ProviderKind::Smtp(smtp) => smtp_rules::check(&path, smtp, problems),
            ProviderKind::Api(api) => check_api(&path, api, problems),
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
        let in_clear = match &provider.kind {
            ProviderKind::Http(http) => http.token.is_some() && is_clear_text_abroad(&http.url),
            ProviderKind::Api(api) => api.url.as_deref().is_some_and(is_clear_text_abroad),
            ProviderKind::Smtp(_) => false,
        };
        if in_clear {
            let secret = if matches!(provider.kind, ProviderKind::Http(_)) { "token" } else { "key" };
            warnings.push(format!("providers.{name}.url: the {secret} is sent over it without TLS"));
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
    check_secret(&format!("{path}.token"), http.token.as_ref(), problems);
    check_file(&format!("{path}.ca_file"), http.ca_file.as_deref(), read_certificates, problems);
    let is_missing = http.url.is_empty() && !problems.is_given(&url_path);
    if !is_missing {
        check_url(&url_path, &http.url, "token", problems);
    }
}

fn check_api(path: &str, api: &ApiProvider, problems: &mut Problems) {
    let at = |key: &str| format!("{path}.{key}");
    let is_given = problems.is_given(&at("key")) || problems.is_given(&at("key_file"));
    if api.key.is_none() && !is_given {
        problems.add(&at("key"), None, "missing, expected the account's key, here or in key_file");
    }
    check_secret(&at("key"), api.key.as_ref(), problems);
    check_file(&at("ca_file"), api.ca_file.as_deref(), read_certificates, problems);
    if let Some(url) = &api.url {
        check_url(&at("url"), url, "key", problems);
    }
    match &api.service {
        ApiService::Mailgun { domain: Some(domain), .. } => {
            problems.require(is_domain(domain), &[&at("domain")], domain, "expected a domain name");
        }
        ApiService::Ses { region, access_key_id, .. } => {
            let what = "expected the name of an AWS region, such as \"eu-central-1\"";
            problems.require(region.is_empty() || is_region(region), &[&at("region")], region, what);
            let is_id = access_key_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            problems.require(is_id, &[&at("access_key_id")], access_key_id, "expected letters and digits");
        }
        _ => {}
    }
}

/// The address of an API or a gateway, whose secret has a setting of its own.
fn check_url(path: &str, text: &String, secret: &str, problems: &mut Problems) {
    if !problems.is_sound(path) {
        return;
    }
    // A URL without a host is repaired by the parser: it takes the path's first part for one.
    let has_host = !text.contains(":///");
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host().is_some() && has_host => {
            let bare = url.username().is_empty() && url.password().is_none();
            let what = format!("expected no user and no password in it, give a {secret} instead");
            problems.require(bare, &[path], text, &what);
        }
        _ => problems.add(path, Some(&text.show()), "expected an http:// or https:// URL"),
    }
}

/// A secret that goes into a header.
fn check_secret(path: &str, secret: Option<&SecretString>, problems: &mut Problems) {
    let is_sendable = |secret: &SecretString| secret.expose_secret().chars().all(|c| c.is_ascii_graphic());
    if !secret.is_none_or(is_sendable) {
        problems.add(path, None, "expected printable ASCII without spaces, as it goes into a header");
    }
}

fn is_region(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The adapters' own timeouts must end first: only they can tell how far an attempt came.
fn check_patience(path: &str, provider: &Provider, attempt_timeout: Duration, problems: &mut Problems) {
    let (keys, sum): (&[&str], Duration) = match &provider.kind {
        ProviderKind::Http(http) => (&["connect_timeout", "timeout"], http.connect_timeout + http.timeout),
        ProviderKind::Api(api) => (&["connect_timeout", "timeout"], api.connect_timeout + api.timeout),
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

fn is_clear_text_abroad(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "http" && !url.host_str().is_some_and(is_loopback))
}
