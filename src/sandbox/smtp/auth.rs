//! SMTP authentication, PLAIN (RFC 4616) and LOGIN.
//!
//! Owns the exchange; whether one may ask for it is the session's business.

use std::io;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{
    SmtpCredentials,
    wire::{CommandLine, Wire},
};

/// How an exchange ended.
pub(super) enum Verdict {
    Known,
    Unknown,
    Malformed,
    NoSuchMechanism,
}

/// Carries out the exchange that the arguments of AUTH begin.
pub(super) async fn exchange(wire: &mut Wire, arguments: &str, credentials: &SmtpCredentials) -> io::Result<Verdict> {
    let mut words = arguments.split_ascii_whitespace();
    let mechanism = words.next().unwrap_or_default().to_ascii_uppercase();
    let initial = words.next();
    let given = match mechanism.as_str() {
        "PLAIN" => ask(wire, "", initial).await?.and_then(|response| plain(&response)),
        "LOGIN" => match ask(wire, "VXNlcm5hbWU6", initial).await? {
            Some(username) => ask(wire, "UGFzc3dvcmQ6", None).await?.map(|password| (username, password)),
            None => None,
        },
        _ => return Ok(Verdict::NoSuchMechanism),
    };
    Ok(match given {
        Some((username, password)) if username == credentials.username && password == credentials.password => {
            Verdict::Known
        }
        Some(_) => Verdict::Unknown,
        None => Verdict::Malformed,
    })
}

/// The client's response, decoded; asked for unless it came with the command.
async fn ask(wire: &mut Wire, challenge: &str, initial: Option<&str>) -> io::Result<Option<String>> {
    let encoded = match initial {
        // An empty initial response (RFC 4954, section 4).
        Some("=") => String::new(),
        Some(initial) => initial.to_owned(),
        None => {
            wire.reply(format_args!("334 {challenge}"));
            match wire.command().await? {
                CommandLine::Line(line) => line,
                _ => return Ok(None),
            }
        }
    };
    Ok(BASE64_STANDARD.decode(encoded).ok().and_then(|decoded| String::from_utf8(decoded).ok()))
}

/// User name and password of `authorization NUL user NUL password`.
fn plain(response: &str) -> Option<(String, String)> {
    let (_, rest) = response.split_once('\0')?;
    let (username, password) = rest.split_once('\0')?;
    Some((username.to_owned(), password.to_owned()))
}
