//! One message over a conversation: MAIL, RCPT for each recipient, DATA, the content, the reply to the final dot.
//!
//! Owns each recipient's fate; decides nothing about connections.

use std::time::Duration;

use lettre::transport::smtp::{
    commands::{Data, Mail, Rcpt, Rset},
    extension::{MailBodyParameter, MailParameter},
};
use tokio::time::{timeout, timeout_at};

use super::{
    classify::{Judgement, accepted, is_envelope_full, judge, worse},
    fault::{Decline, Fault, Loss, Stage},
    letter::Letter,
    reply::Reply,
    session::{Limits, Session},
};
use crate::{
    delivery::{Class, Health, Verdict},
    message::RecipientIndex,
};

/// The most recipients of one envelope: what every server must take (RFC 5321, section 4.5.3.1.8).
const ENVELOPE_LIMIT: usize = 100;

/// How much of the content is encoded at a time.
const CHUNK: usize = 64 * 1024;

/// How long a server that broke off in the middle of the content is listened to for its reason.
const PARTING_WORDS: Duration = Duration::from_millis(100);

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

impl Session {
    /// Begins a transaction: MAIL, after RSET where one was left open.
    pub(super) async fn mail(
        &mut self,
        letter: &Letter,
        recipients: &[RecipientIndex],
        limits: &Limits,
    ) -> Result<(), Fault> {
        let offers = self.offers;
        if letter.needs_smtputf8 && !offers.smtputf8 {
            return Err(Fault::declined(Stage::Mail, Decline::NeedsSmtpUtf8));
        }
        if offers.is_too_large(letter.content.len()) {
            return Err(Fault::declined(Stage::Mail, Decline::TooLarge));
        }
        let mut parameters = Vec::new();
        if offers.size.is_some() {
            parameters.push(MailParameter::Size(letter.content.len()));
        }
        if offers.smtputf8 && (letter.needs_smtputf8 || letter.has_non_ascii(recipients)) {
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if offers.eight_bit && !letter.content.is_ascii() {
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        if self.transaction_open {
            self.tell(Stage::Mail, Rset, limits).await?;
            self.transaction_open = false;
        }
        self.tell(Stage::Mail, Mail::new(Some(letter.from.clone()), parameters), limits).await?;
        self.transaction_open = true;
        Ok(())
    }

    /// Offers the recipients, and hands the content over if one was taken. MAIL was accepted before.
    pub(super) async fn deliver(
        &mut self,
        letter: &Letter,
        recipients: &[RecipientIndex],
        limits: &Limits,
    ) -> Transaction {
        let mut envelope = Envelope::default();
        for (place, &recipient) in recipients.iter().enumerate() {
            if envelope.taken.len() == ENVELOPE_LIMIT {
                return self.hand_over(letter, envelope, &recipients[place..], limits).await;
            }
            match self.rcpt(letter, recipient, limits).await {
                Ok(()) => envelope.taken.push(recipient),
                Err(fault) if is_full(&fault) && !envelope.taken.is_empty() && self.in_step => {
                    return self.hand_over(letter, envelope, &recipients[place..], limits).await;
                }
                Err(fault) if self.in_step => envelope.refuse(recipient, judge(&fault)),
                Err(fault) => return envelope.break_off(&recipients[place..], judge(&fault)),
            }
        }
        self.hand_over(letter, envelope, &[], limits).await
    }

    async fn rcpt(&mut self, letter: &Letter, recipient: RecipientIndex, limits: &Limits) -> Result<(), Fault> {
        let declined = |decline| Fault::declined(Stage::Rcpt, decline);
        if letter.has_non_ascii(&[recipient]) && !self.offers.smtputf8 {
            return Err(declined(Decline::NeedsSmtpUtf8));
        }
        let path = letter.recipient(recipient).ok_or_else(|| declined(Decline::UnsafeAddress))?;
        self.tell(Stage::Rcpt, Rcpt::new(path, Vec::new()), limits).await.map(|_| ())
    }

    /// Hands the content over to those that were taken.
    async fn hand_over(
        &mut self,
        letter: &Letter,
        envelope: Envelope,
        left: &[RecipientIndex],
        limits: &Limits,
    ) -> Transaction {
        if envelope.taken.is_empty() {
            return envelope.settle_refused();
        }
        let (judgement, message_id) = match self.content(letter, limits).await {
            Ok(reply) => (accepted(&reply), reply.queue_id()),
            Err(fault) => (judge(&fault), None),
        };
        Transaction { message_id, left: left.to_vec(), ..envelope.settle(&judgement) }
    }

    /// DATA, the content, the final dot and its reply.
    async fn content(&mut self, letter: &Letter, limits: &Limits) -> Result<Reply, Fault> {
        self.ask_for_content(limits).await?;
        self.messages += 1;
        self.begin();
        let mut chunks = letter.content_without_last_line_end().chunks(CHUNK);
        let mut stage = Stage::Body;
        // lettre asks for a chunk once the last one was written, and writes the dot once it got none.
        let parts = std::iter::from_fn(|| {
            let chunk = chunks.next();
            if chunk.is_none() {
                stage = Stage::FinalDot;
            }
            chunk
        });
        let result = timeout_at(limits.until(limits.data), self.connection.message_iter(parts)).await;
        if stage == Stage::Body {
            let heard_out = timeout(PARTING_WORDS, self.connection.read_response()).await.is_ok();
            tracing::debug!(heard_out, "the content could not be written to its end");
        }
        let reply = self.conclude(stage, result)?;
        self.transaction_open = false;
        // A reply before the dot is no acceptance, and what follows it is out of step.
        self.in_step &= stage == Stage::FinalDot;
        match reply {
            reply if reply.is_done() && stage == Stage::FinalDot => Ok(reply),
            reply if reply.is_refusal() => Err(Fault::reply(stage, reply)),
            _ => {
                self.in_step = false;
                Err(Fault::lost(stage, Loss::Garbled))
            }
        }
    }

    /// DATA, and the reply that the content may come.
    async fn ask_for_content(&mut self, limits: &Limits) -> Result<(), Fault> {
        let go_ahead = self.ask(Stage::Data, Data, limits).await?;
        if go_ahead.code == 354 && self.in_step {
            return Ok(());
        }
        if go_ahead.is_refusal() {
            return Err(Fault::reply(Stage::Data, go_ahead));
        }
        // The replies are not those to our commands: one after the dot could be another's too. A refusal together with
        // the 354 is a server that goes down at this moment.
        self.in_step = false;
        let heard = self.wire.heard();
        let second = Reply::parse(&heard).and_then(|(_, rest)| Reply::parse(rest));
        match second {
            Some((reply, _)) if reply.is_refusal() => Err(Fault::reply(Stage::Body, reply)),
            _ => Err(Fault::lost(Stage::Data, Loss::Garbled)),
        }
    }
}

/// An envelope in the making.
#[derive(Default)]
struct Envelope {
    taken: Vec<RecipientIndex>,
    refused: Vec<(RecipientIndex, Judgement)>,
}

impl Envelope {
    fn refuse(&mut self, recipient: RecipientIndex, judgement: Judgement) {
        self.refused.push((recipient, judgement));
    }

    /// No recipient was taken: what the refusals say of the provider counts.
    fn settle_refused(self) -> Transaction {
        let health = self.refused.iter().map(|(_, judgement)| judgement.health).fold(Health::Neutral, worse);
        let fates = self.refused.into_iter().map(|(recipient, judgement)| (recipient, judgement.verdict)).collect();
        Transaction { fates, left: Vec::new(), health, message_id: None }
    }

    /// Those that were taken share a fate. What a refusal says of the provider counts no more, since it took others,
    /// unless it asks for a rest.
    fn settle(self, judgement: &Judgement) -> Transaction {
        let Self { taken, mut refused } = self;
        refused.iter_mut().map(|(_, refusal)| refusal).filter(|refusal| !asks_for_rest(refusal)).for_each(|refusal| {
            refusal.health = Health::Neutral;
        });
        refused.extend(taken.into_iter().map(|recipient| (recipient, judgement.clone())));
        Self { taken: Vec::new(), refused }.settle_refused()
    }

    /// The conversation is over before the content: for those that were taken, and those not yet offered, the same.
    fn break_off(mut self, rest: &[RecipientIndex], judgement: Judgement) -> Transaction {
        self.taken.extend(rest);
        self.settle(&judgement)
    }
}

fn asks_for_rest(judgement: &Judgement) -> bool {
    matches!(judgement.verdict.class, Class::Throttled | Class::QuotaUsedUp)
}

fn is_full(fault: &Fault) -> bool {
    matches!(&fault.cause, super::fault::Cause::Reply(reply) if is_envelope_full(reply))
}
