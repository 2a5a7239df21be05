//! One claimed message in the hands of a dispatcher: its round through two providers and what it writes back.
//!
//! Owns what a dispatcher knows and may do next; what happens after a round is asked of `postrider::delivery::next`, and
//! what the outbox makes of a write-back is in [`super::record`] and [`super::write_back`].

use postrider::delivery::{Class, Status};

use super::{
    record::Claimed,
    values::{Answer, Answers, Broken, Decision, Provider, Recipients, Setup, Stand, Tick, Try, decide},
    write_back::{Held, Outcome, Step, unknown_since},
};

/// A message that a dispatcher has claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    pub claimed: Claimed,
    pub tries: Vec<Try>,
    /// How many of them it knows to be written down.
    pub written: usize,
    pub skipped: Vec<Provider>,
    /// The recipients that the next provider is offered.
    pub offered: Recipients,
    /// The provider that the row names as begun, as far as it knows.
    pub on_record: Option<Provider>,
    pub cancel_requested: bool,
    pub stage: Stage,
    /// Whether a takeover in the history speaks for what it began.
    pub is_accounted_for: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It offers the message to one provider after the other.
    Offering,
    /// The round has ended. What was not begun is given back if it was ended from outside.
    Over { was_stopped: bool },
    /// It is decided what happens next, and not known to be written.
    Settling(Decision),
}

/// What a dispatcher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The next provider is not ready.
    Skip,
    /// Puts the next provider on record. Where the answer is lost the round ends.
    HandOver { is_answered: bool },
    /// Asks the next provider, which answers so.
    Ask(Answers),
    /// Asks nobody more: the message was called off, or has expired.
    CallOff,
    /// Asks nobody more: the process stops, or the content cannot be read.
    Stop,
    /// The round is over: decides what happens next.
    Decide,
    /// Writes it back. Where the answer is lost it does so again.
    Settle { is_answered: bool },
    /// Gives the message back.
    Release,
    /// Renews the lease.
    Renew,
    /// Dies.
    Crash,
}

impl Sender {
    pub fn new(setup: &Setup, claimed: Claimed) -> Self {
        let mut sender = Self {
            claimed,
            tries: Vec::new(),
            written: 0,
            skipped: Vec::new(),
            offered: claimed.open,
            on_record: claimed.is_begun.then_some(claimed.provider),
            cancel_requested: false,
            stage: Stage::Offering,
            is_accounted_for: false,
        };
        // Under HOLD only somebody who recognises it is asked for what somebody may have.
        let may_be_told_apart = setup.recognises_key(claimed.provider) || setup.is_broken(Broken::HoldSentAgain);
        if sender.holds_unknown(setup) && !may_be_told_apart {
            let decision = Decision::Person { status: Status::FailedOutcomeUnknown, open: claimed.open };
            sender.stage = Stage::Settling(decision);
        }
        sender
    }

    /// What it may do next by itself.
    pub fn deeds(&self, setup: &Setup, now: Tick) -> Vec<Deed> {
        match self.stage {
            Stage::Offering => self.offers(setup, now),
            Stage::Over { was_stopped: true } if self.tries.is_empty() => vec![Deed::Release],
            Stage::Over { .. } => vec![Deed::Decide],
            Stage::Settling(_) => vec![Deed::Settle { is_answered: true }, Deed::Settle { is_answered: false }],
        }
    }

    fn offers(&self, setup: &Setup, now: Tick) -> Vec<Deed> {
        let Some(next) = self.next_provider(setup) else { return Vec::new() };
        let mut deeds = vec![Deed::Skip];
        // Later it is the same as to skip whoever is left.
        if self.tries.is_empty() {
            deeds.push(Deed::Stop);
        }
        if self.cancel_requested || setup.is_expired(now) {
            deeds.push(Deed::CallOff);
        } else if self.must_write(next) {
            deeds.extend([Deed::HandOver { is_answered: true }, Deed::HandOver { is_answered: false }]);
        } else {
            deeds.extend(answers(setup.answers, self.offered).into_iter().map(Deed::Ask));
        }
        deeds
    }

    pub fn must_write(&self, next: Provider) -> bool {
        self.written < self.tries.len() || self.on_record != Some(next)
    }

    /// The one to ask first, then the others in the chain's order, then who was asked again and did not tell; each once.
    pub fn next_provider(&self, setup: &Setup) -> Option<Provider> {
        let first = Some(self.claimed.provider).filter(|_| self.claimed.ask_first);
        let others = Provider::ALL.into_iter().filter(|_| !self.holds_unknown(setup));
        let (last, others): (Vec<_>, Vec<_>) = others.partition(|one| self.claimed.unknown_at == Some(*one));
        let is_new = |one: &Provider| !self.skipped.contains(one) && self.tries.iter().all(|t| t.provider != *one);
        first.into_iter().chain(others).chain(last).find(is_new).filter(|_| !self.offered.is_empty())
    }

    /// Whether somebody may have the message, and the caller asked not to risk a duplicate.
    fn holds_unknown(&self, setup: &Setup) -> bool {
        setup.hold && self.claimed.unknown_since.is_some()
    }

    /// The recipients that are not finished.
    fn open(&self) -> Recipients {
        let finished = self.tries.iter().map(|one| one.left(Class::is_final)).fold(Recipients::NONE, Recipients::or);
        self.claimed.open.without(finished)
    }

    /// The statement that puts the next provider on record.
    pub fn hand_over(&mut self, to: Provider) -> Step<'_> {
        let open = self.open();
        Step { round: self.claimed.rounds + 1, tries: &mut self.tries[self.written..], open, to }
    }

    /// Hears what became of it. `None`: its answer was lost.
    pub fn hear_of_hand_over(&mut self, held: Option<Held>, to: Provider) {
        match held {
            Some(Held::Held { cancel_requested }) => {
                self.written = self.tries.len();
                self.on_record = Some(to);
                self.cancel_requested |= cancel_requested;
            }
            Some(Held::Lost) | None => self.stage = Stage::Over { was_stopped: true },
        }
    }

    pub fn skip(&mut self, setup: &Setup) {
        self.skipped.extend(self.next_provider(setup));
        self.end_if_nobody_is_left(setup);
    }

    /// Asks the next provider; whom it asked, and about whom.
    pub fn ask(&mut self, setup: &Setup, now: Tick, answers: Answers) -> Try {
        let provider = self.next_provider(setup).expect("only where there is one");
        let asked = Try { provider, started_at: now, answers, is_recorded: false };
        self.tries.push(asked);
        // Nobody else may get what this one may have, and the row can name but one.
        let may_have_it = asked.left_any(Class::OutcomeUnknown);
        let ends = may_have_it || asked.left_any(Class::MessageRejected);
        self.offered = if ends { Recipients::NONE } else { asked.left(Class::asks_next) };
        self.end_if_nobody_is_left(setup);
        asked
    }

    fn end_if_nobody_is_left(&mut self, setup: &Setup) {
        if self.next_provider(setup).is_none() {
            self.stage = Stage::Over { was_stopped: false };
        }
    }

    pub fn decide(&mut self, setup: &Setup, now: Tick) {
        let stand = Stand {
            rounds: self.claimed.rounds,
            open: self.claimed.open,
            accepted_before: self.claimed.accepted_before,
            unknown_since: self.claimed.unknown_since,
            unknown_at: self.claimed.unknown_at,
            untried: self.claimed.untried,
            cancel_requested: self.cancel_requested,
        };
        // A provider that would have been asked and was not is one that was skipped.
        let next = self.next_provider(setup);
        let skipped: Vec<Provider> = self.skipped.iter().copied().chain(next).collect();
        self.stage = Stage::Settling(decide(setup, &stand, &self.tries, &skipped, now));
    }

    /// The statement that writes back what was decided.
    pub fn outcome(&mut self, decision: Decision) -> Outcome<'_> {
        Outcome {
            round: self.claimed.rounds + 1,
            accepted: self.tries.iter().any(|one| !one.accepted().is_empty()),
            unknown_since: unknown_since(&self.tries),
            tries: &mut self.tries[self.written..],
            decision,
        }
    }

    pub fn hear_of_renewal(&mut self, held: Option<bool>) {
        match held {
            Some(cancel_requested) => self.cancel_requested |= cancel_requested,
            None if self.stage == Stage::Offering => self.stage = Stage::Over { was_stopped: true },
            None => {}
        }
    }
}

/// Every combination of answers for those that are offered.
fn answers(choice: &[Answer], offered: Recipients) -> Vec<Answers> {
    let of = |recipient| -> Vec<Option<Answer>> {
        if offered.contains(recipient) { choice.iter().copied().map(Some).collect() } else { vec![None] }
    };
    of(0).into_iter().flat_map(|first| of(1).into_iter().map(move |second| [first, second])).collect()
}
