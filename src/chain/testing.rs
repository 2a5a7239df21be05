//! Providers that do as they are told, and what the tests of the chain share.
//!
//! Owns no test. Nothing here speaks to a network, so the tests run under paused time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use super::{Chain, Journal, Links, Offer, Proceed, Readiness};
use crate::{
    config,
    delivery::{Attempt, Class, Health, Outcome, ProviderName, Round, Scope, Skip, Verdict},
    health::Board,
    message::{
        Attachment, ClientId, Clock, Email, EmailAddress, Mailbox, Message, MessageId, Priority, RecipientIndex,
        TraceContext, UnknownOutcome,
    },
    provider::{Capabilities, Provider, Submission},
};

/// The provider that a message would be offered to first now; `None` if it would only wait.
pub(super) fn first_ready(chain: &Chain) -> Option<ProviderName> {
    match chain.readiness() {
        Readiness::Ready { provider, .. } => Some(provider),
        Readiness::RestsUntil(_) => None,
    }
}

/// What a provider is told to do with the next call. Without a word it accepts.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answer the same for every recipient, after a while.
    Answer(Class, Health, Duration),
    /// Answer for each recipient in turn.
    Each(Vec<Class>, Health),
    /// Answer exactly that, whoever was offered.
    Exactly(Outcome),
    /// Panic.
    Panic,
    /// Never answer.
    Hang,
}

pub(super) fn answer(class: Class, health: Health) -> Act {
    Act::Answer(class, health, Duration::ZERO)
}

pub(super) fn accept() -> Act {
    answer(Class::Accepted, Health::Healthy)
}

pub(super) fn down() -> Act {
    answer(Class::Unavailable, Health::Failing { retry_after: None })
}

/// A provider that does as it is told and remembers what it was asked.
pub(super) struct Mock {
    name: ProviderName,
    capabilities: Capabilities,
    acts: Mutex<VecDeque<Act>>,
    calls: Mutex<Vec<Submission>>,
    /// What it says to calls that send nothing, where it has one.
    probed: Option<Mutex<VecDeque<Health>>>,
    probes: AtomicUsize,
}

impl Mock {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: ProviderName::new(name),
            capabilities: Capabilities::unlimited(),
            acts: Mutex::default(),
            calls: Mutex::default(),
            probed: None,
            probes: AtomicUsize::new(0),
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// With a call that sends nothing, which says so in turn.
    pub(super) fn probed(self, answers: impl IntoIterator<Item = Health>) -> Self {
        Self { probed: Some(Mutex::new(answers.into_iter().collect())), ..self }
    }

    /// How often that was made.
    pub(super) fn probes(&self) -> usize {
        self.probes.load(Ordering::Relaxed)
    }

    pub(super) fn will(&self, acts: impl IntoIterator<Item = Act>) {
        self.acts.lock().unwrap().extend(acts);
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// The recipients of each call.
    pub(super) fn offered(&self) -> Vec<Vec<u16>> {
        self.calls.lock().unwrap().iter().map(|call| call.recipients.iter().map(|r| r.0).collect()).collect()
    }

    pub(super) fn traceparents(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|call| call.traceparent.clone()).collect()
    }
}

impl Provider for Mock {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn probe(&self) -> Option<BoxFuture<'_, Health>> {
        let answers = self.probed.as_ref()?;
        Some(Box::pin(async move {
            self.probes.fetch_add(1, Ordering::Relaxed);
            answers.lock().unwrap().pop_front().unwrap_or(Health::Neutral)
        }))
    }

    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome> {
        let act = self.acts.lock().unwrap().pop_front().unwrap_or_else(accept);
        let recipients = submission.recipients.clone();
        self.calls.lock().unwrap().push(submission);
        Box::pin(async move {
            match act {
                Act::Answer(class, health, after) => {
                    sleep(after).await;
                    Outcome::uniform(&recipients, &verdict(class), health)
                }
                Act::Each(classes, health) => Outcome {
                    verdicts: recipients.into_iter().zip(classes.into_iter().map(verdict)).collect(),
                    provider_message_id: None,
                    health,
                },
                Act::Exactly(outcome) => outcome,
                Act::Panic => panic!("an adapter's own fault"),
                Act::Hang => std::future::pending().await,
            }
        })
    }
}

pub(super) fn verdict(class: Class) -> Verdict {
    Verdict::new(class, Scope::Provider, "", "")
}

/// Small figures, so that a test can reach them: the circuit opens at two failures in four calls, for 10 s.
pub(super) fn settings() -> config::Provider {
    let relay = config::SmtpProvider::new("mail.example.org");
    let mut settings = config::Provider::new(config::ProviderKind::Smtp(relay));
    settings.throttle_rest = Duration::from_secs(7);
    settings.account_rest = Duration::from_secs(300);
    settings.breaker = breaker_settings();
    settings
}

pub(super) fn breaker_settings() -> config::Breaker {
    config::Breaker {
        failure_ratio: 0.5,
        window: Duration::from_secs(30),
        min_calls: 4,
        consecutive_failures: 100,
        slow_call: Duration::from_secs(20),
        open_for: Duration::from_secs(10),
        open_longest: Duration::from_secs(60),
        probes: 2,
    }
}

/// A chain called `default` with the mocks it asks.
pub(super) struct Rig {
    pub(super) chain: Chain,
    pub(super) board: Board,
    pub(super) links: Links,
    mocks: BTreeMap<String, Arc<Mock>>,
}

impl Rig {
    pub(super) fn new(mocks: impl IntoIterator<Item = Mock>) -> Self {
        Self::with_settings(mocks.into_iter().map(|mock| (mock, settings())))
    }

    pub(super) fn with_settings(mocks: impl IntoIterator<Item = (Mock, config::Provider)>) -> Self {
        let board = Board::default();
        let mocks: Vec<_> = mocks.into_iter().map(|(mock, settings)| (Arc::new(mock), settings)).collect();
        let order: config::Chain = mocks.iter().map(|(mock, _)| mock.name.as_str()).collect();
        let links = Links::with_dice(
            mocks.iter().map(|(mock, settings)| (mock.clone() as Arc<dyn Provider>, settings.clone())),
            &board,
            &Clock::default(),
            0.0,
        );
        let chain = Chain::new("default", &order, &links).unwrap();
        let mocks = mocks.into_iter().map(|(mock, _)| (mock.name.to_string(), mock)).collect();
        Self { chain, board, links, mocks }
    }

    pub(super) fn mock(&self, name: &str) -> &Mock {
        &self.mocks[name]
    }

    pub(super) async fn send(&self, offer: Offer) -> Round {
        let Ok(round): Result<Round, _> = self.chain.clone().oneshot(offer).await;
        round
    }

    pub(super) fn waiting_for(&self) -> Option<String> {
        self.board.waiting_for("default", OffsetDateTime::now_utc())
    }
}

/// Writes down each step it is told of.
#[derive(Default)]
pub(super) struct Notes {
    steps: Mutex<Vec<String>>,
    stop_before: Option<&'static str>,
}

impl Notes {
    pub(super) fn stopping_before(provider: &'static str) -> Self {
        Self { stop_before: Some(provider), ..Self::default() }
    }

    /// Each step as `finished / open / next`.
    pub(super) fn steps(&self) -> Vec<String> {
        self.steps.lock().unwrap().clone()
    }
}

impl Journal for Notes {
    fn before_attempt<'a>(
        &'a self,
        finished: &'a [Attempt],
        open: &'a [RecipientIndex],
        next: &'a ProviderName,
        _: &'a [Skip],
    ) -> BoxFuture<'a, Proceed> {
        let finished: Vec<_> = finished.iter().map(|attempt| attempt.provider.as_str()).collect();
        let open: Vec<_> = open.iter().map(|recipient| recipient.0.to_string()).collect();
        self.steps.lock().unwrap().push(format!("{} / {} / {next}", finished.join(","), open.join(",")));
        let stop = self.stop_before == Some(next.as_str());
        Box::pin(async move { if stop { Proceed::Stop } else { Proceed::Go } })
    }

    fn after_attempt(&self, finished: &[Attempt]) {
        let last = finished.last().unwrap();
        self.steps.lock().unwrap().push(format!("{} answered", last.provider));
    }
}

/// An offer of a message to that many recipients.
pub(super) fn offer(recipients: u16) -> Offer {
    offer_of(message(recipients))
}

pub(super) fn offer_of(message: Message) -> Offer {
    Offer {
        open: message.email.recipients().map(|(recipient, _)| recipient).collect(),
        message: Arc::new(message),
        ask_first: None,
        ask_last: None,
        only_first: false,
        deadline: Instant::now() + Duration::from_secs(3600),
        journal: Arc::new(Notes::default()),
    }
}

pub(super) fn message(recipients: u16) -> Message {
    let now = OffsetDateTime::now_utc();
    Message {
        id: MessageId::new_at(now),
        client: ClientId::new("shop"),
        accepted_at: now,
        correlation_id: "order-1".into(),
        trace: TraceContext::default(),
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email: Email {
            from: mailbox("shop@example.org"),
            to: (0..recipients).map(|n| mailbox(&format!("reader{n}@example.net"))).collect(),
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: "Your order".into(),
            text: Some("It is on its way.".into()),
            html: None,
            attachments: Vec::new(),
            headers: Vec::new(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            document_type: None,
        },
    }
}

pub(super) fn mailbox(address: &str) -> Mailbox {
    Mailbox { name: None, address: EmailAddress::parse(address).unwrap() }
}

pub(super) fn attachment(bytes: usize, content_id: Option<&str>) -> Attachment {
    Attachment {
        filename: "invoice.pdf".into(),
        content_type: "application/pdf".into(),
        content: Bytes::from(vec![0; bytes]),
        content_id: content_id.map(str::to_owned),
    }
}

/// The round in short: `a:UNAVAILABLE b:ACCEPTED` and what was skipped, `c(circuit is open)`.
pub(super) fn summary(round: &Round) -> String {
    let attempts = round.attempts.iter().map(|attempt| {
        let classes: Vec<_> = attempt.outcome.verdicts.iter().map(|(_, verdict)| verdict.class.as_str()).collect();
        format!("{}:{}", attempt.provider, classes.join(","))
    });
    let skipped = round.skipped.iter().map(|skip| format!("{}({})", skip.provider, skip.reason));
    attempts.chain(skipped).collect::<Vec<_>>().join(" ")
}
