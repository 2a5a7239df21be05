//! The adapter of kind `smtp`: hands a message to a mail relay.
//!
//! Owns the conversation from the socket to the reply to the final dot. Decides nothing about when a relay is asked.
//!
//! lettre's addresses, commands and mechanisms are used, its transport, pool and connection are not: they give a
//! half-used connection back when a send is dropped, after which each message is told the reply to the one before; they
//! do not tell at which stage a send failed, which decides whether a message may have been sent; and they wait for each
//! reply before the next command.
//!
//! A conversation is owned by the send that uses it. It returns to the pool only by being given back in step, so a send
//! that is dropped in the middle closes it.

mod classify;
mod dkim;
mod envelope;
mod fault;
mod letter;
mod offers;
mod pool;
mod relay;
mod reply;
mod session;
mod transaction;
mod wire;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use tokio::time::Instant;

use self::{
    classify::{Judgement, judge, worse},
    dkim::Keys,
    envelope::Transaction,
    fault::{Decline, Fault, Stage},
    letter::Letter,
    pool::Pool,
    relay::Relay,
    session::Limits,
};
use super::{Capabilities, Provider, Submission};
use crate::{
    config,
    delivery::{Health, Outcome, ProviderName},
    message::RecipientIndex,
};

pub use self::{dkim::DkimError, relay::SmtpSettingsError};

/// An account at an SMTP relay.
pub struct SmtpProvider {
    name: ProviderName,
    capabilities: Capabilities,
    relay: Relay,
    keys: Keys,
    pool: Arc<Pool>,
    patience: Patience,
}

/// How long each stage may last, as set.
struct Patience {
    connect: Duration,
    command: Duration,
    data: Duration,
}

impl SmtpProvider {
    /// The provider of that name and those settings. The password is the one in the settings or in the file they name.
    pub fn new(
        name: ProviderName,
        settings: &config::SmtpProvider,
        password: Option<SecretString>,
    ) -> Result<Self, SmtpSettingsError> {
        Ok(Self {
            name,
            // A server's SIZE is known once it is asked, and an envelope is split where it is too long.
            capabilities: Capabilities::unlimited(),
            relay: Relay::new(settings, password)?,
            keys: Keys::read(&settings.dkim)?,
            pool: Pool::new(settings.idle, settings.connection_age, settings.messages_per_connection),
            patience: Patience {
                connect: settings.connect_timeout,
                command: settings.command_timeout,
                data: settings.data_timeout,
            },
        })
    }
}

impl Provider for SmtpProvider {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome> {
        Box::pin(self.hand_over(submission))
    }
}

impl SmtpProvider {
    async fn hand_over(&self, submission: Submission) -> Outcome {
        let declined = |decline| outcome_of(&submission.recipients, &judge(&Fault::declined(Stage::Connect, decline)));
        if submission.deadline <= Instant::now() {
            return declined(Decline::TooLate);
        }
        let letter = match Letter::new(&submission, &self.keys) {
            Ok(letter) => letter,
            Err(decline) => return declined(decline),
        };
        let Patience { connect, command, data } = self.patience;
        self.deliver(&letter, &submission.recipients, &Limits { connect, command, data, deadline: submission.deadline })
            .await
    }

    /// Sends one envelope, or as many as it takes.
    async fn deliver(&self, letter: &Letter, recipients: &[RecipientIndex], limits: &Limits) -> Outcome {
        let mut outcome = Outcome { verdicts: Vec::new(), provider_message_id: None, health: Health::Neutral };
        let mut left = recipients.to_vec();
        while !left.is_empty() {
            let part = match self.deliver_part(letter, &left, limits).await {
                Ok(transaction) => {
                    left = transaction.left;
                    Outcome {
                        verdicts: transaction.fates,
                        provider_message_id: transaction.message_id,
                        health: transaction.health,
                    }
                }
                Err(fault) => outcome_of(&std::mem::take(&mut left), &judge(&fault)),
            };
            outcome.verdicts.extend(part.verdicts);
            outcome.health = worse(outcome.health, part.health);
            outcome.provider_message_id = outcome.provider_message_id.or(part.provider_message_id);
        }
        outcome
    }

    /// Sends one envelope. A conversation that waited in the pool may have come to its end without our knowing; then
    /// nothing was handed over, and a fresh one takes its place.
    async fn deliver_part(
        &self,
        letter: &Letter,
        left: &[RecipientIndex],
        limits: &Limits,
    ) -> Result<Transaction, Fault> {
        if let Some(mut session) = self.pool.take() {
            match session.deliver(letter, left, limits).await {
                Err(fault) if fault.is_stale() => {
                    tracing::debug!(provider = %self.name, "a connection from the pool was stale: opening a fresh one");
                }
                ended => {
                    self.pool.give_back(session);
                    return ended;
                }
            }
        }
        let mut session = self.relay.open(limits).await?;
        let ended = session.deliver(letter, left, limits).await;
        self.pool.give_back(session);
        ended
    }
}

/// The same for each recipient.
fn outcome_of(recipients: &[RecipientIndex], judgement: &Judgement) -> Outcome {
    Outcome::uniform(recipients, &judgement.verdict, judgement.health)
}
