//! One message over a conversation: MAIL, RCPT for each recipient, DATA, the content, the reply to the final dot.
//!
//! Owns the order of commands and replies; each recipient's fate is kept by [`super::envelope`], and which connection is
//! used is not decided here.
//!
//! Where the server takes commands in groups (RFC 2920), MAIL, RCPT and DATA go out together and their replies are heard
//! in order: a message then costs two round trips, whatever the number of its recipients. The content never goes along:
//! it follows once DATA was answered and a recipient was taken.

use std::time::Duration;

use lettre::transport::smtp::{
    commands::{Data, Mail, Rset},
    extension::{MailBodyParameter, MailParameter},
};
use tokio::time::timeout;

use super::{
    classify::{accepted, judge},
    envelope::{Envelope, Transaction},
    fault::{Decline, Fault, Loss, Stage},
    letter::Letter,
    reply::Reply,
    session::{Limits, Session},
};
use crate::message::RecipientIndex;

/// How much of the content is written at a time, each within the time that a block may take.
const BLOCK: usize = 64 * 1024;

/// How long a server that broke off in the middle of the content is listened to for its reason.
const PARTING_WORDS: Duration = Duration::from_millis(100);

/// How long the replies are awaited that change nothing, so that the connection can be used again.
const LAST_REPLIES: Duration = Duration::from_secs(5);

impl Session {
    /// Sends one envelope.
    ///
    /// # Errors
    ///
    /// Where MAIL was not accepted: nothing was handed over, and it is the same for every recipient.
    pub(super) async fn deliver(
        &mut self,
        letter: &Letter,
        recipients: &[RecipientIndex],
        limits: &Limits,
    ) -> Result<Transaction, Fault> {
        let mail = self.mail_command(letter, recipients)?;
        let mut envelope = Envelope::new(letter, recipients, &self.offers);
        if envelope.is_empty() {
            return Ok(envelope.settle_refused());
        }
        if self.transaction_open {
            self.tell(Stage::Mail, Rset, limits).await?;
            self.transaction_open = false;
        }
        if self.offers.pipelining {
            let group = format!("{mail}{}{Data}", envelope.commands());
            self.say(Stage::Mail, group.as_bytes(), envelope.len() + 2, limits).await?;
        }
        let reply = self.turn(Stage::Mail, &mail, limits).await?;
        if let Err(fault) = self.done(Stage::Mail, reply) {
            // A server that asks for the content now has another transaction open: nothing may follow.
            self.is_over |= self.hear_out(limits).await.is_some_and(|last| last.code == 354);
            return Err(fault);
        }
        self.transaction_open = true;
        if let Err(fault) = self.offer_recipients(&mut envelope, limits).await {
            return Ok(if fault.is_garbled() {
                envelope.disbelieve(&fault)
            } else {
                envelope.break_off(judge(&fault))
            });
        }
        if !envelope.is_taken_by_any() {
            self.end_empty(limits).await;
            return Ok(match self.reset(limits).await {
                Ok(()) => envelope.settle_refused(),
                Err(strange) => envelope.disbelieve(&strange),
            });
        }
        Ok(match self.hand_over(letter, limits).await {
            Ok(reply) => envelope.settle(&accepted(&reply), reply.queue_id()),
            Err(fault) if fault.stage != Stage::Data => envelope.settle(&judge(&fault), None),
            Err(fault) if fault.is_garbled() => envelope.disbelieve(&fault),
            Err(fault) => match self.reset(limits).await {
                Ok(()) => envelope.settle(&judge(&fault), None),
                Err(strange) => envelope.disbelieve(&strange),
            },
        })
    }

    /// MAIL with the parameters that this message needs of this server.
    fn mail_command(&self, letter: &Letter, recipients: &[RecipientIndex]) -> Result<String, Fault> {
        let offers = self.offers;
        if letter.needs_smtputf8 && !offers.smtputf8 {
            return Err(Fault::declined(Stage::Mail, Decline::NeedsSmtpUtf8));
        }
        if offers.is_too_large(letter.size) {
            return Err(Fault::declined(Stage::Mail, Decline::TooLarge));
        }
        let mut parameters = Vec::new();
        if offers.size.is_some() {
            parameters.push(MailParameter::Size(letter.size));
        }
        if offers.smtputf8 && (letter.needs_smtputf8 || letter.has_non_ascii(recipients)) {
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if offers.eight_bit && letter.has_eight_bit {
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        Ok(Mail::new(Some(letter.from.clone()), parameters).to_string())
    }

    /// The reply to a command: said now, unless it went out with its group.
    async fn turn(&mut self, stage: Stage, command: &str, limits: &Limits) -> Result<Reply, Fault> {
        if self.offers.pipelining { self.hear(stage, limits).await } else { self.ask(stage, command, limits).await }
    }

    /// Offers each recipient. A refusal stops none of the others; an error tells that the conversation is over.
    async fn offer_recipients(&mut self, envelope: &mut Envelope, limits: &Limits) -> Result<(), Fault> {
        while let Some(command) = envelope.next_command() {
            let reply = self.turn(Stage::Rcpt, &command, limits).await?;
            match self.done(Stage::Rcpt, reply) {
                Ok(_) => envelope.take(),
                Err(fault) if self.is_over => return Err(fault),
                Err(fault) => envelope.refuse(&fault),
            }
            // Those after it would be told the same, one by one.
            if envelope.is_full() && !self.offers.pipelining {
                return Ok(());
            }
        }
        Ok(())
    }

    /// DATA, the content, the final dot and its reply.
    async fn hand_over(&mut self, letter: &Letter, limits: &Limits) -> Result<Reply, Fault> {
        self.ask_for_content(limits).await?;
        self.messages += 1;
        self.owed += 1;
        for block in letter.wire_form.chunks(BLOCK) {
            if !self.wire.is_quiet() {
                return Err(self.interrupted(limits).await);
            }
            if let Err(fault) = self.say(Stage::Body, block, 0, limits).await {
                return Err(self.parting_words(fault).await);
            }
        }
        let reply = self.hear(Stage::FinalDot, limits).await?;
        self.transaction_open = false;
        self.done(Stage::FinalDot, reply)
    }

    /// DATA, and the reply that the content may come.
    async fn ask_for_content(&mut self, limits: &Limits) -> Result<(), Fault> {
        let go_ahead = self.turn(Stage::Data, &Data.to_string(), limits).await?;
        if go_ahead.is_refusal() {
            return Err(Fault::reply(Stage::Data, go_ahead));
        }
        if go_ahead.code == 354 && self.is_in_step() {
            return Ok(());
        }
        if go_ahead.code == 354 && self.wire.has_unread() {
            return Err(self.interrupted(limits).await);
        }
        // The replies are not those to our commands: one after the dot could be another's too.
        Err(self.lose(Stage::Data, Loss::Garbled))
    }

    /// The server spoke before the final dot. That is no acceptance, whatever it says, and what follows is out of step; a
    /// refusal is its reason to go down, or to take no more of this message.
    async fn interrupted(&mut self, limits: &Limits) -> Fault {
        let said = self.hear(Stage::Body, limits).await;
        self.is_over = true;
        match said {
            Ok(reply) if reply.is_refusal() => Fault::reply(Stage::Body, reply),
            Ok(_) => Fault::lost(Stage::Body, Loss::Garbled),
            Err(fault) => fault,
        }
    }

    /// The content could not be written to its end: the server may have said why.
    async fn parting_words(&mut self, fault: Fault) -> Fault {
        match timeout(PARTING_WORDS, self.wire.reply()).await {
            Ok(Ok(reply)) if reply.is_refusal() => Fault::reply(Stage::Body, reply),
            _ => fault,
        }
    }

    /// Ends a transaction that has come to nothing. In a group a reply counts for its command by its place alone: where
    /// the one to RSET is another's, so were those before it, and that is the error. A connection that ends here says
    /// nothing of what was said before.
    async fn reset(&mut self, limits: &Limits) -> Result<(), Fault> {
        self.is_over |= self.owed > 0;
        if self.is_over || !self.transaction_open {
            return Ok(());
        }
        let reply = timeout(LAST_REPLIES, self.ask(Stage::Data, Rset, limits)).await;
        self.is_over |= !matches!(&reply, Ok(Ok(reply)) if reply.is_done());
        self.transaction_open = self.is_over;
        let is_another_s = match &reply {
            // Those who do not know RSET say so.
            Ok(Ok(reply)) => !reply.is_done() && !matches!(reply.code, 421 | 500 | 502),
            Ok(Err(fault)) => fault.is_garbled(),
            Err(_) => false,
        };
        if is_another_s && self.offers.pipelining {
            return Err(Fault::lost(Stage::Data, Loss::Garbled));
        }
        Ok(())
    }

    /// Hears the replies to the rest of a group that has come to nothing, and gives the last one.
    async fn hear_out(&mut self, limits: &Limits) -> Option<Reply> {
        let last_replies = async {
            let mut last = None;
            while self.owed > 0 && !self.is_over {
                last = self.hear(Stage::Data, limits).await.ok();
            }
            last
        };
        // Those that do not come leave it out of step.
        timeout(LAST_REPLIES, last_replies).await.ok().flatten()
    }

    /// Ends a group of which no recipient was taken. A server that asks for the content nevertheless gets an empty one
    /// (RFC 2920, section 3.1), which is for nobody.
    async fn end_empty(&mut self, limits: &Limits) {
        if self.hear_out(limits).await.is_some_and(|last| last.code == 354) && self.is_in_step() {
            let ended = timeout(LAST_REPLIES, self.ask(Stage::Data, ".\r\n", limits)).await;
            self.transaction_open = !matches!(ended, Ok(Ok(_)));
        }
    }
}
