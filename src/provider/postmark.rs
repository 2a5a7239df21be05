//! The adapter of kind `postmark`: Postmark's email API.
//!
//! Owns what is said to it and what its answers mean (<https://postmarkapp.com/developer/api/email-api>,
//! <https://postmarkapp.com/developer/api/overview#error-codes>); the wire is the shared machinery's.

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    AttachmentNames, Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Contents, Judgement, List, OUR_ID, Request, Unfit, WebProvider},
};
use crate::{
    config::ApiProvider,
    delivery::{Class, Outcome, ProviderName, Scope},
    message::{Attachment, Message, mime},
};

/// Extensions that Postmark refuses.
const FORBIDDEN: &[&str] = &[
    "vbs", "exe", "bin", "bat", "chm", "com", "cpl", "crt", "hlp", "hta", "inf", "ins", "isp", "jse", "lnk", "mdb",
    "msc", "msi", "msp", "mst", "pcd", "pif", "reg", "scr", "sct", "shs", "vba", "vbe", "wsf", "wsh", "wsl",
];

/// What is said to Postmark.
pub(super) struct Postmark {
    base: Url,
    token: HeaderValue,
    message_stream: Option<String>,
}

/// A server at Postmark, which is what an account sends by.
pub(super) fn account(
    name: ProviderName,
    settings: &ApiProvider,
    message_stream: Option<&str>,
) -> Result<WebProvider<Postmark>, SettingsError> {
    let postmark = Postmark {
        base: web::base(settings, "https://api.postmarkapp.com")?,
        token: web::secret("key", web::key(settings)?)?,
        message_stream: message_stream.map(str::to_owned),
    };
    WebProvider::of(name, capabilities(), settings.into(), postmark)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(10 * 1024 * 1024),
        max_recipients: Some(50),
        envelope_apart: false,
        attachments: AttachmentNames::AllBut(FORBIDDEN),
        without_to: false,
        smtputf8: false,
        ..Capabilities::unlimited()
    }
}

impl Postmark {
    fn headers(&self) -> HeaderMap {
        let mut headers = web::json();
        headers.insert(HeaderName::from_static("x-postmark-server-token"), self.token.clone());
        headers
    }
}

impl Api for Postmark {
    fn request(&self, _: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let (message, email) = (&submission.message, &submission.message.email);
        let mut contents = Contents::new();
        let attachments: Vec<Value> = email.attachments.iter().map(|each| file(each, &mut contents)).collect();
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        let json = web::object([
            ("From", web::mailbox(&email.from).into()),
            ("To", web::mailboxes(&email.to).into()),
            ("Cc", filled(web::mailboxes(&email.cc)).into()),
            ("Bcc", filled(web::mailboxes(&email.bcc)).into()),
            ("ReplyTo", filled(web::mailboxes(&email.reply_to)).into()),
            ("Subject", email.subject.as_str().into()),
            ("TextBody", email.text.as_deref().into()),
            ("HtmlBody", email.html.as_deref().into()),
            ("Headers", headers_of(message)),
            // It takes a single one.
            ("Tag", email.tags.first().map(String::as_str).into()),
            ("Metadata", json!({OUR_ID: message.id.to_string()})),
            ("MessageStream", self.message_stream.as_deref().into()),
            ("Attachments", attachments.into()),
        ]);
        Ok(Request::post(web::below(&self.base, &["email"]), self.headers(), contents.put_into(&json)?))
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// The server that the token belongs to.
    fn probe(&self) -> Option<Request> {
        Some(Request::get(web::below(&self.base, &["server"]), self.headers()))
    }
}

/// The caller's headers, and the Message-ID with the header by which Postmark keeps it.
fn headers_of(message: &Message) -> Value {
    let header = |name: &str, value: String| json!({"Name": name, "Value": value});
    let own = [header("Message-ID", mime::message_id_header(message)), header("X-PM-KeepID", "true".to_owned())];
    let callers = message.email.headers.iter().map(|each| header(&each.name, mime::in_ascii(&each.value)));
    callers.chain(own).collect()
}

fn file(attachment: &Attachment, contents: &mut Contents) -> Value {
    web::object([
        ("Name", attachment.filename.as_str().into()),
        ("Content", contents.hold(&attachment.content).into()),
        ("ContentType", attachment.content_type.as_str().into()),
        ("ContentID", attachment.content_id.as_ref().map(|id| format!("cid:{id}")).into()),
    ])
}

/// What Postmark's own words mean: its code, whatever the status it stands under.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    let json = answer.json()?;
    let message = json["Message"].as_str().unwrap_or_default();
    let code = json["ErrorCode"].as_u64();
    let accepted = (200..300).contains(&answer.status);
    let judgement = match code {
        None | Some(0) if accepted => {
            // "Message OK, but will not deliver to these inactive addresses: …"
            let inactive = if message.contains("inactive") { asked.named_in(message) } else { Vec::new() };
            Judgement::new(Class::Accepted)
                .but(inactive, Class::RecipientRejected)
                .known_as(web::id_of(&json["MessageID"]))
        }
        None | Some(0) => return None,
        Some(code) => by_code(asked, answer, code, message),
    };
    Some(judgement.said(code.filter(|code| *code > 0).map(|code| code.to_string()), message))
}

fn by_code(asked: &Asked<'_>, answer: &Answer, code: u64, message: &str) -> Judgement {
    match code {
        10 | 412 | 413 => Judgement::new(Class::Misconfigured),
        100 => Judgement::new(Class::Unavailable),
        300 => invalid(asked, message),
        400 | 401 => Judgement::new(Class::Misconfigured).about(Scope::SenderDomain),
        405 => Judgement::new(Class::QuotaUsedUp),
        406 => Judgement::of_recipients(asked, asked.named_in(message)),
        429 => Judgement::new(Class::Throttled),
        // 411: a type of attachment. A code that is not known here says nothing of other providers.
        _ if matches!(answer.status, 200..300 | 400 | 422) => Judgement::new(Class::UnfitHere),
        _ => web::by_status(asked.unknown_outcome, answer, true),
    }
}

/// Code 300: something in the request is not valid, which only the words tell.
fn invalid(asked: &Asked<'_>, message: &str) -> Judgement {
    let speaks_of = |field: &str| message.contains(&format!("'{field}'"));
    if speaks_of("From") {
        return Judgement::new(Class::Misconfigured).about(Scope::SenderDomain);
    }
    let lists = [("To", List::To), ("Cc", List::Cc), ("Bcc", List::Bcc)];
    let lists: Vec<List> = lists.into_iter().filter(|(field, _)| speaks_of(field)).map(|(_, list)| list).collect();
    if lists.is_empty() {
        return Judgement::new(Class::MessageRejected);
    }
    Judgement::of_recipients(asked, asked.meant(&lists, message))
}
