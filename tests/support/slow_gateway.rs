//! A gateway that takes every mail at once, and answers after a while that nobody can foretell.
//!
//! It knows nothing of idempotency keys: what comes twice has arrived twice.

use std::{ops::RangeInclusive, time::Duration};

use axum::{
    Json, Router,
    http::{HeaderMap, Uri},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::caller::PATIENCE;

/// How many milliseconds an answer takes.
const ANSWERS_AFTER: RangeInclusive<u64> = 1..=200;

/// A mail that it took.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The message's id.
    pub message: String,
    /// Who handed it over: the path of the URL that was called.
    pub by: String,
    /// Whether it has sent the answer.
    pub is_answered: bool,
}

/// The gateway. It stops when it is dropped.
pub struct SlowGateway {
    url: String,
    arrivals: watch::Receiver<Vec<Arrival>>,
    holds_answers: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl SlowGateway {
    pub async fn start() -> Self {
        let (note, arrivals) = watch::channel(Vec::new());
        let (holds_answers, held) = watch::channel(false);
        let take = move |uri: Uri, headers: HeaderMap| take(note.clone(), held.clone(), uri, headers);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let serving = tokio::spawn(async move {
            axum::serve(listener, Router::new().fallback(take)).await.expect("it serves");
        });
        Self { url, arrivals, holds_answers, serving }
    }

    /// The URL by which it knows who calls.
    pub fn url_for(&self, caller: &str) -> String {
        format!("{}{caller}", self.url)
    }

    /// Everything that arrived so far.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.borrow().clone()
    }

    /// The messages that it took of those and has not answered yet.
    pub fn unanswered(&self, is_one: impl Fn(&str) -> bool) -> Vec<String> {
        let arrivals = self.arrivals.borrow();
        let unanswered = arrivals.iter().filter(|arrival| !arrival.is_answered && is_one(&arrival.by));
        unanswered.map(|arrival| arrival.message.clone()).collect()
    }

    /// Waits until it has taken a mail of those and not answered it.
    pub async fn takes_mail_of(&self, is_one: impl Fn(&str) -> bool) {
        let mut arrivals = self.arrivals.clone();
        let takes = |arrivals: &Vec<Arrival>| arrivals.iter().any(|a| !a.is_answered && is_one(&a.by));
        let taken = timeout(PATIENCE, arrivals.wait_for(takes)).await;
        taken.expect("something is sent").expect("the gateway runs");
    }

    /// Keeps its answers to itself until [`SlowGateway::release_answers`].
    pub fn hold_answers(&self) {
        self.holds_answers.send_replace(true);
    }

    pub fn release_answers(&self) {
        self.holds_answers.send_replace(false);
    }
}

impl Drop for SlowGateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(
    note: watch::Sender<Vec<Arrival>>,
    mut held: watch::Receiver<bool>,
    uri: Uri,
    headers: HeaderMap,
) -> Json<serde_json::Value> {
    let message = headers["idempotency-key"].to_str().expect("a key of letters").to_owned();
    let by = uri.path().trim_start_matches('/').to_owned();
    let mut nth = 0;
    note.send_modify(|arrivals| {
        nth = arrivals.len();
        arrivals.push(Arrival { message, by, is_answered: false });
    });
    // If the caller goes away meanwhile this ends here, and the mail stays one that was never answered.
    sleep(Duration::from_millis(rand::random_range(ANSWERS_AFTER))).await;
    held.wait_for(|is_held| !is_held).await.expect("the test goes on");
    note.send_modify(|arrivals| arrivals[nth].is_answered = true);
    Json(json!({ "id": format!("mail-{nth}") }))
}
