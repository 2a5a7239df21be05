//! What a hand-over, a settle and a late outcome do to one message, as functions of values.
//!
//! Owns the fence and what passes it, a second telling of the SQL like [`super::record`].

use postrider::{
    delivery::{Class, Status},
    outbox::EventKind,
};

use super::{
    record::{Record, Row, Token},
    values::{Broken, Decision, Provider, Recipients, Setup, Tick, Try},
};

/// Whether a lease holds, as a hand-over finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    Held { cancel_requested: bool },
    Lost,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteBack {
    Done,
    Late,
}

/// What a dispatcher writes back, with the attempts that it has not written down yet.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub round: u8,
    pub tries: &'a mut [Try],
    /// Whether any attempt of the round left a recipient accepted.
    pub accepted: bool,
    /// When the first attempt of unknown outcome of the round began.
    pub unknown_since: Option<Tick>,
    pub decision: Decision,
}

impl Outcome<'_> {
    pub fn spends_round(&self) -> bool {
        match self.decision {
            Decision::Again { round_spent, .. } => round_spent,
            _ => spends_round(self.tries),
        }
    }

    /// Whether the last attempt left no recipient open that it was offered.
    fn is_closed(&self) -> bool {
        self.tries.last().is_some_and(|one| one.left(|class| !class.is_final()).is_empty())
    }
}

fn spends_round(tries: &[Try]) -> bool {
    tries.iter().any(|one| !one.left(Class::spends_round).is_empty())
}

fn accepted(tries: &[Try]) -> Recipients {
    tries.iter().fold(Recipients::NONE, |all, one| all.or(one.accepted()))
}

/// When the first of these attempts that left anybody's outcome unknown began.
pub fn unknown_since(tries: &[Try]) -> Option<Tick> {
    tries.iter().filter(|one| one.left_any(Class::OutcomeUnknown)).map(|one| one.started_at).min()
}

/// A provider to be asked next, put on record with the attempts of the round that are not written down yet.
#[derive(Debug)]
pub struct Step<'a> {
    pub round: u8,
    pub tries: &'a mut [Try],
    pub open: Recipients,
    pub to: Provider,
}

impl Record {
    pub fn hand_over(&mut self, setup: &Setup, now: Tick, token: Token, step: Step<'_>) -> Held {
        let is_fenced = !setup.is_broken(Broken::HandOverWithoutFence);
        let Some(mut row) = self.row.filter(|row| row.token == Some(token) || !is_fenced && row.token.is_some()) else {
            return Held::Lost;
        };
        if !step.open.without(row.open).is_empty() {
            self.cut_short(setup, now, token, step);
            return Held::Lost;
        }
        row.accepted_before |= !accepted(step.tries).is_empty();
        row.unknown_since = row.unknown_since.or(unknown_since(step.tries));
        self.write_tries(&mut row, step.tries, step.round);
        row.open = step.open;
        row.ask_first = row.ask_first && row.provider == Some(step.to);
        row.begun_at = (!row.cancel_requested && !begins_unrecorded(setup)).then_some(now);
        row.provider = if row.cancel_requested { row.provider } else { Some(step.to) };
        self.row = Some(row);
        Held::Held { cancel_requested: row.cancel_requested }
    }

    /// A recipient was accepted late, so the round ends here: the rest goes on, at once, with the provider that was
    /// about to be asked.
    fn cut_short(&mut self, setup: &Setup, now: Tick, token: Token, step: Step<'_>) {
        let decision = Decision::Again {
            due_at: now,
            open: step.open,
            // The round goes on.
            round_spent: false,
            ask_first: Some(step.to),
        };
        let (accepted, unknown_since) = (!accepted(step.tries).is_empty(), unknown_since(step.tries));
        let outcome = Outcome { round: step.round, tries: step.tries, accepted, unknown_since, decision };
        self.settle(setup, now, token, outcome);
    }

    pub fn settle(&mut self, setup: &Setup, now: Tick, token: Token, outcome: Outcome<'_>) -> WriteBack {
        let is_fenced = !setup.is_broken(Broken::SettleWithoutFence);
        match self.row.filter(|row| row.token == Some(token) || !is_fenced) {
            Some(row) => {
                self.settle_held(setup, now, row, outcome);
                WriteBack::Done
            }
            None => self.settle_late(setup, outcome),
        }
    }

    fn settle_held(&mut self, setup: &Setup, now: Tick, before: Row, outcome: Outcome<'_>) {
        let mut row = before;
        let is_tried = self.write_tries(&mut row, outcome.tries, outcome.round);
        let (status, due_at, next_open, ask_first) = match outcome.decision {
            Decision::Finished(status) => (status, None, Recipients::NONE, None),
            Decision::Person { status, open } => (status, None, open, None),
            Decision::Again { due_at, open, ask_first, .. } => (Status::RequiredResend, Some(due_at), open, ask_first),
        };
        let opens_all = setup.is_broken(Broken::SettleOpensWhatWasAccepted);
        let open = if opens_all { next_open } else { next_open.and(before.open) };
        let is_sent = before.accepted_before
            && match next_open.is_empty() {
                false => open.is_empty(),
                // The holder did not know that anybody was accepted.
                true => status == Status::FailedNotRetryable && outcome.is_closed(),
            };
        let status = if is_sent { Status::SuccessSent } else { status };
        row.rounds += u8::from(outcome.spends_round());
        row.open = open;
        row.accepted_before |= outcome.accepted;
        row.unknown_since = row.unknown_since.or(outcome.unknown_since);
        // What waits without having been tried keeps the provider that it waits for.
        let keeps = !is_tried && before.ask_first;
        row.ask_first = ask_first.is_some() || keeps;
        row.provider = match status {
            Status::FailedOutcomeUnknown => before.provider,
            _ => ask_first.or(before.provider.filter(|_| keeps)),
        };
        if due_at.is_none() || is_sent {
            let is_last_word = is_tried && (outcome.is_closed() || is_sent);
            if let Some(kind) = ended_by(setup, now, &before, status, is_last_word) {
                self.tell(kind);
            }
            self.end(setup, row, status);
            return;
        }
        row.status = if row.attempts == 0 { Status::NotYetSent } else { Status::RequiredResend };
        row.due_at = due_at.map(|due_at| if row.cancel_requested { due_at.min(now) } else { due_at });
        if setup.is_broken(Broken::FailureWithoutDueTime) && row.rounds > 0 {
            row.due_at = Some(Tick::MAX);
        }
        row.token = None;
        row.begun_at = None;
        self.row = Some(row);
    }

    /// Adds to the history what a message has gone on without. What was accepted after all is not sent again.
    fn settle_late(&mut self, setup: &Setup, outcome: Outcome<'_>) -> WriteBack {
        if setup.is_broken(Broken::LateOutcomeForgotten) {
            return WriteBack::Late;
        }
        let (is_empty, accepted) = (outcome.tries.is_empty(), accepted(outcome.tries));
        let news = outcome.tries.iter().filter(|one| !one.is_recorded).count();
        if news > 0 {
            self.tell_of_the_holder(accepted);
        }
        for one in outcome.tries.iter_mut().filter(|one| !one.is_recorded) {
            self.tell_try(EventKind::LateOutcome, one, outcome.round);
        }
        if setup.is_broken(Broken::LateFailureCounts)
            && news > 0
            && accepted.is_empty()
            && let Some(row) = &mut self.row
        {
            row.rounds += 1;
        }
        if news > 0 && !accepted.is_empty() && !setup.is_broken(Broken::LateAcceptanceIgnored) {
            self.narrow(accepted);
        }
        if news == 0 && !is_empty { WriteBack::Done } else { WriteBack::Late }
    }

    /// Whoever holds a message that ends by what another tells late has begun something of which nobody may ever tell.
    fn tell_of_the_holder(&mut self, accepted: Recipients) {
        let Some(mut row) = self.row.filter(|row| row.token.is_some() && row.open.without(accepted).is_empty()) else {
            return;
        };
        let has_begun = row.cut_off();
        self.tell_takeover(&row, has_begun);
    }

    fn narrow(&mut self, accepted: Recipients) {
        let Some(row) = &mut self.row else { return };
        let goes_on = [Status::InProcess, Status::RequiredResend];
        let was_unsure = [Status::FailedRetriesExhausted, Status::FailedOutcomeUnknown];
        if !goes_on.contains(&row.status) && !was_unsure.contains(&row.status) {
            return;
        }
        row.open = row.open.without(accepted);
        row.accepted_before = true;
        if row.open.is_empty() {
            self.row = None;
            self.finished = Some(Status::SuccessSent);
        }
    }

    /// Writes down the attempts that the history does not have, and what the row remembers of the last of them. Whether
    /// there were any.
    fn write_tries(&mut self, row: &mut Row, tries: &mut [Try], round: u8) -> bool {
        // Of a message that was never tried nothing can be written already, and it is not looked for.
        let looks = row.attempts > 0;
        let mut any = false;
        for one in tries.iter_mut().filter(|one| !looks || !one.is_recorded) {
            self.tell_try(EventKind::Attempt, one, round);
            row.attempts += 1;
            row.last = Some((one.provider, one.headline()));
            any = true;
        }
        any
    }
}

fn begins_unrecorded(setup: &Setup) -> bool {
    setup.hold && setup.is_broken(Broken::HoldBegunWithoutRecord)
}

/// What ended the message, where that was not the last attempt.
fn ended_by(setup: &Setup, now: Tick, before: &Row, status: Status, is_last_word: bool) -> Option<EventKind> {
    let is_over = matches!(status, Status::FailedOutcomeUnknown | Status::FailedRetriesExhausted);
    match status {
        Status::SuccessSent if is_last_word => None,
        Status::SuccessSent | Status::Canceled => Some(EventKind::Canceled),
        Status::Expired => Some(EventKind::Expired),
        Status::FailedOutcomeUnknown if before.cancel_requested => Some(EventKind::Canceled),
        _ if is_over && setup.is_expired(now) => Some(EventKind::Expired),
        _ if is_over && setup.give_up_at <= now => Some(EventKind::GaveUp),
        _ => None,
    }
}
