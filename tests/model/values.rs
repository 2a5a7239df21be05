//! The small values that the model is made of: they can be copied, compared and hashed cheaply.
//!
//! Owns how they become those of `postrider::delivery`; no rule of the outbox is here.

use std::time::Duration;

use postrider::{
    delivery::{
        Attempt, Class, Growth, Health, Next, Outcome, ProviderName, RetryPolicy, Round, Scope, Skip, Standing, Status,
        Verdict, next,
    },
    message::{RecipientIndex, UnknownOutcome},
};
use time::OffsetDateTime;

/// The model's time: whole steps. A step is an hour wherever a real time is needed.
pub type Tick = u8;

/// How long a step is.
pub const STEP: Duration = Duration::from_secs(3600);

/// How long a lease lasts.
pub const LEASE: Tick = 1;

/// One of the two providers of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    First,
    Second,
}

impl Provider {
    pub const ALL: [Provider; 2] = [Provider::First, Provider::Second];

    pub fn name(self) -> ProviderName {
        ProviderName::new(match self {
            Provider::First => "first",
            Provider::Second => "second",
        })
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name().as_str() == name)
    }
}

/// A set of recipients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Recipients(u8);

impl Recipients {
    pub const NONE: Recipients = Recipients(0);

    /// The first so many.
    pub fn first(count: u8) -> Self {
        Self((1 << count) - 1)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, recipient: u8) -> bool {
        self.0 & (1 << recipient) != 0
    }

    pub fn with(self, recipient: u8) -> Self {
        Self(self.0 | (1 << recipient))
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |&recipient| self.contains(recipient))
    }

    pub fn indices(self) -> Vec<RecipientIndex> {
        self.iter().map(|recipient| RecipientIndex(u16::from(recipient))).collect()
    }

    pub fn of(indices: &[RecipientIndex]) -> Self {
        indices.iter().fold(Self::NONE, |set, index| set.with(u8::try_from(index.0).expect("a handful of recipients")))
    }
}

/// What a provider does with one recipient that it is offered, and what the answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It says what it did.
    Told(Class),
    /// It took the message, and the answer was lost.
    TookSilently,
}

impl Answer {
    pub fn class(self) -> Class {
        match self {
            Answer::Told(class) => class,
            Answer::TookSilently => Class::OutcomeUnknown,
        }
    }

    /// Whether the recipient gets the message.
    pub fn is_delivery(self) -> bool {
        matches!(self, Answer::Told(Class::Accepted) | Answer::TookSilently)
    }
}

/// An answer for each of two recipients at most; what is not offered has none.
pub type Answers = [Option<Answer>; 2];

/// One attempt of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Try {
    pub provider: Provider,
    pub started_at: Tick,
    pub answers: Answers,
    /// Whether the history has it: what the outbox finds out by looking it up.
    pub is_recorded: bool,
}

impl Try {
    pub fn left_any(&self, class: Class) -> bool {
        self.answers.iter().flatten().any(|answer| answer.class() == class)
    }

    pub fn left(&self, matches: impl Fn(Class) -> bool) -> Recipients {
        let found =
            (0u8..).zip(self.answers).filter(|(_, answer)| answer.is_some_and(|answer| matches(answer.class())));
        found.fold(Recipients::NONE, |set, (recipient, _)| set.with(recipient))
    }

    pub fn accepted(&self) -> Recipients {
        self.left(|class| class == Class::Accepted)
    }

    /// The class that speaks for the whole attempt.
    pub fn headline(&self) -> Class {
        self.outcome().headline().map_or(Class::OutcomeUnknown, |verdict| verdict.class)
    }

    pub fn outcome(&self) -> Outcome {
        let verdict = |answer: Answer| Verdict::new(answer.class(), Scope::Provider, "code", "words");
        let verdicts = (0u16..)
            .zip(self.answers)
            .filter_map(|(index, answer)| Some((RecipientIndex(index), verdict(answer?))))
            .collect();
        Outcome { verdicts, provider_message_id: None, health: Health::Healthy }
    }

    /// As the transition function is given it.
    pub fn attempt(&self, setup: &Setup, started_at: OffsetDateTime) -> Attempt {
        Attempt {
            provider: self.provider.name(),
            started_at,
            duration: Duration::from_micros(12_345),
            // A key that outlives the model's time: when a key ends is tested beside the transition function.
            recognises_key_for: setup.recognises_key(self.provider).then_some(200 * STEP),
            outcome: self.outcome(),
            skipped: Vec::new(),
        }
    }
}

/// What the transition function came to, in the model's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    Finished(Status),
    Person { status: Status, open: Recipients },
    Again { due_at: Tick, open: Recipients, round_spent: bool, ask_first: Option<Provider> },
}

/// What a message and the world round it are like.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub recipients: u8,
    pub hold: bool,
    /// The providers that recognise a message by its key.
    pub keyed: &'static [Provider],
    pub expire_at: Option<Tick>,
    pub give_up_at: Tick,
    pub max_rounds: u8,
    /// How many dispatchers there are.
    pub senders: usize,
    /// Whether somebody may call the message off.
    pub cancels: bool,
    /// How often a dispatcher dies.
    pub crashes: u8,
    /// What providers answer.
    pub answers: &'static [Answer],
    /// A rule of the outbox that does not hold, to see that its absence is noticed.
    pub broken: Option<Broken>,
}

/// The rules that can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    SettleWithoutFence,
    HandOverWithoutFence,
    TakeoverWithoutEvent,
    LateOutcomeForgotten,
    LateAcceptanceIgnored,
    LateFailureCounts,
    HoldBegunWithoutRecord,
    HoldSentAgain,
    SettleOpensWhatWasAccepted,
    FailureWithoutDueTime,
    UnknownIsForgottenOnExpiry,
    FinishedWithoutAWord,
}

impl Setup {
    pub fn recognises_key(&self, provider: Provider) -> bool {
        self.keyed.contains(&provider)
    }

    pub fn is_broken(&self, rule: Broken) -> bool {
        self.broken == Some(rule)
    }

    pub fn is_expired(&self, now: Tick) -> bool {
        self.expire_at.is_some_and(|at| at <= now)
    }

    /// The earlier of a time and those at which the message ends.
    pub fn until_the_end(&self, due_at: Tick) -> Tick {
        due_at.min(self.give_up_at).min(self.expire_at.unwrap_or(due_at))
    }

    fn unknown_outcome(&self) -> UnknownOutcome {
        if self.hold { UnknownOutcome::Hold } else { UnknownOutcome::Resend }
    }

    /// A pause of a step for each round, without chance.
    fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_rounds: u32::from(self.max_rounds),
            pause: STEP,
            growth: Growth::Linear,
            ceiling: 100 * STEP,
            jitter: 0.0,
        }
    }
}

/// Where a message stood when a dispatcher claimed it, and what the dispatcher has heard since.
#[derive(Clone, Copy, Debug)]
pub struct Stand {
    pub rounds: u8,
    pub open: Recipients,
    pub accepted_before: bool,
    pub unknown_since: Option<Tick>,
    pub unknown_at: Option<Provider>,
    pub untried: bool,
    pub cancel_requested: bool,
}

/// Asks the service's own transition function.
pub fn decide(setup: &Setup, stand: &Stand, tries: &[Try], skipped: &[Provider], now: Tick) -> Decision {
    let standing = Standing {
        rounds: u32::from(stand.rounds),
        open: stand.open.indices(),
        accepted_before: stand.accepted_before,
        unknown_since: stand.unknown_since.map(at),
        unknown_at: stand.unknown_at.map(Provider::name),
        untried: stand.untried,
        cancel_requested: stand.cancel_requested,
        expire_at: setup.expire_at.map(at),
        give_up_at: at(setup.give_up_at),
        unknown_outcome: setup.unknown_outcome(),
    };
    let skip = |provider: &Provider| Skip { provider: provider.name(), reason: String::new(), until: Some(at(now)) };
    let round = Round {
        attempts: tries.iter().map(|one| one.attempt(setup, at(one.started_at))).collect(),
        skipped: skipped.iter().map(skip).collect(),
        ready_at: None,
    };
    match next(&standing, &round, &setup.policy(), at(now), 0.5) {
        Next::Finished(status) => Decision::Finished(status),
        Next::Person { status, open } => Decision::Person { status, open: Recipients::of(&open) },
        Next::Again { due_at, open, round_spent, ask_first, .. } => Decision::Again {
            due_at: tick(due_at),
            open: Recipients::of(&open),
            round_spent,
            ask_first: ask_first.and_then(|name| Provider::named(name.as_str())),
        },
    }
}

fn at(tick: Tick) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + STEP * u32::from(tick)
}

fn tick(at: OffsetDateTime) -> Tick {
    let steps = at.unix_timestamp() / i64::try_from(STEP.as_secs()).expect("an hour");
    Tick::try_from(steps).expect("a short life")
}
