//! The failover: one round of a message through the providers of a chain, as a tower service.
//!
//! Owns the order in which providers are asked and which recipients go on to the next. Whether a provider can be asked
//! is its admission's to say, and what happens after the round is [`crate::delivery::next`]'s.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tower::Service;

use super::{Chain, Offer, Proceed, admission::Applicant, capability, link::Link};
use crate::{
    delivery::{Attempt, Class, ProviderName, Round, Skip},
    message::RecipientIndex,
    provider::Submission,
};

impl Service<Offer> for Chain {
    type Response = Round;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Round, Infallible>>;

    /// Always: what cannot be asked now is skipped, and the round says so.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, offer: Offer) -> Self::Future {
        let pass = Pass::new(self.clone(), offer);
        Box::pin(async move { Ok(pass.run().await) })
    }
}

/// A round under way.
struct Pass {
    chain: Chain,
    offer: Offer,
    /// The recipients that the next provider is offered.
    offered: Vec<RecipientIndex>,
    round: Round,
}

/// Whether the round goes on after a provider.
enum Step {
    On,
    End,
}

impl Pass {
    fn new(chain: Chain, offer: Offer) -> Self {
        Self { chain, offered: offer.open.clone(), offer, round: Round::default() }
    }

    async fn run(mut self) -> Round {
        let order = self.order();
        if let Some(missing) = self.missing_first() {
            self.skip(&missing, "not in this chain", None);
        }
        for link in &order {
            if let Step::End = self.consider(link).await {
                break;
            }
        }
        self.round.ready_at = self.ready_at(&order);
        self.round
    }

    /// The provider to ask first, then the others in the chain's order, from its first: each at most once.
    fn order(&self) -> Vec<Arc<Link>> {
        let is_first = |link: &&Arc<Link>| Some(link.name()) == self.offer.ask_first.as_ref();
        let first = self.chain.links.iter().filter(is_first);
        let others = self.chain.links.iter().filter(|link| !self.offer.only_first && !is_first(link));
        first.chain(others).cloned().collect()
    }

    /// The provider to ask first, if the chain no longer has it.
    fn missing_first(&self) -> Option<ProviderName> {
        self.offer.ask_first.clone().filter(|name| self.chain.links.iter().all(|link| link.name() != name))
    }

    /// Asks a provider if it can carry the message and admits it.
    async fn consider(&mut self, link: &Link) -> Step {
        if Instant::now() >= self.offer.deadline {
            self.skip(link.name(), "no time left in this round", Some(link.time_of(self.offer.deadline)));
            return Step::End;
        }
        if let Err(unfit) = capability::check(link.capabilities(), &self.offer.message.email, &self.offered) {
            self.skip(link.name(), unfit, None);
            return Step::On;
        }
        let permits = match link.admission().admit(self.applicant(link), self.offer.deadline).await {
            Ok(permits) => permits,
            Err(wait) => {
                self.skip(link.name(), wait.reason, Some(link.time_of(wait.until)));
                return Step::On;
            }
        };
        let open = self.open();
        let Proceed::Go = self.offer.journal.before_attempt(&self.round.attempts, &open, link.name()).await else {
            // It would have been asked: without it on record the round would look as if nobody could carry the message.
            self.skip(link.name(), "the round was ended", Some(link.time_of(Instant::now())));
            return Step::End;
        };
        let submission = Submission {
            message: self.offer.message.clone(),
            recipients: self.offered.clone(),
            deadline: self.offer.deadline,
            traceparent: String::new(),
        };
        let attempt = link.attempt(permits, submission).await;
        self.take_in(attempt)
    }

    /// Keeps an attempt, and decides whether and for whom the next provider is asked.
    fn take_in(&mut self, attempt: Attempt) -> Step {
        let verdicts = &attempt.outcome.verdicts;
        // Where anybody's outcome is unknown nobody else is asked, not for the others either: the row can name only one
        // provider that may have the message.
        let ends = attempt.left_any(Class::MessageRejected) || attempt.left_any(Class::OutcomeUnknown);
        self.offered = match ends {
            true => Vec::new(),
            false => verdicts.iter().filter(|(_, v)| v.class.asks_next()).map(|(recipient, _)| *recipient).collect(),
        };
        if attempt.left_any(Class::Accepted) {
            self.note_failover(&attempt.provider);
        }
        self.round.attempts.push(attempt);
        self.offer.journal.after_attempt(&self.round.attempts);
        if self.offered.is_empty() { Step::End } else { Step::On }
    }

    /// The recipients that are not finished: those to be offered, and those that no other provider may have now.
    fn open(&self) -> Vec<RecipientIndex> {
        let is_open =
            |&&recipient: &&RecipientIndex| self.round.last_class(recipient).is_none_or(|class| !class.is_final());
        self.offer.open.iter().filter(is_open).copied().collect()
    }

    /// When a provider that can carry what is left can be asked. One that was asked in this round and would be again at
    /// once is left out, or a message that it declines would come back without a pause.
    fn ready_at(&self, order: &[Arc<Link>]) -> Option<time::OffsetDateTime> {
        let open = self.open();
        let asked: BTreeSet<&ProviderName> = self.round.attempts.iter().map(|attempt| &attempt.provider).collect();
        order
            .iter()
            .filter(|link| capability::check(link.capabilities(), &self.offer.message.email, &open).is_ok())
            .filter_map(|link| match link.ready_at(self.applicant(link)) {
                None if asked.contains(link.name()) => None,
                None => Some(link.time_of(Instant::now())),
                later => later,
            })
            .min()
    }

    /// Says once an outage that mail goes on without the chain's first provider: a fallback that works must not hide
    /// that something is broken.
    fn note_failover(&self, by: &ProviderName) {
        let Some(first) = self.chain.links.first().filter(|first| first.name() != by && self.failed(first.name()))
        else {
            return;
        };
        if first.admission().gate().note_failover() {
            tracing::warn!(
                chain = &*self.chain.name,
                provider = first.name().as_str(),
                by = by.as_str(),
                message_id = %self.offer.message.id,
                "first message that went on through another provider"
            );
        }
    }

    /// Whether a provider was passed over in this round for something other than what it can carry.
    fn failed(&self, provider: &ProviderName) -> bool {
        let asks_next = |class: Class| class.asks_next() && class != Class::UnfitHere;
        let declined = |attempt: &Attempt| attempt.outcome.verdicts.iter().any(|(_, v)| asks_next(v.class));
        self.round.skipped.iter().any(|skip| skip.provider == *provider && skip.until.is_some())
            || self.round.attempts.iter().any(|attempt| attempt.provider == *provider && declined(attempt))
    }

    /// The message as that provider's admission sees it.
    fn applicant(&self, link: &Link) -> Applicant<'_> {
        Applicant {
            domain: Some(self.offer.message.email.from.address.domain()),
            priority: self.offer.message.priority,
            is_back: self.offer.ask_first.as_ref() == Some(link.name()),
        }
    }

    fn skip(&mut self, provider: &ProviderName, reason: impl ToString, until: Option<time::OffsetDateTime>) {
        self.round.skipped.push(Skip { provider: provider.clone(), reason: reason.to_string(), until });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
