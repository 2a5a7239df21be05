//! What an answer means: a verdict for each recipient, and apart from it what it says of the gateway.
//!
//! Owns the table of `deploy/gateway/openapi.yaml` as code; pure. An attempt without an answer is judged by
//! [`super::failure`].

use std::time::{Duration, SystemTime};

use super::{
    answer::Answer,
    report::{Fate, Refusal, Report},
    retry_after::retry_after,
};
use crate::{
    delivery::{Class, Health, Outcome, Scope, Verdict},
    message::{RecipientIndex, UnknownOutcome},
};

/// What was asked of the gateway.
pub(super) struct Asked<'a> {
    /// The recipients in the envelope, with their addresses.
    pub(super) recipients: Vec<(RecipientIndex, &'a str)>,
    /// What the caller wants done when nobody can know.
    pub(super) unknown_outcome: UnknownOutcome,
}

/// What the answer means for the message as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judgement {
    class: Class,
    scope: Scope,
}

/// Judges an answer. The body's own word, where it has one, outranks the status: the gateway knows more than three
/// digits tell. `now` is the local clock, for a Retry-After that is a date.
pub(super) fn classify(asked: &Asked<'_>, answer: &Answer, now: SystemTime) -> Outcome {
    let read = Report::read(answer.bytes());
    let judgement = judge(asked, answer, read.as_ref());
    let health = health(judgement, answer, read.is_some(), retry_after(&answer.headers, now));
    let general = general_verdict(judgement, answer, read.as_ref());
    let report = read.unwrap_or_default();
    let rest = verdict_of_the_rest(asked, &report, general);
    let verdicts = asked
        .recipients
        .iter()
        .map(|&(index, address)| {
            let fate = report.fates.iter().find(|fate| is_about(fate, index, address));
            (index, fate.map_or_else(|| rest.clone(), |fate| verdict_of(fate, answer.status)))
        })
        .collect();
    Outcome { verdicts, provider_message_id: report.id, health }
}

fn judge(asked: &Asked<'_>, answer: &Answer, report: Option<&Report>) -> Judgement {
    if (300..400).contains(&answer.status) {
        return Judgement::new(Class::Misconfigured).about(Scope::Provider);
    }
    let refusal = report.and_then(|report| report.refusal.as_ref());
    if let Some(Refusal { class: Some(class), about_sender_domain, .. }) = refusal {
        let named = Judgement::new(*class);
        let of_domain = *about_sender_domain && *class == Class::Misconfigured;
        return if of_domain { named.about(Scope::SenderDomain) } else { named };
    }
    if !(200..300).contains(&answer.status) {
        return judge_status(asked, answer, report.is_some());
    }
    match refusal {
        Some(_) => after_an_internal_error(asked),
        None if answer.is_broken() => Judgement::new(Class::OutcomeUnknown),
        None if answer.is_page() => Judgement::new(Class::Misconfigured).about(Scope::Provider),
        None => Judgement::new(Class::Accepted),
    }
}

/// What a status other than 2xx and 3xx means where the body does not say more.
fn judge_status(asked: &Asked<'_>, answer: &Answer, documented: bool) -> Judgement {
    match answer.status {
        // Without a documented body it may be a proxy that speaks, and nobody said that other providers would refuse
        // the message too.
        400 | 422 if answer.is_page() => Judgement::new(Class::Misconfigured).about(Scope::Provider),
        400 | 422 if documented => Judgement::new(Class::MessageRejected),
        400 | 422 => Judgement::new(Class::UnfitHere),
        401 | 403 | 407 | 511 => Judgement::new(Class::Misconfigured),
        402 => Judgement::new(Class::QuotaUsedUp),
        404 | 405 | 406 | 410 | 411 | 415 | 421 | 426 | 501 | 505 => {
            Judgement::new(Class::Misconfigured).about(Scope::Provider)
        }
        // By RFC 9110 the server did not read the whole request, but some say it when they waited for another server.
        408 => after_an_internal_error(asked),
        // The key is being processed or was used for something else: in either case the gateway may have the message.
        409 => Judgement::new(Class::OutcomeUnknown),
        425 => Judgement::new(Class::Unavailable),
        429 => Judgement::new(Class::Throttled),
        400..500 => Judgement::new(Class::UnfitHere),
        500 => after_an_internal_error(asked),
        503 => Judgement::new(Class::Unavailable),
        // 502 and 504 come from something between us and the gateway, which may have passed the message on. What else
        // there is nobody has defined.
        _ => Judgement::new(Class::OutcomeUnknown),
    }
}

/// A gateway that says it failed has most likely not sent the message, but does not promise it: the caller decides.
fn after_an_internal_error(asked: &Asked<'_>) -> Judgement {
    match asked.unknown_outcome {
        UnknownOutcome::Resend => Judgement::new(Class::Unavailable),
        UnknownOutcome::Hold => Judgement::new(Class::OutcomeUnknown),
    }
}

impl Judgement {
    /// A class, about what it usually is about.
    fn new(class: Class) -> Self {
        let scope = match class {
            Class::Accepted | Class::RecipientRejected => Scope::Recipient,
            Class::MessageRejected => Scope::Message,
            Class::UnfitHere => Scope::MessageAtProvider,
            Class::Deferred => Scope::RecipientAtProvider,
            Class::Unavailable | Class::Throttled => Scope::Provider,
            Class::QuotaUsedUp | Class::Misconfigured => Scope::Account,
            Class::OutcomeUnknown => Scope::Wire,
        };
        Self { class, scope }
    }

    fn about(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }
}

fn general_verdict(judgement: Judgement, answer: &Answer, report: Option<&Report>) -> Verdict {
    let refusal = report.and_then(|report| report.refusal.as_ref());
    let code = match refusal.and_then(|refusal| refusal.code.as_ref()) {
        Some(code) => format!("{} {code}", answer.status),
        None => answer.status.to_string(),
    };
    let detail = match refusal {
        Some(refusal) if !refusal.detail.is_empty() => refusal.detail.clone(),
        _ => describe(answer, report.is_some()),
    };
    Verdict::new(judgement.class, judgement.scope, code, &detail)
}

/// The words for an answer that has none of its own.
fn describe(answer: &Answer, documented: bool) -> String {
    match answer.status {
        300..400 => "a redirect, which is not followed".to_owned(),
        _ if answer.is_broken() => "the answer broke off".to_owned(),
        _ if answer.is_page() => "a web page in place of an answer".to_owned(),
        // What an accepting gateway says beside the id is of no use to anybody; a plain-text error is.
        200..300 => String::new(),
        _ if documented => String::new(),
        _ => String::from_utf8_lossy(answer.bytes()).into_owned(),
    }
}

/// The verdict of the recipients that the answer does not name.
///
/// A refusal that names whom it is about leaves the others without blame: they are offered to the same gateway again,
/// without those. One that is about a recipient and does not say whom leaves it to the next provider to tell.
fn verdict_of_the_rest(asked: &Asked<'_>, report: &Report, general: Verdict) -> Verdict {
    let names_a_rejected = report.fates.iter().any(|fate| fate.class == Class::RecipientRejected);
    let says_all = report.refusal.as_ref().is_some_and(|refusal| refusal.class == Some(Class::MessageRejected));
    let class = match general.class {
        Class::RecipientRejected | Class::MessageRejected if names_a_rejected && !says_all => Class::Deferred,
        Class::RecipientRejected if asked.recipients.len() > 1 => Class::UnfitHere,
        _ => return general,
    };
    let Judgement { class, scope } = Judgement::new(class);
    Verdict { class, scope, ..general }
}

fn is_about(fate: &Fate, index: RecipientIndex, address: &str) -> bool {
    match (fate.index, &fate.address) {
        (Some(named), _) => named == u64::from(index.0),
        (None, Some(named)) => named.eq_ignore_ascii_case(address),
        (None, None) => false,
    }
}

fn verdict_of(fate: &Fate, status: u16) -> Verdict {
    let Judgement { class, scope } = Judgement::new(fate.class);
    let code = fate.code.clone().unwrap_or_else(|| status.to_string());
    Verdict::new(class, scope, code, &fate.detail)
}

fn health(judgement: Judgement, answer: &Answer, documented: bool, retry_after: Option<Duration>) -> Health {
    match judgement.class {
        Class::Throttled | Class::QuotaUsedUp => Health::Resting { retry_after },
        Class::Misconfigured if judgement.scope == Scope::SenderDomain => Health::MisconfiguredForSenderDomain,
        Class::Misconfigured => Health::Misconfigured,
        // A gateway that knows its keys answers as it should.
        Class::OutcomeUnknown if answer.status == 409 && documented => Health::Healthy,
        Class::Unavailable | Class::OutcomeUnknown => Health::Failing { retry_after },
        // The status was enough to judge the message, but a gateway that does not end its answers is not well.
        _ if answer.is_broken() => Health::Failing { retry_after },
        _ => Health::Healthy,
    }
}

#[cfg(test)]
mod tests;
