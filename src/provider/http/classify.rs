//! What an answer means: a verdict for each recipient, and apart from it what it says of the gateway.
//!
//! Owns the table of `deploy/gateway/openapi.yaml` as code; pure. An attempt without an answer is judged by
//! the machinery that all HTTP APIs share.

use super::report::{Fate, Refusal, Report};
use crate::{
    delivery::{Class, Health, Outcome, Scope, Verdict},
    message::RecipientIndex,
    provider::web::{Answer, Asked, Judgement, after_an_internal_error, by_status},
};

/// Judges an answer. The body's own word, where it has one, outranks the status: the gateway knows more than three
/// digits tell.
pub(super) fn classify(asked: &Asked<'_>, answer: &Answer) -> Outcome {
    let read = Report::read(answer.bytes());
    let judgement = judge(asked, answer, read.as_ref());
    let health = judgement.health(answer);
    let general = judgement.verdict(answer);
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
    let by_status = || by_status(asked.unknown_outcome, answer, report.is_some());
    // Whoever redirects is not the gateway, whatever it says.
    if (300..400).contains(&answer.status) {
        return by_status();
    }
    let Some(report) = report else { return by_status() };
    let judgement = match &report.refusal {
        None if answer.is_page() => by_status(),
        None => by_status().said(None, ""),
        Some(refusal) => refused(asked, answer, refusal).said(refusal.code.clone(), &refusal.detail),
    };
    // A gateway that knows its keys answers as it should.
    let knows_the_key = answer.status == 409 && judgement.class == Class::OutcomeUnknown;
    if knows_the_key { judgement.while_it_is(Health::Healthy) } else { judgement }
}

fn refused(asked: &Asked<'_>, answer: &Answer, refusal: &Refusal) -> Judgement {
    match refusal.class {
        Some(Class::Misconfigured) if refusal.about_sender_domain => {
            Judgement::new(Class::Misconfigured).about(Scope::SenderDomain)
        }
        Some(class) => Judgement::new(class),
        None if (200..300).contains(&answer.status) => after_an_internal_error(asked.unknown_outcome),
        None => by_status(asked.unknown_outcome, answer, true),
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
    let Judgement { class, scope, .. } = Judgement::new(class);
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
    let Judgement { class, scope, .. } = Judgement::new(fate.class);
    let code = fate.code.clone().unwrap_or_else(|| status.to_string());
    Verdict::new(class, scope, code, &fate.detail)
}

#[cfg(test)]
mod tests;
