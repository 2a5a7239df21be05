//! A provider that takes every mail at once, and answers after a while that nobody can foretell.
//!
//! It knows nothing of idempotency keys: what comes twice has arrived twice.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

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

use super::{caller::PATIENCE, slow_relay};

/// How many milliseconds an answer takes.
const ANSWERS_AFTER: RangeInclusive<u64> = 1..=200;

/// What it speaks.
#[derive(Clone, Copy)]
pub enum Protocol {
    /// The contract of kind `http`.
    Http,
    /// The contract of kind `smtp`.
    Smtp,
}

/// A mail that it took.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The message's id.
    pub message: String,
    /// Who handed it over: the path of the URL that was called, or the name in EHLO.
    pub by: String,
    /// Whether it has sent the answer.
    pub is_answered: bool,
}

/// The provider. It stops when it is dropped.
pub struct SlowProvider {
    pub address: SocketAddr,
    arrivals: watch::Receiver<Vec<Arrival>>,
    holds_answers: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl SlowProvider {
    pub async fn start(protocol: Protocol) -> Self {
        let (note, arrivals) = watch::channel(Vec::new());
        let (holds_answers, held) = watch::channel(false);
        let desk = Desk { note, held };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let serving = match protocol {
            Protocol::Http => tokio::spawn(serve_http(listener, desk)),
            Protocol::Smtp => tokio::spawn(slow_relay::serve(listener, desk)),
        };
        Self { address, arrivals, holds_answers, serving }
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
        taken.expect("something is sent").expect("the provider runs");
    }

    /// Keeps its answers to itself until [`SlowProvider::release_answers`].
    pub fn hold_answers(&self) {
        self.holds_answers.send_replace(true);
    }

    pub fn release_answers(&self) {
        self.holds_answers.send_replace(false);
    }
}

impl Drop for SlowProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Where mails are taken in.
#[derive(Clone)]
pub struct Desk {
    note: watch::Sender<Vec<Arrival>>,
    held: watch::Receiver<bool>,
}

impl Desk {
    /// Takes a mail in; the answer may be given when this returns. If the caller goes away meanwhile, the mail may stay
    /// one that was never answered.
    pub async fn take(&self, message: String, by: String) {
        let mut nth = 0;
        self.note.send_modify(|arrivals| {
            nth = arrivals.len();
            arrivals.push(Arrival { message, by, is_answered: false });
        });
        sleep(Duration::from_millis(rand::random_range(ANSWERS_AFTER))).await;
        self.held.clone().wait_for(|is_held| !is_held).await.expect("the test goes on");
        self.note.send_modify(|arrivals| arrivals[nth].is_answered = true);
    }
}

async fn serve_http(listener: TcpListener, desk: Desk) {
    let take = async move |uri: Uri, headers: HeaderMap| {
        let message = headers["idempotency-key"].to_str().expect("a key of letters").to_owned();
        desk.take(message, uri.path().trim_start_matches('/').to_owned()).await;
        Json(json!({ "id": "mail" }))
    };
    axum::serve(listener, Router::new().fallback(take)).await.expect("it serves");
}
