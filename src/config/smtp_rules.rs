//! What must hold for a provider of kind `smtp`.
//!
//! Owns these checks only; the adapter relies on them.

use std::{net::IpAddr, path::Path};

use super::{
    Dkim, SmtpProvider, SmtpTls,
    certificates::{CertificateError, read_certificates, read_private_key},
    problem::Problems,
    value::Value,
};

/// Checks the settings of that provider.
pub(super) fn check(path: &str, smtp: &SmtpProvider, problems: &mut Problems) {
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
    check_file(&at("ca_file"), smtp.ca_file.as_deref(), read_certificates, problems);
    check_identity(path, smtp, problems);
    for (name, dkim) in &smtp.dkim {
        check_dkim(&format!("{path}.dkim.{name}"), dkim, problems);
    }
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

/// A certificate of our own goes with its key, and over TLS.
fn check_identity(path: &str, smtp: &SmtpProvider, problems: &mut Problems) {
    let (certificate_path, key_path) = (format!("{path}.certificate_file"), format!("{path}.key_file"));
    check_file(&certificate_path, smtp.certificate_file.as_deref(), read_certificates, problems);
    check_file(&key_path, smtp.key_file.as_deref(), read_private_key, problems);
    match (&smtp.certificate_file, &smtp.key_file) {
        (Some(_), None) if problems.is_sound(&key_path) && problems.is_sound(&certificate_path) => {
            problems.add(&key_path, None, &format!("missing, since {certificate_path} is given"));
        }
        (None, Some(_)) if problems.is_sound(&key_path) && problems.is_sound(&certificate_path) => {
            problems.add(&certificate_path, None, &format!("missing, since {key_path} is given"));
        }
        (Some(_), Some(_)) => {
            let what = "expected \"starttls\" or \"implicit\": without TLS no certificate is shown";
            problems.require(smtp.tls != SmtpTls::None, &[&format!("{path}.tls"), &certificate_path], &smtp.tls, what);
        }
        _ => {}
    }
}

fn check_dkim(path: &str, dkim: &Dkim, problems: &mut Problems) {
    let at = |key: &str| format!("{path}.{key}");
    if !dkim.domain.is_empty() || problems.is_given(&at("domain")) {
        problems.require(is_domain(&dkim.domain), &[&at("domain")], &dkim.domain, "expected a domain");
    }
    if !dkim.selector.is_empty() || problems.is_given(&at("selector")) {
        let what = "expected the part of the key's name in the DNS that stands before ._domainkey";
        problems.require(is_domain(&dkim.selector), &[&at("selector")], &dkim.selector, what);
    }
    let key_file = Some(dkim.key_file.as_path()).filter(|file| !file.as_os_str().is_empty());
    check_file(&at("key_file"), key_file, read_private_key, problems);
    let is_name =
        |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b':' | b';'));
    let sound = dkim.headers.iter().all(is_name) && dkim.headers.iter().any(|name| name.eq_ignore_ascii_case("From"));
    problems.require(sound, &[&at("headers")], &dkim.headers, "expected names of header fields, From among them");
}

/// Reads a file that may be named, and says what is wrong with it.
pub(super) fn check_file<T>(
    path: &str,
    file: Option<&Path>,
    read: fn(&Path) -> Result<T, CertificateError>,
    problems: &mut Problems,
) {
    let Some(file) = file else { return };
    if let Err(wrong) = read(file) {
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

pub(super) fn is_domain(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}

pub(super) fn is_loopback(host: &str) -> bool {
    match address(host) {
        Some(address) => address.is_loopback(),
        None => host.eq_ignore_ascii_case("localhost"),
    }
}
