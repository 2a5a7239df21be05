//! The gateway's answers: to a mail, to a repeat, to what is none, and by the fault that is on.
//!
//! Owns the gateway's side of the contract of kind `http`; does not listen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::{
    Json,
    extract::{ConnectInfo, State, rejection::BytesRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    fault::Fault,
    ledger::{Fate, Ledger},
};
use crate::sandbox::{
    connection::Line,
    inbox::{Arrival, Content, Inbox, bare_message_id},
};

/// Headers that are nobody's business.
const CREDENTIALS: [header::HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// What is behind the listener.
pub(super) struct Gateway {
    pub(super) name: Arc<str>,
    pub(super) inbox: Inbox,
    fault: RwLock<Fault>,
    ledger: Mutex<Ledger>,
}

/// What the gateway reads of a mail; the rest it only keeps.
#[derive(Deserialize)]
struct Submitted {
    message_id: String,
    #[serde(default)]
    internet_message_id: String,
    recipients: Vec<Recipient>,
    from: Address,
    subject: String,
}

#[derive(Deserialize)]
struct Recipient {
    index: u64,
    address: String,
}

#[derive(Deserialize)]
struct Address {
    address: String,
}

struct Answer {
    status: StatusCode,
    body: Value,
}

impl Gateway {
    pub(super) fn new(name: &str, inbox: Inbox) -> Self {
        Self { name: name.into(), inbox, fault: RwLock::default(), ledger: Mutex::default() }
    }

    pub(super) fn fault(&self) -> Fault {
        self.fault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_fault(&self, fault: Fault) {
        *self.fault.write().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Keeps the mail for those recipients whose fate is not known yet under the key, and answers for all.
    fn take(&self, headers: &HeaderMap, body: Bytes, fault: &Fault) -> Answer {
        let mail: Submitted = match serde_json::from_slice(&body) {
            Ok(mail) => mail,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, "MALFORMED", &error.to_string()),
        };
        if mail.recipients.is_empty() {
            return refusal(StatusCode::BAD_REQUEST, "NO_RECIPIENTS", "there is nobody to deliver to");
        }
        let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        // One lock for the look and the keeping: the same key can come twice at once.
        let mut ledger = self.ledger();
        let fate = |recipient: &Recipient| {
            ledger.fate(key, &recipient.address).unwrap_or_else(|| fate_by(fault, &recipient.address))
        };
        let fates: Vec<(&Recipient, Fate)> = mail.recipients.iter().map(|r| (r, fate(r))).collect();
        let id = fates.iter().any(|(_, fate)| *fate == Fate::Accepted).then(|| {
            let number = self.inbox.receive(self.arrival(&mail, &fates, key, headers, body));
            ledger.id(key).map_or_else(|| format!("{}-{number}", self.name), str::to_owned)
        });
        ledger.write(key, id.as_deref(), fates.iter().map(|(recipient, fate)| (recipient.address.as_str(), *fate)));
        report(id, &fates)
    }

    fn arrival(
        &self,
        mail: &Submitted,
        fates: &[(&Recipient, Fate)],
        key: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Arrival {
        let message_id = if mail.internet_message_id.is_empty() { &mail.message_id } else { &mail.internet_message_id };
        let message_id = bare_message_id(message_id);
        let accepted = fates.iter().filter(|(_, fate)| *fate == Fate::Accepted);
        Arrival {
            provider: self.name.clone(),
            sender: mail.from.address.clone(),
            recipients: accepted.map(|(recipient, _)| recipient.address.clone()).collect(),
            message_id: message_id.to_owned(),
            subject: mail.subject.clone(),
            properties: properties(headers),
            content: Content::Json(body),
            identity: if key.is_empty() { message_id } else { key }.to_owned(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request as the fault has it.
pub(super) async fn answer(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(line): ConnectInfo<Line>,
    method: Method,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        // Whoever broke off is not told that something was wrong with the mail.
        Err(rejection) if rejection.status() == StatusCode::BAD_REQUEST => return hang_up(&line).await,
        Err(rejection) => return rejection.into_response(),
    };
    let fault = gateway.fault();
    match fault {
        // The listener is being closed: what came through before gets no answer.
        Fault::Refuse => return hang_up(&line).await,
        Fault::Silent => return std::future::pending().await,
        Fault::Throttle => return faulty(429, Some(1)),
        Fault::Status { code, retry_after } => return faulty(code, retry_after),
        _ => {}
    }
    if method != Method::POST {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "METHOD", "mails are posted").into_response();
    }
    let is_json =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "MEDIA_TYPE", "mails are JSON").into_response();
    }
    let answer = gateway.take(&headers, body, &fault);
    match fault {
        Fault::DropAfterAccept => hang_up(&line).await,
        Fault::Garble => (StatusCode::OK, "{\"id").into_response(),
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            answer.into_response()
        }
        _ => answer.into_response(),
    }
}

async fn hang_up(line: &Line) -> Response {
    line.cut();
    std::future::pending().await
}

fn faulty(code: u16, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = refusal(status, "SANDBOX_FAULT", "a fault is switched on").into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn refusal(status: StatusCode, code: &str, detail: &str) -> Answer {
    Answer { status, body: json!({ "error": { "code": code, "detail": detail } }) }
}

fn fate_by(fault: &Fault, address: &str) -> Fate {
    match fault {
        Fault::RejectRecipient(pattern) if pattern.matches(address) => Fate::Rejected,
        Fault::DeferRecipient(pattern) if pattern.matches(address) => Fate::Deferred,
        _ => Fate::Accepted,
    }
}

/// The answer: an id if anybody gets the mail, and by name every recipient that does not.
fn report(id: Option<String>, fates: &[(&Recipient, Fate)]) -> Answer {
    let open_or_rejected: Vec<Value> = fates.iter().filter_map(|(recipient, fate)| outcome(recipient, *fate)).collect();
    let all_rejected = fates.iter().all(|(_, fate)| *fate == Fate::Rejected);
    let mut answer = match id {
        Some(id) => Answer { status: StatusCode::OK, body: json!({ "id": id, "status": "accepted" }) },
        None if all_rejected => refusal(StatusCode::UNPROCESSABLE_ENTITY, "550 5.1.1", "no such mailbox"),
        None => Answer { status: StatusCode::OK, body: json!({}) },
    };
    if !open_or_rejected.is_empty() {
        answer.body["recipients"] = open_or_rejected.into();
    }
    answer
}

fn outcome(recipient: &Recipient, fate: Fate) -> Option<Value> {
    let (status, code, detail) = match fate {
        Fate::Accepted => return None,
        Fate::Rejected => ("rejected", "550 5.1.1", "no such mailbox"),
        Fate::Deferred => ("deferred", "451 4.7.1", "greylisted, try again later"),
    };
    Some(json!({ "index": recipient.index, "status": status, "code": code, "detail": detail }))
}

fn properties(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().filter(|(name, _)| !CREDENTIALS.contains(name));
    shown.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
