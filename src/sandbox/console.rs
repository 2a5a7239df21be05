//! A page for people who try Postrider: what arrived, and the faults with a button each.
//!
//! Owns its HTTP routes; shows the inbox and turns the switches that the providers give it.

use std::{fmt::Write, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    middleware::{Next, from_fn},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde::Serialize;
use time::format_description::well_known::Rfc3339;
use tokio::task::AbortHandle;

use super::{
    FaultSwitch, Inbox, SandboxError,
    connection::Entrance,
    gate::Gate,
    inbox::{Content, Mail},
};

const PAGE: &str = include_str!("console.html");
/// How many mails the page shows, the newest first.
const SHOWN: usize = 200;
/// The page runs nothing and loads nothing; its buttons post to itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'";

/// The running console. Dropping it closes its listener and its connections.
///
/// `GET /` is the page, `GET /inbox` the mails as JSON, `GET /inbox/{number}` one mail as it came,
/// `POST /faults/{provider}/{fault}` switches to a fault.
pub struct Console {
    gate: Arc<Gate>,
    serving: AbortHandle,
}

struct Board {
    inbox: Inbox,
    switches: Vec<Arc<dyn FaultSwitch>>,
}

impl Console {
    /// Starts it at the address, or at a free port of 127.0.0.1.
    pub async fn start(
        address: Option<SocketAddr>,
        inbox: Inbox,
        switches: Vec<Arc<dyn FaultSwitch>>,
    ) -> Result<Self, SandboxError> {
        let gate = Arc::new(Gate::open_at(address)?);
        let router = Router::new()
            .route("/", get(page))
            .route("/inbox", get(list))
            .route("/inbox/{number}", get(show))
            .route("/faults/{provider}/{fault}", post(switch))
            .layer(from_fn(only_this_machine))
            .with_state(Arc::new(Board { inbox, switches }));
        let serving = axum::serve(Entrance(gate.clone()), router);
        let serving = tokio::spawn(async move { serving.await }).abort_handle();
        Ok(Self { gate, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.gate.address()
    }

    /// The page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.serving.abort();
        self.gate.shut();
    }
}

#[derive(Serialize)]
struct Entry {
    number: u64,
    provider: Arc<str>,
    sender: String,
    recipients: Vec<String>,
    message_id: String,
    subject: String,
    received_at: String,
    repeats: u32,
    bytes: Option<usize>,
}

impl Entry {
    fn new(mail: &Mail) -> Self {
        Self {
            number: mail.number,
            provider: mail.provider.clone(),
            sender: mail.sender.clone(),
            recipients: mail.recipients.clone(),
            message_id: mail.message_id.clone(),
            subject: mail.subject.clone(),
            received_at: received_at(mail),
            repeats: mail.repeats,
            bytes: mail.content.bytes().map(bytes::Bytes::len),
        }
    }
}

async fn list(State(board): State<Arc<Board>>) -> Json<Vec<Entry>> {
    Json(board.inbox.all().iter().map(|mail| Entry::new(mail)).collect())
}

async fn show(State(board): State<Arc<Board>>, Path(number): Path<u64>) -> Response {
    let Some(mail) = board.inbox.get(number) else { return StatusCode::NOT_FOUND.into_response() };
    // A mail's own bytes are never a page of the console: shown as text, whatever they hold.
    match &mail.content {
        Content::Mime(bytes) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], bytes.clone()).into_response(),
        Content::Json(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes.clone()).into_response(),
        Content::Dropped => StatusCode::GONE.into_response(),
    }
}

async fn switch(State(board): State<Arc<Board>>, Path((provider, fault)): Path<(String, String)>) -> Response {
    let Some(switch) = board.switches.iter().find(|switch| switch.name() == provider) else {
        return (StatusCode::NOT_FOUND, "no such provider\n").into_response();
    };
    match switch.switch_to(&fault) {
        Ok(()) => Redirect::to("/").into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

async fn page(State(board): State<Arc<Board>>) -> Html<String> {
    let counts = board.inbox.counts();
    let counts = format!(
        "{} mails for {} recipients, {} repeats recognised. <a href=\"/inbox\">As JSON</a>",
        counts.mails, counts.recipients, counts.repeats
    );
    let providers: String = board.switches.iter().map(|switch| provider_row(switch.as_ref())).collect();
    let mails: String = board.inbox.all().iter().rev().take(SHOWN).map(|mail| mail_row(mail)).collect();
    // What the mails hold comes last, so that nothing in it is taken for a place to fill.
    Html(PAGE.replacen("{providers}", &providers, 1).replacen("{counts}", &counts, 1).replacen("{mails}", &mails, 1))
}

fn provider_row(switch: &dyn FaultSwitch) -> String {
    let (name, current) = (switch.name(), switch.current());
    let mut row = format!("<tr><td>{}</td><td>{}</td><td>", Escaped(name), Escaped(&switch.url()));
    let offered = switch.offered().iter().map(|fault| (*fault).to_owned());
    let unlisted = (!switch.offered().contains(&current.as_str())).then(|| current.clone());
    for fault in offered.chain(unlisted) {
        let disabled = if fault == current { " disabled" } else { "" };
        let path = format!("/faults/{}/{}", UrlSegment(name), UrlSegment(&fault));
        // Writing to a string does not fail.
        write!(row, "<form method=\"post\" action=\"{path}\"><button{disabled}>{}</button></form>", Escaped(&fault))
            .unwrap_or_default();
    }
    row + "</td></tr>\n"
}

fn mail_row(mail: &Mail) -> String {
    format!(
        "<tr><td><a href=\"/inbox/{0}\">{0}</a></td><td>{1}</td><td>{2}</td><td>{3}</td><td>{4}</td><td>{5}</td></tr>\n",
        mail.number,
        received_at(mail),
        Escaped(&mail.provider),
        Escaped(&mail.recipients.join(", ")),
        Escaped(&mail.subject),
        mail.repeats
    )
}

fn received_at(mail: &Mail) -> String {
    mail.received_at.truncate_to_millisecond().format(&Rfc3339).unwrap_or_default()
}

/// Turns away requests that a foreign web page made in the browser of whoever runs the sandbox: those under a foreign
/// name for this machine, and those that come from a page of another origin.
async fn only_this_machine(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    if !is_loopback(&host) || !is_own_origin(request.headers(), &host) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, header::HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn is_loopback(host: &str) -> bool {
    let uri: Option<Uri> = format!("http://{host}/").parse().ok();
    uri.as_ref().and_then(Uri::host).is_some_and(|name| ["127.0.0.1", "localhost", "[::1]"].contains(&name))
}

fn is_own_origin(headers: &HeaderMap, host: &str) -> bool {
    headers.get(header::ORIGIN).is_none_or(|origin| origin.as_bytes() == format!("http://{host}").as_bytes())
}

/// Text inside HTML.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

/// Text as one segment of a path.
struct UrlSegment<'a>(&'a str);

impl std::fmt::Display for UrlSegment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => f.write_char(char::from(byte)),
            byte => write!(f, "%{byte:02X}"),
        })
    }
}
