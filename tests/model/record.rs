//! What the outbox's statements do to one message, as functions of values: accept, claim, renew, release, cancel.
//!
//! Owns a second telling of the SQL, so that every state can be gone through; that it tells the same as the SQL is held
//! against Postgres by [`super::interleavings`]. Knows no dispatcher.

use postrider::{
    delivery::{Class, Status},
    outbox::EventKind,
};

use super::values::{Broken, LEASE, Provider, Recipients, Setup, Tick, Try};

/// Who holds a lease: the dispatcher of that number, or one that is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Token {
    Of(usize),
    Dead,
}

/// The message's row among what is still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub status: Status,
    pub due_at: Option<Tick>,
    pub token: Option<Token>,
    pub begun_at: Option<Tick>,
    pub unknown_since: Option<Tick>,
    pub rounds: u8,
    pub attempts: u8,
    pub last: Option<(Provider, Class)>,
    pub provider: Option<Provider>,
    pub ask_first: bool,
    pub accepted_before: bool,
    pub cancel_requested: bool,
    pub open: Recipients,
}

/// A line of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub kind: EventKind,
    pub provider: Option<Provider>,
    pub class: Option<Class>,
    pub round: Option<u8>,
}

/// Everything that the database has of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    pub row: Option<Row>,
    pub finished: Option<Status>,
    pub history: Vec<Line>,
    /// The recipients that the history says were accepted.
    pub told_accepted: Recipients,
    /// Whether the history holds an unknown outcome.
    pub told_unknown: bool,
}

/// What a dispatcher knows of a message that it claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claimed {
    pub provider: Provider,
    pub ask_first: bool,
    pub is_begun: bool,
    pub untried: bool,
    pub rounds: u8,
    pub open: Recipients,
    pub accepted_before: bool,
    pub unknown_since: Option<Tick>,
    pub unknown_at: Option<Provider>,
}

/// What a claim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// Nothing is due.
    Nothing,
    /// What was due had come to its end.
    Ended,
    /// The message is the caller's.
    Claimed(Claimed),
}

impl Record {
    pub fn status(&self) -> Option<Status> {
        self.row.map(|row| row.status).or(self.finished)
    }

    pub fn accept(setup: &Setup, now: Tick) -> Self {
        let row = Row {
            status: Status::NotYetSent,
            due_at: Some(setup.until_the_end(now)),
            token: None,
            begun_at: None,
            unknown_since: None,
            rounds: 0,
            attempts: 0,
            last: None,
            provider: None,
            ask_first: false,
            accepted_before: false,
            cancel_requested: false,
            open: Recipients::first(setup.recipients),
        };
        Self { row: Some(row), ..Self::default() }
    }

    /// Accepts a message that its own process sends at once: an insert under a lease is a claim.
    pub fn accept_leased(setup: &Setup, now: Tick, token: Token, first: Provider) -> (Self, Claimed) {
        let mut record = Self::accept(setup, now);
        let row = record.row.as_mut().expect("it was accepted");
        row.status = Status::InProcess;
        row.due_at = Some(now + LEASE);
        row.token = Some(token);
        row.provider = Some(first);
        row.begun_at = (!setup.hold).then_some(now);
        let claimed = row.claimed(first);
        (record, claimed)
    }

    /// Takes the message if it is due, and deals with what is out of order. Says also whose unfinished attempts a
    /// takeover accounted for.
    pub fn claim(&mut self, setup: &Setup, now: Tick, token: Token, first: Provider) -> (Look, Option<Token>) {
        let Some(taken) = self.row.filter(|row| row.due_at.is_some_and(|due_at| due_at <= now)) else {
            return (Look::Nothing, None);
        };
        let mut row = taken;
        let accounts = row.cut_off();
        if taken.status == Status::InProcess && !setup.is_broken(Broken::TakeoverWithoutEvent) {
            self.tell_takeover(&row, accounts);
        }
        let accounted = taken.token.filter(|_| accounts && !setup.is_broken(Broken::TakeoverWithoutEvent));
        let reason = row.reason_to_end(setup, now, accounts);
        let Some(fate) = reason.map(|reason| row.fate(setup, reason)) else {
            row.lease(setup, now, token, first);
            self.row = Some(row);
            return (Look::Claimed(row.claimed(row.provider.unwrap_or(first))), accounted);
        };
        if let Some(kind) = reason.and_then(Reason::event) {
            self.tell(kind);
        }
        let may_have_it = row.provider.or(row.last.map(|(provider, _)| provider));
        row.provider = may_have_it.filter(|_| fate == Status::FailedOutcomeUnknown);
        self.end(setup, row, fate);
        (Look::Ended, accounted)
    }

    pub fn renew(&mut self, now: Tick, token: Token) -> Option<bool> {
        let row = self.held(token)?;
        row.due_at = Some(now + LEASE);
        Some(row.cancel_requested)
    }

    /// Gives the message back unsent. Whether the lease held.
    pub fn release(&mut self, setup: &Setup, now: Tick, token: Token) -> bool {
        let Some(row) = self.held(token) else { return false };
        row.status = if row.attempts == 0 { Status::NotYetSent } else { Status::RequiredResend };
        row.due_at = Some(if row.cancel_requested { now } else { setup.until_the_end(now) });
        row.token = None;
        row.begun_at = None;
        row.provider = row.provider.filter(|_| row.ask_first);
        true
    }

    /// Calls the message off: what waits ends, whoever has it hears of it at the next chance. Says where it stands then.
    pub fn cancel(&mut self, setup: &Setup) -> Option<Status> {
        if let Some(row) = &mut self.row
            && row.can_be_called_off()
        {
            row.cancel_requested = true;
            let row = *row;
            if row.status != Status::InProcess {
                self.tell(EventKind::Canceled);
                self.end(setup, row, row.fate(setup, Reason::Canceled));
            }
        }
        self.status()
    }

    pub fn held(&mut self, token: Token) -> Option<&mut Row> {
        self.row.as_mut().filter(|row| row.token == Some(token))
    }

    /// Leaves the row to a person, or takes it away with its last word.
    pub fn end(&mut self, setup: &Setup, mut row: Row, fate: Status) {
        if fate.is_finished() {
            self.row = None;
            self.finished = Some(fate).filter(|_| !setup.is_broken(Broken::FinishedWithoutAWord));
            return;
        }
        row.status = fate;
        row.due_at = None;
        row.token = None;
        row.begun_at = None;
        row.ask_first = false;
        self.row = Some(row);
    }

    pub fn tell(&mut self, kind: EventKind) {
        self.history.push(Line { kind, provider: None, class: None, round: None });
    }

    /// Writes an attempt into the history.
    pub fn tell_try(&mut self, kind: EventKind, one: &mut Try, round: u8) {
        one.is_recorded = true;
        self.told_accepted = self.told_accepted.or(one.accepted());
        self.told_unknown |= one.left_any(Class::OutcomeUnknown);
        let (provider, class) = (Some(one.provider), Some(one.headline()));
        self.history.push(Line { kind, provider, class, round: Some(round) });
    }

    pub fn tell_takeover(&mut self, row: &Row, accounts: bool) {
        self.told_unknown |= accounts;
        self.history.push(Line {
            kind: EventKind::Takeover,
            provider: row.provider,
            class: accounts.then_some(Class::OutcomeUnknown),
            round: accounts.then_some(row.rounds),
        });
    }
}

/// Why a claim ends a message instead of handing it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Canceled,
    Expired,
    GaveUp,
    Held,
    Exhausted,
}

impl Reason {
    fn event(self) -> Option<EventKind> {
        match self {
            Reason::Canceled => Some(EventKind::Canceled),
            Reason::Expired => Some(EventKind::Expired),
            Reason::GaveUp => Some(EventKind::GaveUp),
            Reason::Held | Reason::Exhausted => None,
        }
    }
}

impl Row {
    /// Counts what a dispatcher had begun and never told of as an attempt of unknown outcome. Whether there was such.
    pub fn cut_off(&mut self) -> bool {
        let Some(begun_at) = self.begun_at else { return false };
        self.unknown_since = self.unknown_since.or(Some(begun_at));
        self.rounds += 1;
        self.attempts += 1;
        self.ask_first = true;
        self.last = self.provider.map(|provider| (provider, Class::OutcomeUnknown));
        true
    }

    /// Whether calling it off changes anything.
    pub fn can_be_called_off(&self) -> bool {
        match self.status {
            Status::InProcess => !self.cancel_requested,
            status => status != Status::FailedOutcomeUnknown,
        }
    }

    /// Whether it must not wait any longer.
    pub fn is_to_end(&self, setup: &Setup, now: Tick) -> bool {
        self.cancel_requested || setup.is_expired(now) || setup.give_up_at <= now
    }

    fn reason_to_end(&self, setup: &Setup, now: Tick, was_cut_off: bool) -> Option<Reason> {
        let may_be_told_apart = self.provider.is_some_and(|provider| setup.recognises_key(provider));
        if self.cancel_requested {
            Some(Reason::Canceled)
        } else if setup.is_expired(now) {
            Some(Reason::Expired)
        } else if setup.give_up_at <= now {
            Some(Reason::GaveUp)
        } else if setup.hold && was_cut_off && !may_be_told_apart && !setup.is_broken(Broken::HoldSentAgain) {
            Some(Reason::Held)
        } else if was_cut_off && self.rounds >= setup.max_rounds {
            Some(Reason::Exhausted)
        } else {
            None
        }
    }

    fn fate(&self, setup: &Setup, reason: Reason) -> Status {
        let is_unknown = self.unknown_since.is_some() && !setup.is_broken(Broken::UnknownIsForgottenOnExpiry);
        match reason {
            Reason::Canceled | Reason::Expired if is_unknown => Status::FailedOutcomeUnknown,
            Reason::Canceled if self.accepted_before => Status::SuccessSent,
            Reason::Canceled => Status::Canceled,
            Reason::Expired if self.accepted_before => Status::FailedRetriesExhausted,
            Reason::Expired => Status::Expired,
            _ if setup.hold && self.unknown_since.is_some() => Status::FailedOutcomeUnknown,
            _ => Status::FailedRetriesExhausted,
        }
    }

    fn lease(&mut self, setup: &Setup, now: Tick, token: Token, first: Provider) {
        let was_held = self.status == Status::InProcess;
        self.status = Status::InProcess;
        self.due_at = Some(now + LEASE);
        self.token = Some(token);
        // After a takeover that is put on record before the first byte, as under HOLD.
        self.begun_at = (!setup.hold && !was_held).then_some(now);
        self.provider = if self.ask_first { self.provider } else { Some(first) };
    }

    fn claimed(&self, provider: Provider) -> Claimed {
        Claimed {
            provider,
            ask_first: self.ask_first,
            is_begun: self.begun_at.is_some(),
            untried: self.attempts == 0,
            rounds: self.rounds,
            open: self.open,
            accepted_before: self.accepted_before,
            unknown_since: self.unknown_since,
            unknown_at: self.last.filter(|(_, class)| *class == Class::OutcomeUnknown).map(|(provider, _)| provider),
        }
    }

    /// Why Postgres would refuse the row, by the name of the check. `None`: it takes it.
    pub fn refused_by(&self) -> Option<&'static str> {
        let is_tried = self.attempts > 0;
        let checks = [
            ("pending_is_not_finished", !self.status.is_finished()),
            ("pending_fails_to_a_person", self.due_at.is_none() == self.status.is_failed()),
            ("pending_in_process_under_a_lease", (self.status == Status::InProcess) == self.token.is_some()),
            ("pending_in_process_names_a_provider", self.status != Status::InProcess || self.provider.is_some()),
            ("pending_begun_in_process", self.begun_at.is_none() || self.status == Status::InProcess),
            (
                "pending_not_yet_sent_is_untried",
                self.status != Status::NotYetSent || (!is_tried && self.rounds == 0 && self.unknown_since.is_none()),
            ),
            ("pending_tried_is_not_untried", self.status != Status::RequiredResend || is_tried),
            ("pending_asks_somebody_first", !self.ask_first || self.provider.is_some()),
            ("pending_has_open_recipients", self.due_at.is_none() || !self.open.is_empty()),
            ("pending_remembers_its_last_attempt", is_tried == self.last.is_some()),
        ];
        checks.into_iter().find(|(_, holds)| !holds).map(|(name, _)| name)
    }
}
