//! What an answer means: the parts of it that do not depend on whose answer it is.
//!
//! Owns what a status alone means, what is nobody's acceptance (a redirect, a page, an answer that broke off), and how a
//! verdict and a health are made of a class. What a provider's own codes mean is each adapter's. Pure.

use std::time::Duration;

use super::{Answer, Asked};
use crate::{
    delivery::{Class, Health, Outcome, Scope, Verdict},
    message::{RecipientIndex, UnknownOutcome},
};

/// What an answer means for the message as a whole, and who fares otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::provider) struct Judgement {
    /// The class.
    pub(in crate::provider) class: Class,
    /// What it is about.
    pub(in crate::provider) scope: Scope,
    code: Option<String>,
    detail: Option<String>,
    id: Option<String>,
    health: Option<Health>,
    rest: Option<Duration>,
    apart: Vec<(RecipientIndex, Class)>,
}

impl Judgement {
    /// A class, about what it usually is about.
    pub(in crate::provider) fn new(class: Class) -> Self {
        let scope = usual_scope(class);
        Self { class, scope, code: None, detail: None, id: None, health: None, rest: None, apart: Vec::new() }
    }

    /// A refusal of recipients. Who is named is finished. Who is not named was not sent to either, without blame; a
    /// provider that takes headers and envelope as one cannot be offered those alone, so the next one is asked. Where
    /// nobody is named and there are several, another provider may tell who was meant.
    pub(in crate::provider) fn of_recipients(asked: &Asked<'_>, mut named: Vec<RecipientIndex>) -> Self {
        // One may be named for several reasons.
        named.sort_unstable();
        named.dedup();
        let all = asked.recipients.len();
        if all == 1 || named.len() == all {
            return Self::new(Class::RecipientRejected);
        }
        Self::new(Class::UnfitHere).but(named, Class::RecipientRejected)
    }

    /// The same, about something else.
    pub(in crate::provider) fn about(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same, with another health than follows from the class.
    pub(in crate::provider) fn while_it_is(self, health: Health) -> Self {
        Self { health: Some(health), ..self }
    }

    /// The same, with a time until which the provider is to be left alone, where it has its own way of naming one.
    pub(in crate::provider) fn resting(self, rest: Option<Duration>) -> Self {
        Self { rest, ..self }
    }

    /// The same, but for some of the recipients.
    pub(in crate::provider) fn but(self, recipients: Vec<RecipientIndex>, class: Class) -> Self {
        Self { apart: recipients.into_iter().map(|index| (index, class)).collect(), ..self }
    }

    /// With the provider's own code and words, so far as it gave them.
    pub(in crate::provider) fn said(self, code: Option<String>, words: impl Into<String>) -> Self {
        Self { code, detail: Some(words.into()), ..self }
    }

    /// With the provider's id of the message.
    pub(in crate::provider) fn known_as(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    /// The verdict that it makes.
    pub(in crate::provider) fn verdict(&self, answer: &Answer) -> Verdict {
        let code = match &self.code {
            Some(code) => format!("{} {code}", answer.status),
            None => answer.status.to_string(),
        };
        let described = || describe(answer);
        Verdict::new(self.class, self.scope, code, &self.detail.clone().unwrap_or_else(described))
    }

    /// What it says of the provider.
    pub(in crate::provider) fn health(&self, answer: &Answer) -> Health {
        let retry_after = self.rest.or_else(|| answer.retry_after());
        match self.class {
            _ if self.health.is_some() => self.health.unwrap_or(Health::Neutral),
            Class::Throttled | Class::QuotaUsedUp => Health::Resting { retry_after },
            Class::Misconfigured if self.scope == Scope::SenderDomain => Health::MisconfiguredForSenderDomain,
            Class::Misconfigured => Health::Misconfigured,
            Class::Unavailable | Class::OutcomeUnknown => Health::Failing { retry_after },
            // The status was enough to judge the message, but who does not end its answers is not well.
            _ if answer.is_broken() => Health::Failing { retry_after },
            _ => Health::Healthy,
        }
    }

    fn outcome(self, asked: &Asked<'_>, answer: &Answer) -> Outcome {
        let general = self.verdict(answer);
        let verdict = |index: RecipientIndex| match self.apart.iter().find(|(apart, _)| *apart == index) {
            Some((_, class)) => Verdict { class: *class, scope: usual_scope(*class), ..general.clone() },
            None => general.clone(),
        };
        Outcome {
            verdicts: asked.recipients.iter().map(|&(index, _)| (index, verdict(index))).collect(),
            health: self.health(answer),
            provider_message_id: self.id,
        }
    }
}

fn usual_scope(class: Class) -> Scope {
    match class {
        Class::Accepted | Class::RecipientRejected => Scope::Recipient,
        Class::MessageRejected => Scope::Message,
        Class::UnfitHere => Scope::MessageAtProvider,
        Class::Deferred => Scope::RecipientAtProvider,
        Class::Unavailable | Class::Throttled => Scope::Provider,
        Class::QuotaUsedUp | Class::Misconfigured => Scope::Account,
        Class::OutcomeUnknown => Scope::Wire,
    }
}

/// The outcome of an answer. `own` is what the provider's own words mean, where they are understood; it counts unless
/// something else than the provider spoke, and without it the status decides.
pub(in crate::provider) fn conclude(asked: &Asked<'_>, answer: &Answer, own: Option<Judgement>) -> Outcome {
    let judgement = not_the_provider(answer).or(own);
    judgement.unwrap_or_else(|| by_status(asked.unknown_outcome, answer, false)).outcome(asked, answer)
}

/// An answer that is a redirect, or a page where there should be an acceptance or a refusal of the message, or one that
/// would be an acceptance and broke off.
fn not_the_provider(answer: &Answer) -> Option<Judgement> {
    match answer.status {
        300..400 => Some(Judgement::new(Class::Misconfigured).about(Scope::Provider)),
        200..300 if answer.is_broken() => Some(Judgement::new(Class::OutcomeUnknown)),
        200..300 | 400 | 422 if answer.is_page() => Some(Judgement::new(Class::Misconfigured).about(Scope::Provider)),
        _ => None,
    }
}

/// What a status means where nothing more is known. `documented` is whether the provider itself wrote the body: else it
/// may be a proxy that speaks, and nobody said that other providers would refuse the message too.
pub(in crate::provider) fn by_status(unknown: UnknownOutcome, answer: &Answer, documented: bool) -> Judgement {
    if let Some(judgement) = not_the_provider(answer) {
        return judgement;
    }
    match answer.status {
        200..300 => Judgement::new(Class::Accepted),
        400 | 422 if documented => Judgement::new(Class::MessageRejected),
        400 | 422 => Judgement::new(Class::UnfitHere),
        401 | 403 | 407 | 511 => Judgement::new(Class::Misconfigured),
        402 => Judgement::new(Class::QuotaUsedUp),
        404 | 405 | 406 | 410 | 411 | 415 | 421 | 426 | 501 | 505 => {
            Judgement::new(Class::Misconfigured).about(Scope::Provider)
        }
        // By RFC 9110 the server did not read the whole request, but some say it when they waited for another server.
        408 => after_an_internal_error(unknown),
        // The key is being processed or was used for something else: in either case the provider may have the message.
        409 => Judgement::new(Class::OutcomeUnknown),
        425 => Judgement::new(Class::Unavailable),
        429 => Judgement::new(Class::Throttled),
        400..500 => Judgement::new(Class::UnfitHere),
        500 => after_an_internal_error(unknown),
        503 => Judgement::new(Class::Unavailable),
        // 502 and 504 come from something between us and the provider, which may have passed the message on. What else
        // there is nobody has defined.
        _ => Judgement::new(Class::OutcomeUnknown),
    }
}

/// A provider that says it failed has most likely not sent the message, but does not promise it: the caller decides.
pub(in crate::provider) fn after_an_internal_error(unknown: UnknownOutcome) -> Judgement {
    match unknown {
        UnknownOutcome::Resend => Judgement::new(Class::Unavailable),
        UnknownOutcome::Hold => Judgement::new(Class::OutcomeUnknown),
    }
}

/// What the answer to a request that sends nothing says of the provider, by its status.
pub(in crate::provider) fn of_probe(answer: &Answer) -> Health {
    let judgement = by_status(UnknownOutcome::Resend, answer, false);
    match judgement.class {
        // What is wrong with a request that has no message says nothing of those that have one.
        Class::UnfitHere | Class::MessageRejected | Class::RecipientRejected | Class::Deferred => Health::Neutral,
        _ => judgement.health(answer),
    }
}

/// The words for an answer that has none of its own.
fn describe(answer: &Answer) -> String {
    match answer.status {
        300..400 => "a redirect, which is not followed".to_owned(),
        _ if answer.is_broken() => "the answer broke off".to_owned(),
        _ if answer.is_page() => "a web page in place of an answer".to_owned(),
        // What an accepting provider says beside the id is of no use to anybody; a plain-text error is.
        200..300 => String::new(),
        _ => String::from_utf8_lossy(answer.bytes()).into_owned(),
    }
}
