//! The failover: one round of a message through the providers of a chain, as a tower service.
//!
//! Owns the order in which providers are asked, which recipients go on to the next, and who was passed over. Whether a
//! provider can be asked is its admission's to say, and what happens after the round is [`crate::delivery::next`]'s.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;
use tower::Service;

use super::{
    Chain, Offer, Proceed,
    admission::{Applicant, Permits},
    capability,
    link::Link,
};
use crate::{
    config::WhenBusy,
    delivery::{Attempt, Class, ProviderName, Round, Skip},
    health::Reason,
    message::RecipientIndex,
    provider::Submission,
    telemetry,
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
    /// The providers in the order in which they are asked.
    order: Vec<Arc<Link>>,
    /// The recipients that the next provider is offered.
    offered: Vec<RecipientIndex>,
    /// Those that were at a limit of ours when their turn came, and let the message go on.
    busy: Vec<Arc<Link>>,
    round: Round,
}

/// Whether the round goes on after a provider.
enum Step {
    On,
    End,
}

impl Pass {
    fn new(chain: Chain, offer: Offer) -> Self {
        let order = order(&chain, &offer);
        Self { chain, order, offered: offer.open.clone(), offer, busy: Vec::new(), round: Round::default() }
    }

    async fn run(mut self) -> Round {
        if let Some(missing) = self.missing_first() {
            self.skip(&missing, "not in this chain", None);
        }
        if let Step::On = self.ask_in_order().await {
            self.ask_who_has_room_first().await;
        }
        if self.round.attempts.is_empty() {
            telemetry::note_idle_round(&self.offer.message, &self.round.skipped);
        }
        self.round.ready_at = self.ready_at();
        self.round
    }

    async fn ask_in_order(&mut self) -> Step {
        for link in self.order.clone() {
            if let Step::End = self.consider(&link).await {
                return Step::End;
            }
        }
        Step::On
    }

    /// Nobody has taken the message, and some were only busy: whoever of them has room first is asked.
    async fn ask_who_has_room_first(&mut self) {
        while !self.busy.is_empty() {
            let Some((link, permits)) = self.first_with_room().await else { return };
            self.busy.retain(|busy| busy.name() != link.name());
            if let Step::End = self.ask(&link, permits).await {
                return;
            }
        }
    }

    /// Waits for the busy ones, all at once. Those that cannot be waited for are busy no longer.
    async fn first_with_room(&mut self) -> Option<(Arc<Link>, Permits)> {
        let (message, deadline) = (self.offer.message.clone(), self.offer.deadline);
        let busy = std::mem::take(&mut self.busy).into_iter().filter(|link| self.can_carry(link));
        let (can_carry, placeless): (Vec<_>, Vec<_>) = busy.partition(|link| link.admission().has_places());
        let admit = |link: &Arc<Link>| {
            let (link, applicant) = (link.clone(), Applicant::of(&message));
            async move { (link.admission().admit(applicant, deadline).await, link) }
        };
        let mut waits: FuturesUnordered<_> = can_carry.iter().map(admit).collect();
        let mut gone = Vec::new();
        let mut found = None;
        while let Some((answer, link)) = waits.next().await {
            match answer {
                Ok(permits) => {
                    found = Some((link, permits));
                    break;
                }
                Err(wait) => gone.push((link, wait)),
            }
        }
        drop(waits);
        let is_gone = |link: &Arc<Link>| gone.iter().any(|(gone, _)| gone.name() == link.name());
        self.busy = can_carry.iter().filter(|link| !is_gone(link)).cloned().chain(placeless).collect();
        for (link, wait) in gone {
            self.skip(link.name(), wait.reason, Some(link.time_of(wait.until)));
        }
        found
    }

    /// The provider to ask first, if the chain no longer has it.
    fn missing_first(&self) -> Option<ProviderName> {
        self.offer.ask_first.clone().filter(|name| self.chain.links().all(|link| link.name() != name))
    }

    /// Asks a provider if it can carry the message and admits it.
    async fn consider(&mut self, link: &Arc<Link>) -> Step {
        if Instant::now() >= self.offer.deadline {
            self.skip(link.name(), "no time left in this round", Some(link.time_of(self.offer.deadline)));
            return Step::End;
        }
        if !self.can_carry(link) {
            return Step::On;
        }
        let lets_go_on = self.lets_go_on(link);
        if lets_go_on && !link.admission().has_places() {
            // Its places are with other processes.
            self.busy.push(link.clone());
            self.skip(link.name(), Reason::ConcurrencyLimit, Some(link.time_of(Instant::now())));
            return Step::On;
        }
        let patience = if lets_go_on { Instant::now() } else { self.offer.deadline };
        match link.admission().admit(self.applicant(link), patience).await {
            Ok(permits) => self.ask(link, permits).await,
            Err(wait) => {
                if lets_go_on && wait.reason.is_our_limit() {
                    self.busy.push(link.clone());
                }
                self.skip(link.name(), wait.reason, Some(link.time_of(wait.until)));
                Step::On
            }
        }
    }

    /// Whether the message goes to the next while this one is busy. Not from one that deferred it or may have it: our own
    /// limit is no reason to hand it to another.
    fn lets_go_on(&self, link: &Link) -> bool {
        link.when_busy() == WhenBusy::Next && self.offer.ask_first.as_ref() != Some(link.name())
    }

    /// Whether a provider can carry what is left; if not it is passed over.
    fn can_carry(&mut self, link: &Link) -> bool {
        let checked = capability::check(link.capabilities(), &self.offer.message.email, &self.offered);
        checked.map_err(|unfit| self.skip(link.name(), unfit, None)).is_ok()
    }

    /// Asks a provider that has admitted the message.
    async fn ask(&mut self, link: &Link, permits: Permits) -> Step {
        let (open, skipped) = (self.open(), self.round.skipped_since_last_attempt().to_vec());
        let finished = &self.round.attempts;
        let Proceed::Go = self.offer.journal.before_attempt(finished, &open, link.name(), &skipped).await else {
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
        let attempt = link.attempt(permits, submission, skipped).await;
        self.take_in(attempt)
    }

    /// Keeps an attempt, and decides whether and for whom the next provider is asked.
    fn take_in(&mut self, attempt: Attempt) -> Step {
        let verdicts = &attempt.outcome.verdicts;
        // Where anybody's outcome is unknown nobody else is asked, not for the others either: the row can name only one
        // provider that may have the message.
        let ends = attempt.left_any(Class::MessageRejected)
            || attempt.left_any(Class::OutcomeUnknown)
            || (declines_content(&attempt) && self.round.attempts.iter().any(declines_content));
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
    fn ready_at(&self) -> Option<time::OffsetDateTime> {
        let open = self.open();
        let asked: BTreeSet<&ProviderName> = self.round.attempts.iter().map(|attempt| &attempt.provider).collect();
        self.order
            .iter()
            .filter(|link| capability::check(link.capabilities(), &self.offer.message.email, &open).is_ok())
            .filter_map(|link| match link.ready_at(self.applicant(link)) {
                None if asked.contains(link.name()) => None,
                None => Some(link.time_of(Instant::now())),
                later => later,
            })
            .min()
    }

    /// Counts each message that goes on without the chain's first provider, and says so once an outage: a fallback that
    /// works must not hide that something is broken.
    fn note_failover(&self, by: &ProviderName) {
        let Some(first) = self.order.first().filter(|first| first.name() != by && self.failed(first.name())) else {
            return;
        };
        telemetry::count_failover(&self.chain.name, first.name(), by);
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

    /// Whether a provider was passed over in this round for something other than what it can carry or our own limits.
    fn failed(&self, provider: &ProviderName) -> bool {
        let asks_next = |class: Class| class.asks_next() && class != Class::UnfitHere;
        let declined = |attempt: &Attempt| attempt.outcome.verdicts.iter().any(|(_, v)| asks_next(v.class));
        let was_busy = self.busy.iter().any(|busy| busy.name() == provider);
        self.round.skipped.iter().any(|skip| skip.provider == *provider && skip.until.is_some() && !was_busy)
            || self.round.attempts.iter().any(|attempt| attempt.provider == *provider && declined(attempt))
    }

    /// The message as that provider's admission sees it.
    fn applicant(&self, link: &Link) -> Applicant<'_> {
        let is_back = self.offer.ask_first.as_ref() == Some(link.name());
        Applicant { is_back, ..Applicant::of(&self.offer.message) }
    }

    fn skip(&mut self, provider: &ProviderName, reason: impl ToString, until: Option<time::OffsetDateTime>) {
        self.round.skipped.push(Skip { provider: provider.clone(), reason: reason.to_string(), until });
    }
}

/// The provider to ask first, then the others as they stand for the message, then the one to ask last: each at most once.
fn order(chain: &Chain, offer: &Offer) -> Vec<Arc<Link>> {
    let (mut first, mut others, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for link in chain.line_for(offer.message.id).cloned() {
        let is = |name: &Option<ProviderName>| name.as_ref() == Some(link.name());
        match (is(&offer.ask_first), is(&offer.ask_last)) {
            (true, _) => first.push(link),
            (false, _) if offer.only_first => {}
            (false, true) => last.push(link),
            (false, false) => others.push(link),
        }
    }
    first.into_iter().chain(others).chain(last).collect()
}

/// Whether it was declined for what it says: one other provider is asked then, and no more.
fn declines_content(attempt: &Attempt) -> bool {
    attempt.outcome.verdicts.iter().any(|(_, verdict)| verdict.is_about_content())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
