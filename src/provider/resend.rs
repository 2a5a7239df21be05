//! The adapter of kind `resend`: Resend's email API.
//!
//! Owns what is said to it and what its answers mean (<https://resend.com/docs/api-reference/emails/send-email>,
//! <https://resend.com/docs/api-reference/errors>); the wire is the shared machinery's.

use std::time::Duration;

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Contents, Judgement, List, Request, Unfit, WebProvider},
};
use crate::{
    config::ApiProvider,
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::{Attachment, Mailbox},
};

/// How long a key is kept (<https://resend.com/docs/dashboard/emails/idempotency-keys>).
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is said to Resend.
pub(super) struct Resend {
    base: Url,
    authorization: (HeaderName, HeaderValue),
}

/// An account at Resend.
pub(super) fn account(name: ProviderName, settings: &ApiProvider) -> Result<WebProvider<Resend>, SettingsError> {
    let authorization = web::authorization("Bearer", "key", web::key(settings)?)?;
    let resend = Resend { base: web::base(settings, "https://api.resend.com")?, authorization };
    WebProvider::of(name, capabilities(), settings.into(), resend)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(40 * 1024 * 1024),
        // Documented for To; taken for all of them.
        max_recipients: Some(50),
        envelope_apart: false,
        repeated_headers: false,
        without_to: false,
        without_subject: false,
        smtputf8: false,
        idempotency: Some(IDEMPOTENCY),
        ..Capabilities::unlimited()
    }
}

impl Resend {
    fn headers(&self) -> HeaderMap {
        let mut headers = web::json();
        headers.extend([self.authorization.clone()]);
        headers
    }
}

impl Api for Resend {
    fn request(&self, _: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let (message, email) = (&submission.message, &submission.message.email);
        let mut contents = Contents::new();
        let attachments: Vec<Value> = email.attachments.iter().map(|each| file(each, &mut contents)).collect();
        let tag = |(name, value)| json!({"name": name, "value": value});
        let json = web::object([
            ("from", web::mailbox(&email.from).into()),
            ("to", mailboxes(&email.to)),
            ("cc", mailboxes(&email.cc)),
            ("bcc", mailboxes(&email.bcc)),
            ("reply_to", mailboxes(&email.reply_to)),
            ("subject", email.subject.as_str().into()),
            // Without a text Resend makes one from the HTML; an empty one turns that off.
            ("text", email.text.as_deref().unwrap_or_default().into()),
            ("html", email.html.as_deref().into()),
            ("headers", web::single_headers(email).into()),
            ("tags", web::labels(message).into_iter().map(tag).collect()),
            ("attachments", attachments.into()),
        ]);
        let mut headers = self.headers();
        web::insert_text(&mut headers, HeaderName::from_static("idempotency-key"), &message.id.to_string());
        Ok(Request::post(web::below(&self.base, &["emails"]), headers, contents.put_into(&json)?))
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// The domains of the account.
    fn probe(&self) -> Option<Request> {
        Some(Request::get(web::below(&self.base, &["domains"]), self.headers()))
    }

    fn judge_probe(&self, answer: &Answer) -> Health {
        match answer.json() {
            // A key that may only send may not read the domains; that it says so shows that the key is good.
            Some(json) if json["name"] == "restricted_api_key" => Health::Healthy,
            Some(json) if speaks_of_the_key(&json) => Health::Misconfigured,
            _ => web::of_probe(answer),
        }
    }
}

fn mailboxes(list: &[Mailbox]) -> Value {
    list.iter().map(web::mailbox).collect()
}

fn file(attachment: &Attachment, contents: &mut Contents) -> Value {
    // An attachment whose type contradicts the extension of its name is dropped without a word. Resend finds the type by
    // the extension, so it is told only where there is none.
    let has_extension = attachment.filename.rsplit_once('.').is_some_and(|(_, extension)| !extension.is_empty());
    let content_type = (!has_extension).then_some(attachment.content_type.as_str());
    web::object([
        ("filename", attachment.filename.as_str().into()),
        ("content", contents.hold(&attachment.content).into()),
        ("content_type", content_type.into()),
        ("content_id", attachment.content_id.as_deref().into()),
    ])
}

/// What Resend's own words mean: the name of the error, whatever the status it stands under.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    let json = answer.json()?;
    let (name, message) = (json["name"].as_str(), json["message"].as_str().unwrap_or_default());
    let Some(name) = name.filter(|_| json["id"].is_null()) else {
        let accepted = (200..300).contains(&answer.status);
        return accepted.then(|| Judgement::new(Class::Accepted).known_as(web::id_of(&json["id"])).said(None, ""));
    };
    let judgement = match name {
        _ if speaks_of_the_key(&json) => Judgement::new(Class::Misconfigured),
        "invalid_from_address" => Judgement::new(Class::Misconfigured).about(Scope::SenderDomain),
        "daily_quota_exceeded" | "monthly_quota_exceeded" => Judgement::new(Class::QuotaUsedUp),
        "rate_limit_exceeded" => Judgement::new(Class::Throttled),
        // It has the message under this key, or is about to: Resend alone can tell, and is well.
        "concurrent_idempotent_requests" | "invalid_idempotent_request" => {
            Judgement::new(Class::OutcomeUnknown).while_it_is(Health::Healthy)
        }
        "invalid_attachment" => Judgement::new(Class::UnfitHere),
        _ => invalid(asked, answer, &message.to_lowercase()),
    };
    Some(judgement.said(web::plain_code(&json["name"]), message))
}

fn speaks_of_the_key(json: &Value) -> bool {
    let names = ["missing_api_key", "restricted_api_key", "invalid_api_key"];
    let message = json["message"].as_str().unwrap_or_default().to_lowercase();
    // `validation_error` stands for a key that was deleted, too.
    names.iter().any(|name| json["name"] == *name) || message.starts_with("api key is invalid")
}

/// An error whose name says little: its status and its words decide.
fn invalid(asked: &Asked<'_>, answer: &Answer, words: &str) -> Judgement {
    let speaks_of =
        |field: &str| ['`', '\'', '"'].iter().any(|quote| words.contains(&format!("{quote}{field}{quote}")));
    let lists = [("to", List::To), ("cc", List::Cc), ("bcc", List::Bcc)];
    let lists: Vec<List> = lists.into_iter().filter(|(field, _)| speaks_of(field)).map(|(_, list)| list).collect();
    match answer.status {
        403 if words.contains("domain") && words.contains("not verified") => {
            Judgement::new(Class::Misconfigured).about(Scope::SenderDomain)
        }
        400 | 422 if !lists.is_empty() => Judgement::of_recipients(asked, asked.meant(&lists, words)),
        200..300 => web::after_an_internal_error(asked.unknown_outcome),
        _ => web::by_status(asked.unknown_outcome, answer, true),
    }
}
