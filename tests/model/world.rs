//! One message, the dispatchers that may have it and the providers that may get it: what is and what can happen.
//!
//! Owns the order of things, in which anything that can happen may happen next; which states must not be is in
//! [`super::properties`].

use postrider::delivery::Status;

use super::{
    dispatcher::{Deed, Sender, Stage},
    record::{Look, Record, Token},
    values::{LEASE, Provider, Recipients, Setup, Tick, Try},
    write_back::{Held, WriteBack},
};

/// How many dispatchers there can be.
pub const SENDERS: usize = 3;

/// Everything at one time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Tick,
    pub record: Record,
    pub senders: [Option<Sender>; SENDERS],
    pub crashes: u8,
    /// Whether an attempt of a dispatcher that died is in nobody's hands, and the row still says that it began.
    pub is_orphaned: bool,
    /// Whether an attempt was begun that the history will never hold.
    pub is_unaccounted: bool,
    /// Who got the message from whom.
    pub delivered: [Recipients; 2],
    /// Who got it twice.
    pub twice: Recipients,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Pass,
    /// The client or an operator calls the message off.
    Cancel,
    /// A dispatcher looks for work, in a chain whose first ready provider is this.
    Claim { by: usize, first: Provider },
    /// What must not wait any longer is ended, in a chain without a ready provider.
    Sweep,
    /// A dispatcher goes on with what it has.
    Do { by: usize, deed: Deed },
}

/// What the outbox answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Nothing,
    Looked(Look),
    Held(Held),
    Settled(WriteBack),
    Released(bool),
    Renewed(Option<bool>),
    Canceled(Option<Status>),
}

impl World {
    /// A message that was just accepted.
    pub fn accepted(setup: &Setup) -> Self {
        Self {
            now: 0,
            record: Record::accept(setup, 0),
            senders: Default::default(),
            crashes: 0,
            is_orphaned: false,
            is_unaccounted: false,
            delivered: [Recipients::NONE; 2],
            twice: Recipients::NONE,
        }
    }

    /// A message that was accepted by a process that sends it at once.
    pub fn accepted_leased(setup: &Setup) -> Self {
        let (record, claimed) = Record::accept_leased(setup, 0, Token::Of(0), Provider::First);
        let mut world = Self { record, ..Self::accepted(setup) };
        world.senders[0] = Some(Sender::new(setup, claimed));
        world
    }

    pub fn got(&self) -> Recipients {
        self.delivered[0].or(self.delivered[1])
    }

    /// What can happen next.
    pub fn actions(&self, setup: &Setup) -> Vec<Action> {
        let mut actions = Vec::new();
        let due_at = self.record.row.and_then(|row| row.due_at);
        // Later nothing changes any more: whoever looks ends the message.
        let is_over = setup.give_up_at <= self.now;
        if due_at.is_some_and(|due_at| (due_at > self.now && due_at < Tick::MAX) || !is_over) {
            actions.push(Action::Pass);
        }
        if setup.cancels && self.record.row.is_some_and(|row| row.can_be_called_off()) {
            actions.push(Action::Cancel);
        }
        let is_due = due_at.is_some_and(|due_at| due_at <= self.now);
        if is_due && self.record.row.is_some_and(|row| row.is_to_end(setup, self.now)) {
            actions.push(Action::Sweep);
        }
        let idle = self.senders[..setup.senders].iter().position(Option::is_none);
        if let Some(by) = idle.filter(|_| is_due) {
            actions.extend(Provider::ALL.map(|first| Action::Claim { by, first }));
        }
        for (by, sender) in self.senders.iter().enumerate() {
            let Some(sender) = sender else { continue };
            actions.extend(sender.deeds(setup, self.now).into_iter().map(|deed| Action::Do { by, deed }));
            if self.would_renew(by, sender) && !is_over {
                actions.push(Action::Do { by, deed: Deed::Renew });
            }
            // Who has nothing left to do but to be late may as well be late for ever.
            let matters = self.is_holder(by) || !sender.is_accounted_for;
            if self.crashes < setup.crashes && matters {
                actions.push(Action::Do { by, deed: Deed::Crash });
            }
        }
        actions
    }

    pub fn is_holder(&self, by: usize) -> bool {
        self.record.row.is_some_and(|row| row.token == Some(Token::Of(by)))
    }

    /// Whether a renewal would change or tell anything.
    fn would_renew(&self, by: usize, sender: &Sender) -> bool {
        match self.record.row.filter(|row| row.token == Some(Token::Of(by))) {
            Some(row) => row.due_at < Some(self.now + LEASE) || row.cancel_requested && !sender.cancel_requested,
            None => sender.stage == Stage::Offering,
        }
    }

    pub fn after(&self, setup: &Setup, action: Action) -> (World, Heard) {
        let mut world = self.clone();
        let heard = match action {
            Action::Pass => {
                world.now += 1;
                Heard::Nothing
            }
            Action::Cancel => Heard::Canceled(world.record.cancel(setup)),
            Action::Claim { by, first } => Heard::Looked(world.claim(setup, by, first)),
            Action::Sweep => {
                let (look, accounted) = world.record.claim(setup, world.now, Token::Dead, Provider::First);
                world.account_for(accounted);
                Heard::Looked(look)
            }
            Action::Do { by, deed } => world.do_deed(setup, by, deed),
        };
        world.note_late_end(self, action);
        if world.is_orphaned && world.record.row.is_none_or(|row| row.token != Some(Token::Dead)) {
            world.is_orphaned = false;
            world.is_unaccounted = true;
        }
        (world, heard)
    }

    fn claim(&mut self, setup: &Setup, by: usize, first: Provider) -> Look {
        let (look, accounted) = self.record.claim(setup, self.now, Token::Of(by), first);
        self.account_for(accounted);
        if let Look::Claimed(claimed) = look {
            self.senders[by] = Some(Sender::new(setup, claimed));
        }
        look
    }

    /// A takeover in the history speaks for what was begun under this lease.
    fn account_for(&mut self, token: Option<Token>) {
        match token {
            Some(Token::Of(whose)) => {
                if let Some(sender) = &mut self.senders[whose] {
                    sender.is_accounted_for = true;
                }
            }
            Some(Token::Dead) => self.is_orphaned = false,
            None => {}
        }
    }

    /// Whether an acceptance that came late has ended the message while another dispatcher had it.
    fn note_late_end(&mut self, before: &World, action: Action) {
        let Action::Do { by, deed: Deed::Settle { .. } } = action else { return };
        let holder = before.record.row.and_then(|row| row.token).filter(|token| *token != Token::Of(by));
        if self.record.row.is_some() || holder.is_none() {
            return;
        }
        self.account_for(holder);
    }

    fn do_deed(&mut self, setup: &Setup, by: usize, deed: Deed) -> Heard {
        let (token, now) = (Token::Of(by), self.now);
        let Some(mut sender) = self.senders[by].take() else { return Heard::Nothing };
        let mut heard = Heard::Nothing;
        match deed {
            Deed::Skip => sender.skip(setup),
            Deed::CallOff => sender.stage = Stage::Over { was_stopped: false },
            Deed::Stop => sender.stage = Stage::Over { was_stopped: true },
            Deed::Decide => sender.decide(setup, now),
            Deed::Ask(answers) => {
                let asked = sender.ask(setup, now, answers);
                self.deliver(setup, &asked);
            }
            Deed::HandOver { is_answered } => {
                let Some(to) = sender.next_provider(setup) else { return Heard::Nothing };
                let held = self.record.hand_over(setup, now, token, sender.hand_over(to));
                sender.hear_of_hand_over(Some(held).filter(|_| is_answered), to);
                heard = Heard::Held(held);
            }
            Deed::Settle { is_answered } => {
                let Stage::Settling(decision) = sender.stage else { return Heard::Nothing };
                heard = Heard::Settled(self.record.settle(setup, now, token, sender.outcome(decision)));
                if is_answered {
                    self.let_go(by, &sender);
                    return heard;
                }
            }
            Deed::Release => return Heard::Released(self.record.release(setup, now, token)),
            Deed::Renew => {
                let held = self.record.renew(now, token);
                sender.hear_of_renewal(held);
                heard = Heard::Renewed(held);
            }
            Deed::Crash => {
                self.crashes += 1;
                self.let_go(by, &sender);
                return Heard::Nothing;
            }
        }
        self.senders[by] = Some(sender);
        heard
    }

    /// Nobody tells any more of what this dispatcher has begun.
    fn let_go(&mut self, by: usize, sender: &Sender) {
        let leaves_untold = sender.tries.iter().any(|one| !one.is_recorded) && !sender.is_accounted_for;
        match self.record.held(Token::Of(by)) {
            Some(row) => {
                row.token = Some(Token::Dead);
                self.is_orphaned |= leaves_untold && row.begun_at.is_some();
                self.is_unaccounted |= leaves_untold && row.begun_at.is_none();
            }
            None => self.is_unaccounted |= leaves_untold,
        }
    }

    fn deliver(&mut self, setup: &Setup, asked: &Try) {
        let taken = asked.answers.iter().zip(0u8..).filter(|(answer, _)| answer.is_some_and(|one| one.is_delivery()));
        for (_, recipient) in taken {
            let by_it = &mut self.delivered[asked.provider as usize];
            let recognises = setup.recognises_key(asked.provider) && by_it.contains(recipient);
            let had_it = self.delivered.iter().any(|got| got.contains(recipient));
            if had_it && !recognises {
                self.twice = self.twice.with(recipient);
            }
            let by_it = &mut self.delivered[asked.provider as usize];
            *by_it = by_it.with(recipient);
        }
    }
}
