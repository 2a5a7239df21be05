//! The adapter of kind `brevo`: Brevo's transactional email API, version 3.
//!
//! Owns what is said to it and what its answers mean (<https://developers.brevo.com/reference/sendtransacemail>); the
//! wire is the shared machinery's.

use std::time::Duration;

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

use super::{
    AttachmentNames, Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Contents, Judgement, List, OUR_ID, Request, Unfit, WebProvider},
};
use crate::{
    config::ApiProvider,
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::{Attachment, Email, Mailbox, Message},
};

/// How long a key is kept.
const IDEMPOTENCY: Duration = Duration::from_secs(15 * 60);

/// The extensions that Brevo takes.
const ALLOWED: &[&str] = &[
    "xlsx", "xls", "ods", "docx", "docm", "doc", "csv", "pdf", "txt", "gif", "jpg", "jpeg", "png", "tif", "tiff",
    "rtf", "bmp", "cgm", "css", "shtml", "html", "htm", "zip", "xml", "ppt", "pptx", "tar", "ez", "ics", "mobi", "msg",
    "pub", "eps", "odt", "mp3", "m4a", "m4v", "wma", "ogg", "flac", "wav", "aif", "aifc", "aiff", "mp4", "mov", "avi",
    "mkv", "mpeg", "mpg", "wmv", "pkpass", "xlsm",
];

/// What is said to Brevo.
pub(super) struct Brevo {
    base: Url,
    key: HeaderValue,
}

/// An account at Brevo.
pub(super) fn account(name: ProviderName, settings: &ApiProvider) -> Result<WebProvider<Brevo>, SettingsError> {
    let key = web::secret("key", web::key(settings)?)?;
    let brevo = Brevo { base: web::base(settings, "https://api.brevo.com")?, key };
    WebProvider::of(name, capabilities(), settings.into(), brevo)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(20 * 1024 * 1024),
        max_recipients: Some(99),
        envelope_apart: false,
        inline_images: false,
        attachments: AttachmentNames::Only(ALLOWED),
        repeated_headers: false,
        without_to: false,
        without_subject: false,
        smtputf8: false,
        idempotency: Some(IDEMPOTENCY),
    }
}

impl Brevo {
    fn headers(&self) -> HeaderMap {
        let mut headers = web::json();
        headers.insert(HeaderName::from_static("api-key"), self.key.clone());
        headers
    }
}

impl Api for Brevo {
    fn request(&self, _: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let (message, email) = (&submission.message, &submission.message.email);
        let mut contents = Contents::new();
        let attachments: Vec<Value> = email.attachments.iter().map(|each| file(each, &mut contents)).collect();
        let json = web::object([
            ("sender", mailbox(&email.from)),
            ("to", mailboxes(&email.to)),
            ("cc", mailboxes(&email.cc)),
            ("bcc", mailboxes(&email.bcc)),
            ("replyTo", reply_to(email)?),
            ("subject", email.subject.as_str().into()),
            ("textContent", email.text.as_deref().into()),
            ("htmlContent", email.html.as_deref().into()),
            ("headers", headers_of(message)),
            ("tags", email.tags.iter().map(String::as_str).collect()),
            ("attachment", attachments.into()),
        ]);
        let url = web::below(&self.base, &["v3", "smtp", "email"]);
        Ok(Request::post(url, self.headers(), contents.put_into(&json)?))
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// The account that the key belongs to.
    fn probe(&self) -> Option<Request> {
        Some(Request::get(web::below(&self.base, &["v3", "account"]), self.headers()))
    }
}

fn mailbox(mailbox: &Mailbox) -> Value {
    let name = mailbox.name.as_deref().filter(|name| !name.is_empty());
    web::object([("email", mailbox.address.as_str().into()), ("name", name.into())])
}

fn mailboxes(list: &[Mailbox]) -> Value {
    list.iter().map(mailbox).collect()
}

/// It takes a single one. To leave the others out would send answers where the caller did not want them alone.
fn reply_to(email: &Email) -> Result<Value, Unfit> {
    match email.reply_to.as_slice() {
        [] => Ok(Value::Null),
        [one] => Ok(mailbox(one)),
        _ => Err(Unfit::new("reply_to", "more addresses for answers than it takes")),
    }
}

/// The caller's headers, our id, which comes back with events, and the key by which a repeat is recognised.
fn headers_of(message: &Message) -> Value {
    let mut headers = web::single_headers(&message.email);
    headers.insert("X-Mailin-custom".to_owned(), format!("{OUR_ID}:{}", message.id).into());
    headers.insert("idempotencyKey".to_owned(), message.id.to_string().into());
    headers.into()
}

fn file(attachment: &Attachment, contents: &mut Contents) -> Value {
    web::object([("name", attachment.filename.as_str().into()), ("content", contents.hold(&attachment.content).into())])
}

/// What Brevo's own words mean.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    let json = answer.json();
    let field = |name: &str| json.as_ref().and_then(|json| json[name].as_str());
    let message = field("message").unwrap_or_default();
    let accepted = (200..300).contains(&answer.status);
    let judgement = match field("code") {
        _ if answer.status == 429 => {
            let rest = answer.retry_after().or_else(|| answer.rest_by("x-sib-ratelimit-reset"));
            Judgement::new(Class::Throttled).resting(rest)
        }
        None if accepted => {
            let id = json.as_ref().and_then(|json| web::id_of(&json["messageId"]));
            return Some(Judgement::new(Class::Accepted).known_as(id).said(None, ""));
        }
        None => return None,
        // The key is known: it was accepted before, under an id that is not told again.
        Some("duplicate_parameter") => Judgement::new(Class::Accepted).while_it_is(Health::Healthy),
        Some("not_enough_credits") => Judgement::new(Class::QuotaUsedUp),
        Some("unauthorized" | "permission_denied" | "account_under_validation") => Judgement::new(Class::Misconfigured),
        Some("invalid_parameter") => invalid(asked, &message.to_lowercase()),
        Some(_) if accepted => web::after_an_internal_error(asked.unknown_outcome),
        Some(_) => web::by_status(asked.unknown_outcome, answer, true),
    };
    Some(judgement.said(field("code").and_then(|code| web::plain_code(&code.into())), message))
}

/// A parameter that is not valid, which only the words tell: "email is not valid in to".
fn invalid(asked: &Asked<'_>, message: &str) -> Judgement {
    let words: Vec<&str> = message.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| matches!(*word, "sender" | "from")) {
        return Judgement::new(Class::Misconfigured).about(Scope::SenderDomain);
    }
    if words.iter().any(|word| word.starts_with("attachment") || word.starts_with("extension")) {
        return Judgement::new(Class::UnfitHere);
    }
    // In the middle of a sentence "to" is a word like others.
    let is_named = |name: &str| words.first() == Some(&name) || words.windows(2).any(|pair| pair == ["in", name]);
    let lists = [("to", List::To), ("cc", List::Cc), ("bcc", List::Bcc)];
    let lists: Vec<List> = lists.into_iter().filter(|(name, _)| is_named(name)).map(|(_, list)| list).collect();
    if lists.is_empty() {
        return Judgement::new(Class::MessageRejected);
    }
    Judgement::of_recipients(asked, asked.meant(&lists, message))
}
