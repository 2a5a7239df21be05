//! The recipients of one envelope, and what becomes of each.
//!
//! Owns their fates; says nothing to a server.

use std::collections::VecDeque;

use lettre::transport::smtp::commands::Rcpt;

use super::{
    classify::{Judgement, is_envelope_full, judge, worse},
    fault::{Cause, Decline, Fault, Stage},
    letter::Letter,
    offers::Offers,
};
use crate::{
    delivery::{Class, Health, Verdict},
    message::RecipientIndex,
};

/// The most recipients of one envelope: what every server must take (RFC 5321, section 4.5.3.1.8).
const LIMIT: usize = 100;

/// What became of an envelope.
pub(super) struct Transaction {
    /// The recipients whose fate is known.
    pub(super) fates: Vec<(RecipientIndex, Verdict)>,
    /// The recipients that another envelope must take.
    pub(super) left: Vec<RecipientIndex>,
    /// What it says of the provider.
    pub(super) health: Health,
    /// The server's own id of the message.
    pub(super) message_id: Option<String>,
}

/// An envelope in the making.
#[derive(Default)]
pub(super) struct Envelope {
    /// Those still to be answered, with the command that offers each; the one that is next in front.
    offered: VecDeque<(RecipientIndex, String)>,
    taken: Vec<RecipientIndex>,
    /// Those that the server refused.
    refused: Vec<(RecipientIndex, Judgement)>,
    /// Those that were not offered to it.
    declined: Vec<(RecipientIndex, Judgement)>,
    /// Those for whom there was no room, with what it means if there was room for nobody.
    without_room: Vec<(RecipientIndex, Judgement)>,
    /// Those beyond what one envelope may hold.
    beyond: Vec<RecipientIndex>,
}

impl Envelope {
    /// The envelope of as many of those recipients as it may hold. One that cannot be written for this server is refused
    /// at once.
    pub(super) fn new(letter: &Letter, recipients: &[RecipientIndex], offers: &Offers) -> Self {
        let mut envelope = Self::default();
        for &recipient in recipients {
            match command(letter, recipient, offers) {
                Ok(_) if envelope.offered.len() == LIMIT => envelope.beyond.push(recipient),
                Ok(command) => envelope.offered.push_back((recipient, command)),
                Err(decline) => {
                    envelope.declined.push((recipient, judge(&Fault::declined(Stage::Rcpt, decline))));
                }
            }
        }
        envelope
    }

    /// Whether there is nobody to offer.
    pub(super) fn is_empty(&self) -> bool {
        self.offered.is_empty()
    }

    /// How many are still to be answered.
    pub(super) fn len(&self) -> usize {
        self.offered.len()
    }

    /// The commands that offer them, in their order.
    pub(super) fn commands(&self) -> String {
        self.offered.iter().map(|(_, command)| command.as_str()).collect()
    }

    /// The command for the next one; `None` once each was answered.
    pub(super) fn next_command(&self) -> Option<String> {
        self.offered.front().map(|(_, command)| command.clone())
    }

    /// The next one was taken.
    pub(super) fn take(&mut self) {
        self.taken.extend(self.offered.pop_front().map(|(recipient, _)| recipient));
    }

    /// The next one was refused: for good or for now, or because this envelope has no room for it.
    pub(super) fn refuse(&mut self, fault: &Fault) {
        let Some((recipient, _)) = self.offered.pop_front() else { return };
        let is_full = matches!(&fault.cause, Cause::Reply(reply) if is_envelope_full(reply));
        let refusals = if is_full { &mut self.without_room } else { &mut self.refused };
        refusals.push((recipient, judge(fault)));
    }

    /// Whether another envelope must take the rest.
    pub(super) fn is_full(&self) -> bool {
        !self.taken.is_empty() && !self.without_room.is_empty()
    }

    /// Whether there is somebody to hand the content over to.
    pub(super) fn is_taken_by_any(&self) -> bool {
        !self.taken.is_empty()
    }

    /// No recipient was taken: what the refusals say of the provider counts. Where there was no room even for the first,
    /// no other envelope will have any.
    pub(super) fn settle_refused(mut self) -> Transaction {
        self.refused.append(&mut self.without_room);
        self.refused.append(&mut self.declined);
        let health = self.refused.iter().map(|(_, judgement)| judgement.health).fold(Health::Neutral, worse);
        let fates = self.refused.into_iter().map(|(recipient, judgement)| (recipient, judgement.verdict)).collect();
        Transaction { fates, left: self.beyond, health, message_id: None }
    }

    /// Those that were taken share a fate, and those for whom there was no room get an envelope of their own.
    pub(super) fn settle(mut self, judgement: &Judgement, message_id: Option<String>) -> Transaction {
        self.refused.append(&mut self.declined);
        let unanswered = self.offered.into_iter().map(|(recipient, _)| recipient);
        let left = self.without_room.into_iter().map(|(recipient, _)| recipient).chain(unanswered).chain(self.beyond);
        let left = left.collect();
        Transaction { left, message_id, ..settle_all(self.refused, self.taken, judgement) }
    }

    /// The conversation is over before the content: for those that were taken, and those not answered, the same.
    pub(super) fn break_off(mut self, judgement: Judgement) -> Transaction {
        self.refused.append(&mut self.declined);
        let unanswered = self.offered.into_iter().map(|(recipient, _)| recipient);
        let without_room = self.without_room.into_iter().map(|(recipient, _)| recipient);
        let all = self.taken.into_iter().chain(without_room).chain(unanswered).chain(self.beyond).collect();
        settle_all(self.refused, all, &judgement)
    }

    /// The replies were not those to our commands, so nobody knows whom they were about: it is the same for all that were
    /// offered, and none of them has the content.
    pub(super) fn disbelieve(mut self, fault: &Fault) -> Transaction {
        let refusals = self.refused.drain(..).chain(self.without_room.drain(..));
        self.taken.extend(refusals.map(|(recipient, _)| recipient));
        self.break_off(judge(fault))
    }
}

/// What a refusal of one says of the provider counts no more where there is news of others, unless it asks for a rest.
fn settle_all(
    mut refused: Vec<(RecipientIndex, Judgement)>,
    others: Vec<RecipientIndex>,
    judgement: &Judgement,
) -> Transaction {
    refused.iter_mut().map(|(_, refusal)| refusal).filter(|refusal| !asks_for_rest(refusal)).for_each(|refusal| {
        refusal.health = Health::Neutral;
    });
    refused.extend(others.into_iter().map(|recipient| (recipient, judgement.clone())));
    Envelope { refused, ..Envelope::default() }.settle_refused()
}

fn command(letter: &Letter, recipient: RecipientIndex, offers: &Offers) -> Result<String, Decline> {
    if letter.has_non_ascii(&[recipient]) && !offers.smtputf8 {
        return Err(Decline::NeedsSmtpUtf8);
    }
    let path = letter.recipient(recipient).ok_or(Decline::UnsafeAddress)?;
    Ok(Rcpt::new(path, Vec::new()).to_string())
}

fn asks_for_rest(judgement: &Judgement) -> bool {
    matches!(judgement.verdict.class, Class::Throttled | Class::QuotaUsedUp)
}
