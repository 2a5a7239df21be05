//! The rows: what is at the other end, and what must come of it.

use std::time::Duration;

use postrider::message::UnknownOutcome::{self, Hold, Resend};

use super::{super::Subject, HttpPeer, Way, build, send, uniform};
use crate::support::{
    certificates::certificates,
    http_peer::{Behaviour, response},
};

/// A row of the table.
pub struct Row {
    /// What happens.
    pub name: &'static str,
    unknown: UnknownOutcome,
    end: End,
    /// The outcome, `{}` for the status of the adapter's own accepting answer.
    expected: &'static str,
}

/// Who is at the other end.
enum End {
    /// A double that does this.
    Does(fn(&Subject) -> Behaviour),
    /// A double that does not come to an end in time.
    Outlasts(fn(&Subject) -> Behaviour),
    /// A double that answers late; the next message is told its own answer.
    Late,
    /// One that sends us elsewhere, where nobody must arrive.
    Redirects(u16),
    /// A server whose certificate bears that name.
    Certified(&'static str),
    /// Nobody.
    Nobody,
}

use End::{Certified, Does, Late, Nobody, Outlasts, Redirects};

const fn row(name: &'static str, unknown: UnknownOutcome, end: End, expected: &'static str) -> Row {
    Row { name, unknown, end, expected }
}

const UNKNOWN: &str = "OUTCOME_UNKNOWN WIRE connection_lost / failing";
const TIMEOUT: &str = "OUTCOME_UNKNOWN WIRE timeout / failing";
const ACCEPTED: &str = "ACCEPTED RECIPIENT {} / healthy";
const NOT_IT: &str = "MISCONFIGURED PROVIDER {} / misconfigured";

pub const ROWS: [Row; 33] = [
    row("accept", Resend, Does(|s| Behaviour::Answer((s.accept)())), ACCEPTED),
    row("accept, body is garbage", Resend, Does(|s| accepted(s, "", "{\"garb\u{1}")), ACCEPTED),
    row("accept, body is empty", Resend, Does(|s| accepted(s, "", "")), ACCEPTED),
    row("accept, then drop without an answer", Resend, Does(|_| closed("")), UNKNOWN),
    row("accept, then drop, must not be sent twice", Hold, Does(|_| closed("")), UNKNOWN),
    row("accept, drop in the status line", Resend, Does(|_| closed("HTTP/1.1 20")), UNKNOWN),
    row("accept, drop in the body", Resend, Does(cut_short), "OUTCOME_UNKNOWN WIRE {} / failing"),
    row("answer late", Resend, Late, TIMEOUT),
    row("no answer", Resend, Outlasts(|_| Behaviour::Silent), TIMEOUT),
    row("nothing is read", Hold, Outlasts(|_| Behaviour::Deaf), TIMEOUT),
    row("refuse", Resend, Does(|s| Behaviour::Answer((s.refuse)())), "MESSAGE_REJECTED MESSAGE * / healthy"),
    row("reset half way through the request", Resend, Does(|_| Behaviour::ResetAfter(20_000)), UNKNOWN),
    row("throttle", Resend, Does(|s| throttled(s, "")), "THROTTLED PROVIDER * / resting"),
    row(
        "throttle, Retry-After",
        Hold,
        Does(|s| throttled(s, "retry-after: 7\r\n")),
        "THROTTLED PROVIDER * / resting 7s",
    ),
    row("throttle, Retry-After is a date", Resend, Does(|s| throttled(s, DATES)), "THROTTLED PROVIDER * / resting 90s"),
    row("500", Resend, Does(|_| status(500, "")), "UNAVAILABLE PROVIDER 500 / failing"),
    row("500, must not be sent twice", Hold, Does(|_| status(500, "")), "OUTCOME_UNKNOWN WIRE 500 / failing"),
    row("502", Resend, Does(|_| status(502, "")), "OUTCOME_UNKNOWN WIRE 502 / failing"),
    row("502, a page of a proxy", Hold, Does(|_| page(502)), "OUTCOME_UNKNOWN WIRE 502 / failing"),
    row("503", Hold, Does(|_| status(503, "")), "UNAVAILABLE PROVIDER 503 / failing"),
    row(
        "503, Retry-After",
        Resend,
        Does(|_| status(503, "retry-after: 30\r\n")),
        "UNAVAILABLE PROVIDER 503 / failing 30s",
    ),
    row("504", Resend, Does(|_| status(504, "")), "OUTCOME_UNKNOWN WIRE 504 / failing"),
    row(
        "bad credentials",
        Hold,
        Does(|s| Behaviour::Answer((s.bad_credentials)())),
        "MISCONFIGURED ACCOUNT * / misconfigured",
    ),
    row("200, a page of a proxy", Resend, Does(|_| page(200)), "MISCONFIGURED PROVIDER 200 / misconfigured"),
    row("accepting status, a page of a proxy", Resend, Does(|s| page(s.accept_status)), NOT_IT),
    row("302 redirect", Resend, Redirects(302), "MISCONFIGURED PROVIDER 302 / misconfigured"),
    row("307 redirect", Resend, Redirects(307), "MISCONFIGURED PROVIDER 307 / misconfigured"),
    row("accept, gigantic body", Resend, Does(|s| Behaviour::Endless(head(s.accept_status))), ACCEPTED),
    row("503, gigantic body", Resend, Does(|_| Behaviour::Endless(head(503))), "UNAVAILABLE PROVIDER 503 / failing"),
    row("accept, body trickles", Resend, Outlasts(trickles), "OUTCOME_UNKNOWN WIRE {} / failing"),
    row("TLS with its name", Resend, Certified("localhost"), ACCEPTED),
    row(
        "TLS with a wrong name",
        Hold,
        Certified("other.example"),
        "MISCONFIGURED PROVIDER certificate / misconfigured",
    ),
    row("no connection", Hold, Nobody, "UNAVAILABLE PROVIDER connect / failing"),
];

const DATES: &str = "date: Tue, 01 Dec 2026 12:00:00 GMT\r\nretry-after: Tue, 01 Dec 2026 12:01:30 GMT\r\n";

impl Row {
    /// Puts an adapter to it; else what came of it.
    pub async fn try_with(&self, subject: &Subject) -> Result<(), String> {
        let found = match &self.end {
            Does(behaviour) => self.outcome(subject, behaviour(subject), Duration::from_secs(20)).await,
            Outlasts(behaviour) => self.outcome(subject, behaviour(subject), Duration::from_secs(1)).await,
            Late => self.late(subject).await?,
            Redirects(status) => self.redirected(subject, *status).await?,
            Certified(name) => self.certified(subject, name).await,
            Nobody => self.nobody(subject).await,
        };
        let expected = self.expected.replace("{}", &subject.accept_status.to_string());
        if matches(&expected, &found) { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
    }

    async fn outcome(&self, subject: &Subject, behaviour: Behaviour, timeout: Duration) -> String {
        let peer = HttpPeer::start(&[behaviour]).await;
        let account = build(&(subject.settings)(&Way { timeout, ..Way::to(&peer.base()) }));
        uniform(&send(&*account, self.unknown).await)
    }

    async fn late(&self, subject: &Subject) -> Result<String, String> {
        let refused = Behaviour::Late((subject.refuse)());
        let mut peer = HttpPeer::start(&[refused, Behaviour::Answer((subject.accept)())]).await;
        let way = Way { timeout: Duration::from_secs(2), ..Way::to(&peer.base()) };
        let account = build(&(subject.settings)(&way));
        let found = uniform(&send(&*account, self.unknown).await);
        let next = uniform(&send(&*account, self.unknown).await);
        let connections = [peer.request().await.connection, peer.request().await.connection];
        if !next.starts_with("ACCEPTED") || connections != [0, 1] {
            return Err(format!("the next message was told {next} over the connections {connections:?}"));
        }
        Ok(found)
    }

    async fn redirected(&self, subject: &Subject, status: u16) -> Result<String, String> {
        let mut elsewhere = HttpPeer::start(&[Behaviour::Answer((subject.accept)())]).await;
        let answer = response(status, &format!("location: {}/\r\n", elsewhere.base()), "");
        let found = self.outcome(subject, Behaviour::Answer(answer), Duration::from_secs(20)).await;
        if elsewhere.is_quiet() { Ok(found) } else { Err("the redirect was followed".to_owned()) }
    }

    async fn certified(&self, subject: &Subject, name: &str) -> String {
        let (authority, config) = certificates(name);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), authority).unwrap();
        let peer = HttpPeer::start_tls(&[Behaviour::Answer((subject.accept)())], config).await;
        let way = Way { ca_file: Some(file.path().to_owned()), ..Way::to(&peer.base()) };
        uniform(&send(&*build(&(subject.settings)(&way)), self.unknown).await)
    }

    async fn nobody(&self, subject: &Subject) -> String {
        // Bound and not listened on: nobody else can get the port, and nobody answers.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let way = Way::to(&format!("http://{}", socket.local_addr().unwrap()));
        uniform(&send(&*build(&(subject.settings)(&way)), self.unknown).await)
    }
}

/// Whether an outcome is as expected; `*` stands for a provider's own code.
fn matches(expected: &str, found: &str) -> bool {
    match expected.split_once('*') {
        Some((before, after)) => found.starts_with(before) && found.ends_with(after) && !found.contains('|'),
        None => expected == found,
    }
}

fn accepted(subject: &Subject, headers: &str, body: &str) -> Behaviour {
    Behaviour::Answer(response(subject.accept_status, headers, body))
}

fn status(status: u16, headers: &str) -> Behaviour {
    Behaviour::Answer(response(status, headers, ""))
}

fn page(status: u16) -> Behaviour {
    Behaviour::Answer(response(status, "content-type: text/html\r\n", "<html><body>Proxy</body></html>"))
}

fn closed(bytes: &str) -> Behaviour {
    Behaviour::AnswerAndClose(bytes.to_owned())
}

fn cut_short(subject: &Subject) -> Behaviour {
    Behaviour::AnswerAndClose(format!("HTTP/1.1 {} -\r\ncontent-length: 100\r\n\r\n{{", subject.accept_status))
}

fn head(status: u16) -> String {
    format!("HTTP/1.1 {status} -\r\n\r\n")
}

fn trickles(subject: &Subject) -> Behaviour {
    Behaviour::Trickle(format!("HTTP/1.1 {} -\r\ncontent-length: 60000\r\n\r\n", subject.accept_status))
}

fn throttled(subject: &Subject, headers: &str) -> Behaviour {
    Behaviour::Answer(response(429, headers, subject.throttle_body))
}
