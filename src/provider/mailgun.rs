//! The adapter of kind `mailgun`: Mailgun's messages API, version 3, by raw MIME.
//!
//! Owns what is said to it and what its answers mean
//! (<https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages>); the wire is the shared
//! machinery's.
//!
//! Its form with a field for each header could not carry a part of the recipients, and takes the name of an image for its
//! Content-ID. By MIME the envelope is apart, and the bytes are those that SMTP would carry.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::{
    Method, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};

use super::{
    Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Form, Judgement, OUR_ID, Request, Unfit, WebProvider},
};
use crate::{
    config::{ApiProvider, MailgunRegion},
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::mime,
};

/// What is said to Mailgun.
pub(super) struct Mailgun {
    base: Url,
    authorization: (HeaderName, HeaderValue),
    domain: Option<String>,
}

/// An account at Mailgun.
pub(super) fn account(
    name: ProviderName,
    settings: &ApiProvider,
    region: MailgunRegion,
    domain: Option<&str>,
) -> Result<WebProvider<Mailgun>, SettingsError> {
    let usual = match region {
        MailgunRegion::Us => "https://api.mailgun.net",
        MailgunRegion::Eu => "https://api.eu.mailgun.net",
    };
    let key = web::key(settings)?;
    if key.expose_secret().is_empty() {
        return Err(SettingsError::Value("key", "is empty"));
    }
    let credentials = SecretString::from(BASE64_STANDARD.encode(format!("api:{}", key.expose_secret())));
    let mailgun = Mailgun {
        base: web::base(settings, usual)?,
        authorization: web::authorization("Basic", "key", &credentials)?,
        domain: domain.map(str::to_owned),
    };
    WebProvider::of(name, capabilities(), settings.into(), mailgun)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(25 * 1024 * 1024),
        max_recipients: Some(1000),
        smtputf8: false,
        ..Capabilities::unlimited()
    }
}

impl Mailgun {
    /// A request of that form to the resource of a domain that takes messages.
    fn post(&self, domain: &str, form: Form, resource: &str) -> Result<Request, Unfit> {
        let (content_type, payload) = form.finish().map_err(|error| Unfit::new("encoding", error.to_string()))?;
        let mut headers = HeaderMap::from_iter([self.authorization.clone()]);
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let size = payload.remaining();
        let url = web::below(&self.base, &["v3", domain, resource]);
        Ok(Request { method: Method::POST, url, headers, payload, size })
    }
}

impl Api for Mailgun {
    fn request(&self, asked: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let (message, email) = (&submission.message, &submission.message.email);
        let content = mime::render(message)?;
        let size = content.len() as u64;
        // The caller learns the id after it gave the content, so the content cannot hold this boundary.
        let form = Form::new(format!("postrider-{}", message.id.as_uuid().simple()));
        let form = asked.recipients.iter().fold(form, |form, (_, address)| form.field("to", address));
        let form = form.field(&format!("v:{OUR_ID}"), &message.id.to_string());
        let form = email.tags.iter().fold(form, |form, tag| form.field("o:tag", &in_ascii(tag)));
        let form = form.file("message", "message.eml", "message/rfc822", content.into());
        let domain = self.domain.as_deref().unwrap_or(email.from.address.domain());
        Ok(Request { size, ..self.post(domain, form, "messages.mime")? })
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// A message without a sender, a recipient and a content, in test mode: refused with 400, once the key was accepted.
    /// Keys that may only send may not read anything. Where the domain follows the sender there is none to ask for.
    fn probe(&self) -> Option<Request> {
        let form = Form::new("postrider-probe".to_owned()).field("o:testmode", "yes");
        self.post(self.domain.as_deref()?, form, "messages").ok()
    }

    fn judge_probe(&self, answer: &Answer) -> Health {
        match answer.json() {
            Some(json) if answer.status == 400 && json["message"].is_string() => Health::Healthy,
            _ if (200..300).contains(&answer.status) && is_greeting(answer) => Health::Misconfigured,
            _ => web::of_probe(answer),
        }
    }
}

/// Tags are of ASCII.
fn in_ascii(tag: &str) -> String {
    if tag.is_ascii() { tag.to_owned() } else { web::label(tag) }
}

/// What Mailgun answers to any path that it does not know.
fn is_greeting(answer: &Answer) -> bool {
    String::from_utf8_lossy(answer.bytes()).contains("Mailgun Magnificent API")
}

/// What Mailgun's own words mean.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    if (200..300).contains(&answer.status) && is_greeting(answer) {
        return Some(Judgement::new(Class::Misconfigured).about(Scope::Provider).said(None, "not the path of its API"));
    }
    let json = answer.json();
    let message = json.as_ref().and_then(|json| json["message"].as_str());
    let text = String::from_utf8_lossy(answer.bytes());
    let words = message.unwrap_or(&text).to_lowercase();
    let judgement = match answer.status {
        200..300 => return accepted(json.as_ref(), message),
        400..500 if words.contains("for test purposes only") || words.contains("activate your") => {
            Judgement::new(Class::Misconfigured)
        }
        // Passing at times, but only time can tell.
        404 if words.contains("domain not found") => Judgement::new(Class::Misconfigured).about(Scope::SenderDomain),
        402 | 420 => Judgement::new(Class::QuotaUsedUp).resting(rest_until_date(answer, &text)),
        400 if message.is_some() => refused(asked, &words),
        _ => return message.map(|words| web::by_status(asked.unknown_outcome, answer, true).said(None, words)),
    };
    Some(judgement.said(None, message.unwrap_or(&text)))
}

fn accepted(json: Option<&serde_json::Value>, message: Option<&str>) -> Option<Judgement> {
    let id = web::id_of(&json?["id"]);
    match message {
        // Something was said, and not that it was queued.
        Some(words) if id.is_none() && !words.starts_with("Queued") => {
            Some(Judgement::new(Class::OutcomeUnknown).said(None, words))
        }
        _ => Some(Judgement::new(Class::Accepted).known_as(id).said(None, "")),
    }
}

fn refused(asked: &Asked<'_>, words: &str) -> Judgement {
    let of_recipient = ["'to'", "'cc'", "'bcc'"].iter().any(|field| words.starts_with(field));
    if of_recipient && words.contains("not a valid address") {
        return Judgement::of_recipients(asked, asked.named_in(words));
    }
    // Options, variables and headers together may have 16 kB.
    if ["16kb", "16 kb", "too large", "too long"].iter().any(|size| words.contains(size)) {
        return Judgement::new(Class::UnfitHere);
    }
    Judgement::new(Class::MessageRejected)
}

/// The time until the date that a text holds: `Tue, 01 Dec 2026 12:00:00 UTC`.
fn rest_until_date(answer: &Answer, text: &str) -> Option<Duration> {
    const LENGTH: usize = "Tue, 01 Dec 2026 12:00:00 UTC".len();
    let date = |(comma, _): (usize, &str)| text.get(comma.checked_sub(3)?..comma - 3 + LENGTH);
    let dates = text.match_indices(", ").filter_map(date);
    let mut times = dates.filter_map(|date| httpdate::parse_http_date(&date.replace("UTC", "GMT")).ok());
    times.next()?.duration_since(answer.given_at()).ok()
}
