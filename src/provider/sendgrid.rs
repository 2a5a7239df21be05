//! The adapter of kind `sendgrid`: the Mail Send API of Twilio SendGrid, version 3.
//!
//! Owns what is said to it and what its answers mean
//! (<https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send>); the wire is the shared machinery's.

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Contents, Judgement, List, OUR_ID, Request, Unfit, WebProvider},
};
use crate::{
    config::{ApiProvider, SendgridRegion},
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::{Attachment, Mailbox, RecipientIndex, mime},
};

/// What is said to SendGrid.
pub(super) struct Sendgrid {
    base: Url,
    authorization: (HeaderName, HeaderValue),
}

/// An account at SendGrid.
pub(super) fn account(
    name: ProviderName,
    settings: &ApiProvider,
    region: SendgridRegion,
) -> Result<WebProvider<Sendgrid>, SettingsError> {
    let usual = match region {
        SendgridRegion::Global => "https://api.sendgrid.com",
        SendgridRegion::Eu => "https://api.eu.sendgrid.com",
    };
    let authorization = web::authorization("Bearer", "key", web::key(settings)?)?;
    let sendgrid = Sendgrid { base: web::base(settings, usual)?, authorization };
    WebProvider::of(name, capabilities(), settings.into(), sendgrid)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(30 * 1024 * 1024),
        max_recipients: Some(1000),
        envelope_apart: false,
        repeated_headers: false,
        without_to: false,
        without_subject: false,
        smtputf8: false,
        ..Capabilities::unlimited()
    }
}

impl Sendgrid {
    fn headers(&self) -> HeaderMap {
        let mut headers = web::json();
        headers.extend([self.authorization.clone()]);
        headers
    }
}

impl Api for Sendgrid {
    fn request(&self, _: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let (message, email) = (&submission.message, &submission.message.email);
        let mut contents = Contents::new();
        let attachments: Result<Vec<Value>, Unfit> =
            email.attachments.iter().map(|attachment| file(attachment, &mut contents)).collect();
        let personalization = web::object([
            ("to", mailboxes(&email.to)),
            ("cc", mailboxes(&email.cc)),
            ("bcc", mailboxes(&email.bcc)),
            ("custom_args", json!({OUR_ID: message.id.to_string()})),
        ]);
        let mut headers = web::single_headers(email);
        headers.insert("Message-ID".to_owned(), mime::message_id_header(message).into());
        // By the documentation text must come before HTML.
        let bodies = [("text/plain", &email.text), ("text/html", &email.html)];
        let body = |(kind, text): (&str, &Option<String>)| Some(json!({"type": kind, "value": text.as_ref()?}));
        let json = web::object([
            ("personalizations", json!([personalization])),
            ("from", mailbox(&email.from)),
            ("reply_to_list", mailboxes(&email.reply_to)),
            ("subject", email.subject.as_str().into()),
            ("content", bodies.into_iter().filter_map(body).collect()),
            ("headers", headers.into()),
            ("categories", categories(&email.tags)),
            ("attachments", attachments?.into()),
        ]);
        let url = web::below(&self.base, &["v3", "mail", "send"]);
        Ok(Request::post(url, self.headers(), contents.put_into(&json)?))
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// The list of what the key may do, which every key may read.
    fn probe(&self) -> Option<Request> {
        Some(Request::get(web::below(&self.base, &["v3", "scopes"]), self.headers()))
    }

    fn judge_probe(&self, answer: &Answer) -> Health {
        let health = web::of_probe(answer);
        match answer.json() {
            Some(json) if health == Health::Healthy => match json["scopes"].as_array() {
                Some(scopes) if scopes.iter().any(|scope| scope == "mail.send") => Health::Healthy,
                Some(_) => Health::Misconfigured,
                None => Health::Neutral,
            },
            _ => health,
        }
    }
}

fn mailbox(mailbox: &Mailbox) -> Value {
    let name = mailbox.name.as_deref().filter(|name| !name.is_empty());
    // SendGrid writes the name into a header as it is, where a comma or a semicolon would end it.
    let safe = |name: &str| match name.contains([',', ';']) {
        true => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        false => name.to_owned(),
    };
    web::object([("email", mailbox.address.as_str().into()), ("name", name.map(safe).into())])
}

fn mailboxes(list: &[Mailbox]) -> Value {
    list.iter().map(mailbox).collect()
}

/// The tags, each once: SendGrid refuses repeated ones.
fn categories(tags: &[String]) -> Value {
    let first = |(place, tag): &(usize, &String)| !tags[..*place].contains(tag);
    tags.iter().enumerate().filter(first).map(|(_, tag)| tag.as_str()).collect()
}

fn file(attachment: &Attachment, contents: &mut Contents) -> Result<Value, Unfit> {
    if attachment.content.is_empty() {
        return Err(Unfit::new("attachment", "an attachment without content is not taken"));
    }
    // Parameters of the media type are not taken.
    let media_type = attachment.content_type.split(';').next().unwrap_or_default().trim();
    let disposition = if attachment.content_id.is_some() { "inline" } else { "attachment" };
    Ok(web::object([
        ("content", contents.hold(&attachment.content).into()),
        ("type", media_type.into()),
        ("filename", attachment.filename.as_str().into()),
        ("disposition", disposition.into()),
        ("content_id", attachment.content_id.as_deref().into()),
    ]))
}

/// What SendGrid's own words mean.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    let errors = errors(answer);
    let message = errors.first().map(|error| error.message.as_str()).unwrap_or_default();
    let words = message.to_lowercase();
    let judgement = match answer.status {
        200..300 if errors.is_empty() => {
            let id = answer.header("x-message-id").and_then(|id| web::id_of(&id.into()));
            return Some(Judgement::new(Class::Accepted).known_as(id).said(None, ""));
        }
        200..300 => web::after_an_internal_error(asked.unknown_outcome),
        429 => {
            let rest = answer.retry_after().or_else(|| answer.rest_by("x-ratelimit-reset"));
            Judgement::new(Class::Throttled).resting(rest)
        }
        _ if errors.is_empty() => return None,
        400 => refused(asked, &errors),
        401 if words.contains("credits exceeded") => Judgement::new(Class::QuotaUsedUp),
        403 if words.contains("sender identity") => Judgement::new(Class::Misconfigured).about(Scope::SenderDomain),
        // A block of some minutes after many bad requests.
        403 if words.contains("temporar") => Judgement::new(Class::Unavailable),
        _ => web::by_status(asked.unknown_outcome, answer, true),
    };
    Some(judgement.said(errors.first().and_then(|error| error.code.clone()), message))
}

struct Refusal {
    message: String,
    field: String,
    code: Option<String>,
}

fn errors(answer: &Answer) -> Vec<Refusal> {
    let json = answer.json().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let error = |error: &Value| Refusal {
        message: text(&error["message"]),
        field: text(&error["field"]),
        code: web::plain_code(&error["field"]),
    };
    json["errors"].as_array().into_iter().flatten().filter(|error| error.is_object()).map(error).collect()
}

/// A request that was refused: for some of its recipients, unless anything else is wrong with it too.
fn refused(asked: &Asked<'_>, errors: &[Refusal]) -> Judgement {
    let about: Vec<_> = errors.iter().map(|error| recipients(asked, error)).collect();
    let named = about.iter().flatten().flatten().copied().collect();
    match about.iter().all(Option::is_some) {
        true => Judgement::of_recipients(asked, named),
        false => Judgement::new(Class::MessageRejected).but(named, Class::RecipientRejected),
    }
}

/// The recipients that an error is about, by its field (`personalizations.0.to.1.email`) or its words; `None` if it is
/// about something else.
fn recipients(asked: &Asked<'_>, error: &Refusal) -> Option<Vec<RecipientIndex>> {
    let mut steps = error.field.split('.');
    if steps.next() != Some("personalizations") {
        return None;
    }
    let mut steps = steps.skip_while(|step| step.bytes().all(|byte| byte.is_ascii_digit()));
    let list = match steps.next()? {
        "to" => List::To,
        "cc" => List::Cc,
        "bcc" => List::Bcc,
        _ => return None,
    };
    let place = steps.next().and_then(|step| step.parse().ok());
    // Its name, for example, is no fault of the recipient.
    if steps.next().is_some_and(|step| step != "email") {
        return None;
    }
    let by_place = place.and_then(|place| asked.at(list, place));
    Some(by_place.map_or_else(|| asked.named_in(&error.message), |index| vec![index]))
}
