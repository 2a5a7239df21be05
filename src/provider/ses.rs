//! The adapter of kind `ses`: the API of Amazon SES, version 2, by raw MIME.
//!
//! Owns what is said to it and what its answers mean
//! (<https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html>); the wire is the shared machinery's.
//!
//! By MIME the envelope is apart, and the bytes are those that SMTP would carry. SES writes a Message-ID of its own over
//! ours.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign},
    sign::v4,
};
use bytes::Bytes;
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::{
    Capabilities, SettingsError, Submission,
    web::{self, Answer, Api, Asked, Contents, Judgement, Request, Unfit, WebProvider},
};
use crate::{
    config::ApiProvider,
    delivery::{Class, Health, Outcome, ProviderName, Scope},
    message::{RecipientIndex, mime},
};

/// Errors that say who we are is not known or not allowed.
const CREDENTIALS: [&str; 14] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "OptInRequired",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// What is said to Amazon SES.
pub(super) struct Ses {
    base: Url,
    region: String,
    credentials: Credentials,
    configuration_set: Option<String>,
}

/// An account at Amazon SES, in one region.
pub(super) fn account(
    name: ProviderName,
    settings: &ApiProvider,
    region: &str,
    access_key_id: &str,
    configuration_set: Option<&str>,
) -> Result<WebProvider<Ses>, SettingsError> {
    let key = web::key(settings)?.expose_secret();
    let ses = Ses {
        base: web::base(settings, &format!("https://email.{region}.amazonaws.com"))?,
        region: region.to_owned(),
        credentials: Credentials::new(access_key_id, key, None, None, "settings"),
        configuration_set: configuration_set.map(str::to_owned),
    };
    WebProvider::of(name, capabilities(), settings.into(), ses)
}

fn capabilities() -> Capabilities {
    Capabilities {
        max_bytes: Some(40 * 1024 * 1024),
        max_recipients: Some(50),
        smtputf8: false,
        ..Capabilities::unlimited()
    }
}

impl Ses {
    /// Adds the signature (AWS Signature Version 4). It counts for a quarter of an hour: each request gets its own.
    fn sign(&self, request: &mut Request) -> Result<(), Unfit> {
        let unsigned = |error: &dyn std::error::Error| Unfit::new("signature", error.to_string());
        let identity = self.credentials.clone().into();
        let params: SigningParams<'_> = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("ses")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(&error))?
            .into();
        let content_type = [("content-type", "application/json")];
        let body = SignableBody::Precomputed(request.payload.sha256());
        let signed =
            SignableRequest::new(request.method.as_str(), request.url.as_str(), content_type.into_iter(), body)
                .and_then(|signable| sign(signable, &params))
                .map_err(|error| unsigned(&error))?;
        for (name, value) in signed.into_parts().0.headers() {
            let name = HeaderName::try_from(name).map_err(|error| unsigned(&error))?;
            let mut value = HeaderValue::try_from(value).map_err(|error| unsigned(&error))?;
            value.set_sensitive(true);
            request.headers.insert(name, value);
        }
        Ok(())
    }
}

impl Api for Ses {
    fn request(&self, asked: &Asked<'_>, submission: &Submission) -> Result<Request, Unfit> {
        let message = &submission.message;
        let content = Bytes::from(mime::render(message)?);
        let size = content.len() as u64;
        let mut contents = Contents::new();
        let tag = |(name, value)| json!({"Name": name, "Value": value});
        let json = web::object([
            ("Destination", destination(asked)),
            ("Content", json!({"Raw": {"Data": contents.hold(&content)}})),
            ("EmailTags", web::labels(message).into_iter().map(tag).collect()),
            ("ConfigurationSetName", self.configuration_set.as_deref().into()),
        ]);
        let url = web::below(&self.base, &["v2", "email", "outbound-emails"]);
        let mut request = Request { size, ..Request::post(url, web::json(), contents.put_into(&json)?) };
        self.sign(&mut request)?;
        Ok(request)
    }

    fn judge(&self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        web::conclude(asked, answer, own(asked, answer))
    }

    /// The account's own state.
    fn probe(&self) -> Option<Request> {
        let mut request = Request::get(web::below(&self.base, &["v2", "email", "account"]), web::json());
        self.sign(&mut request).ok()?;
        Some(request)
    }

    fn judge_probe(&self, answer: &Answer) -> Health {
        match (error_type(answer), answer.json()) {
            // The key is good, but it may only send.
            (Some(kind), _) if kind.starts_with("AccessDenied") => Health::Neutral,
            (Some(kind), _) if CREDENTIALS.contains(&kind.as_str()) => Health::Misconfigured,
            (None, Some(json)) if json["SendingEnabled"] == false => Health::Misconfigured,
            _ => web::of_probe(answer),
        }
    }
}

/// The envelope. Each recipient stands in the list of its own, although the headers are in the MIME: a blind copy must
/// not be shown, whatever SES would make of the others.
fn destination(asked: &Asked<'_>) -> Value {
    let list = |list| -> Value {
        let of_list: Vec<RecipientIndex> = asked.of(list);
        asked.recipients.iter().filter(|(index, _)| of_list.contains(index)).map(|(_, address)| *address).collect()
    };
    web::object([
        ("ToAddresses", list(web::List::To)),
        ("CcAddresses", list(web::List::Cc)),
        ("BccAddresses", list(web::List::Bcc)),
    ])
}

/// The type of an error: in a header or in the body, with a namespace before it and a URL behind it.
fn error_type(answer: &Answer) -> Option<String> {
    let json = answer.json().unwrap_or_default();
    let name = answer.header("x-amzn-errortype").or(json["__type"].as_str()).or(json["code"].as_str())?;
    let name = name.split(':').next().unwrap_or_default();
    Some(name.rsplit('#').next().unwrap_or_default().trim().to_owned())
}

/// What the words of Amazon SES mean.
fn own(asked: &Asked<'_>, answer: &Answer) -> Option<Judgement> {
    let kind = error_type(answer);
    let json = answer.json();
    let field = |name: &str| json.as_ref().and_then(|json| json[name].as_str());
    let message = field("message").or(field("Message")).unwrap_or_default();
    let Some(kind) = kind else {
        let accepted = (200..300).contains(&answer.status) && json.is_some();
        let id = || json.as_ref().and_then(|json| web::id_of(&json["MessageId"]));
        return accepted.then(|| Judgement::new(Class::Accepted).known_as(id()).said(None, ""));
    };
    let judgement = by_type(asked, answer, &kind, &message.to_lowercase());
    Some(judgement.said(web::plain_code(&kind.into()), message))
}

fn by_type(asked: &Asked<'_>, answer: &Answer, kind: &str, words: &str) -> Judgement {
    match kind {
        _ if words.contains("daily message quota") => Judgement::new(Class::QuotaUsedUp),
        _ if words.contains("maximum sending rate") => Judgement::new(Class::Throttled),
        "TooManyRequestsException" | "Throttling" | "ThrottlingException" => Judgement::new(Class::Throttled),
        "LimitExceededException" => Judgement::new(Class::QuotaUsedUp),
        "AccountSuspendedException" | "SendingPausedException" => Judgement::new(Class::Misconfigured),
        kind if CREDENTIALS.contains(&kind) => Judgement::new(Class::Misconfigured),
        "MailFromDomainNotVerifiedException" => Judgement::new(Class::Misconfigured).about(Scope::SenderDomain),
        "MessageRejected" if words.contains("identities failed the check") || words.contains("not verified") => {
            Judgement::new(Class::Misconfigured).about(Scope::SenderDomain)
        }
        "MessageRejected" => Judgement::new(Class::MessageRejected),
        "BadRequestException" => bad_request(asked, words),
        // The configuration set, or the address of the API.
        "NotFoundException" => Judgement::new(Class::Misconfigured).about(Scope::Provider),
        // What was accepted has no type of an error.
        _ if (200..300).contains(&answer.status) => web::after_an_internal_error(asked.unknown_outcome),
        // A type that is not known here says nothing of other providers.
        _ => web::by_status(asked.unknown_outcome, answer, false),
    }
}

fn bad_request(asked: &Asked<'_>, words: &str) -> Judgement {
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["message length", "too large", "too long", "size"]) {
        return Judgement::new(Class::UnfitHere);
    }
    if has(&["illegal address", "invalid address", "missing final '@domain'", "local address contains"]) {
        return Judgement::of_recipients(asked, asked.named_in(words));
    }
    Judgement::new(Class::MessageRejected)
}
