//! What a fault means for the message, and apart from it what it says of the provider.
//!
//! Pure: owns the rules and nothing of the conversation. Where two rules fit a reply, the one about its stage comes
//! first, then the enhanced code, then the three digits, and words only where no code tells.

use super::{
    fault::{Cause, Decline, Fault, Loss, Stage},
    reply::Reply,
};
use crate::delivery::{Class, Health, Scope, Verdict};

/// What an end of a conversation means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// For the recipients it is about.
    pub(super) verdict: Verdict,
    /// For the provider.
    pub(super) health: Health,
}

type Meaning = (Class, Scope);

const RECIPIENT_REJECTED: Meaning = (Class::RecipientRejected, Scope::Recipient);
const MESSAGE_REJECTED: Meaning = (Class::MessageRejected, Scope::Message);
const UNFIT_HERE: Meaning = (Class::UnfitHere, Scope::MessageAtProvider);
const DEFERRED: Meaning = (Class::Deferred, Scope::RecipientAtProvider);
const UNAVAILABLE: Meaning = (Class::Unavailable, Scope::Provider);
const THROTTLED: Meaning = (Class::Throttled, Scope::Provider);
const QUOTA: Meaning = (Class::QuotaUsedUp, Scope::Account);
const ACCOUNT: Meaning = (Class::Misconfigured, Scope::Account);
const SENDER_DOMAIN: Meaning = (Class::Misconfigured, Scope::SenderDomain);
const UNKNOWN: Meaning = (Class::OutcomeUnknown, Scope::Wire);

/// What the reply to the final dot means when it says that the message was taken.
pub(super) fn accepted(reply: &Reply) -> Judgement {
    let verdict = Verdict::new(Class::Accepted, Scope::Recipient, reply.code_text(), &reply.text());
    Judgement { verdict, health: Health::Healthy }
}

/// What a fault means.
pub(super) fn judge(fault: &Fault) -> Judgement {
    let (meaning, code, detail) = match &fault.cause {
        Cause::Reply(reply) => (refusal(fault.stage, reply), reply.code_text(), reply.text()),
        Cause::Lost(loss) => (lost(fault.stage, *loss), loss.code().to_owned(), loss.words(fault.stage)),
        Cause::Declined(decline) => (declined(decline), decline.code().to_owned(), decline.words().to_owned()),
    };
    let health = match &fault.cause {
        Cause::Declined(Decline::TooLate | Decline::UnsafeContent) => Health::Neutral,
        _ => health(meaning),
    };
    Judgement { verdict: Verdict::new(meaning.0, meaning.1, code, &detail), health }
}

/// Whether a refused RCPT only says that this envelope is full (RFC 5321, sections 4.5.3.1.8 and 4.5.3.1.10).
pub(super) fn is_envelope_full(reply: &Reply) -> bool {
    let says_so = reply.subject_and_detail() == Some((5, 3)) || contains(reply, &["too many recipients"]);
    matches!(reply.code, 452 | 552) && says_so
}

/// The one of two states of health that matters more.
pub(super) fn worse(one: Health, other: Health) -> Health {
    let weight = |health| match health {
        Health::Neutral => 0,
        Health::Healthy => 1,
        Health::Resting { .. } => 2,
        Health::MisconfiguredForSenderDomain => 3,
        Health::Misconfigured => 4,
        Health::Failing { .. } => 5,
    };
    if weight(other) > weight(one) { other } else { one }
}

fn health((class, scope): Meaning) -> Health {
    match (class, scope) {
        (Class::Unavailable | Class::OutcomeUnknown, _) => Health::Failing { retry_after: None },
        (Class::Throttled | Class::QuotaUsedUp, _) => Health::Resting { retry_after: None },
        (Class::Misconfigured, Scope::SenderDomain) => Health::MisconfiguredForSenderDomain,
        (Class::Misconfigured, _) => Health::Misconfigured,
        _ => Health::Healthy,
    }
}

/// Once the final dot may have left, nobody can know; before, the server has no message.
fn lost(stage: Stage, loss: Loss) -> Meaning {
    match (stage, loss) {
        (Stage::FinalDot, _) => UNKNOWN,
        (_, Loss::Credentials) => ACCOUNT,
        _ => UNAVAILABLE,
    }
}

fn declined(decline: &Decline) -> Meaning {
    match decline {
        Decline::NoStartTls | Decline::BadTls(_) | Decline::Injected | Decline::NoMechanism | Decline::ClearText => {
            ACCOUNT
        }
        Decline::TooLarge | Decline::NeedsSmtpUtf8 | Decline::UnsafeContent => UNFIT_HERE,
        Decline::UnsafeAddress => (Class::UnfitHere, Scope::RecipientAtProvider),
        Decline::TooLate => UNAVAILABLE,
    }
}

fn refusal(stage: Stage, reply: &Reply) -> Meaning {
    match (stage, reply.is_temporary()) {
        (Stage::Connect | Stage::Banner | Stage::Hello | Stage::Tls | Stage::Auth, true) => UNAVAILABLE,
        (Stage::Connect | Stage::Banner | Stage::Hello | Stage::Tls | Stage::Auth, false) => ACCOUNT,
        (_, true) => refused_for_now(stage, reply),
        (_, false) => at_any_stage(reply).unwrap_or_else(|| match stage {
            Stage::Mail => mail_refused(reply),
            Stage::Rcpt => recipient_refused(reply),
            Stage::Data => data_refused(reply),
            _ => content_refused(reply),
        }),
    }
}

/// A 4yz once a message is on the table.
fn refused_for_now(stage: Stage, reply: &Reply) -> Meaning {
    let before_content = matches!(stage, Stage::Mail | Stage::Rcpt | Stage::Data);
    match reply.code {
        _ if speaks_of_daily_quota(reply) => QUOTA,
        454 if contains(reply, &["throttl", "sending rate"]) => THROTTLED,
        // A relay whose own insides are broken must not hold the mail. Not all of them say so by an enhanced code.
        _ if reply.is_about(3) || reply.is_about(4) => UNAVAILABLE,
        451 if reply.subject_and_detail().is_none() && contains(reply, &["local problem", "local error"]) => {
            UNAVAILABLE
        }
        421 if before_content => THROTTLED,
        // Postfix says it with a 4yz by default, so that a mistake in its settings costs no mail. Greylisting speaks of
        // relays and of rejection too.
        _ if stage == Stage::Rcpt && contains(reply, &["relay access denied", "relaying denied"]) => ACCOUNT,
        _ if reply.is_about(2) || reply.is_about(7) => DEFERRED,
        _ if stage == Stage::Mail => UNAVAILABLE,
        _ => DEFERRED,
    }
}

/// The 5yz that mean the same wherever a server chooses to say them: many refuse sender and client only at RCPT.
fn at_any_stage(reply: &Reply) -> Option<Meaning> {
    let by_enhanced_code = match reply.subject_and_detail() {
        Some((1, 7 | 8)) => Some(SENDER_DOMAIN),
        Some((7, 8 | 9)) => Some(ACCOUNT),
        // Sender authentication (RFC 7372, section 3); 5.7.25 is the reverse name of our own address.
        Some((7, 20..=24 | 26)) => Some(SENDER_DOMAIN),
        Some((7, 25)) => Some(ACCOUNT),
        Some((3, 4)) => Some(UNFIT_HERE),
        _ => None,
    };
    by_enhanced_code.or_else(|| match reply.code {
        530 | 534 | 535 | 538 => Some(ACCOUNT),
        // A fresh connection is out of step too: something at the server is.
        503 => Some(UNAVAILABLE),
        _ if speaks_of_daily_quota(reply) => Some(QUOTA),
        _ if reply.is_about(7) && contains(reply, &["client host"]) => Some(ACCOUNT),
        _ => None,
    })
}

fn mail_refused(reply: &Reply) -> Meaning {
    const SENDER: [&str; 7] =
        ["sender", "mail from", "from address", "return path", "return-path", "originator", "not owned"];
    match reply.code {
        552 => UNFIT_HERE,
        550 | 553 if reply.subject_and_detail() == Some((7, 1)) => SENDER_DOMAIN,
        // At MAIL an address can only be the sender's.
        553 => SENDER_DOMAIN,
        _ if reply.is_about(1) || contains(reply, &SENDER) => SENDER_DOMAIN,
        _ => UNFIT_HERE,
    }
}

fn recipient_refused(reply: &Reply) -> Meaning {
    if reply.is_about(1) || reply.is_about(2) {
        return RECIPIENT_REJECTED;
    }
    if is_envelope_full(reply) {
        return DEFERRED;
    }
    if is_relay_denied(reply) {
        return ACCOUNT;
    }
    if reply.is_about(7) && contains(reply, &["sender address"]) {
        return SENDER_DOMAIN;
    }
    RECIPIENT_REJECTED
}

/// Whether it does not relay for us, whoever the recipient is.
fn is_relay_denied(reply: &Reply) -> bool {
    const DENIED: [&str; 8] =
        ["denied", "not permitted", "not allowed", "prohibited", "unable", "cannot", "reject", "disallowed"];
    !reply.is_about(1) && !reply.is_about(2) && contains(reply, &["relay"]) && contains(reply, &DENIED)
}

/// The command DATA was refused: the server has not seen the content, so another may well take it.
fn data_refused(reply: &Reply) -> Meaning {
    if is_limit_exceeded(reply) { QUOTA } else { UNFIT_HERE }
}

fn content_refused(reply: &Reply) -> Meaning {
    match reply.subject_and_detail() {
        Some((6, _)) => MESSAGE_REJECTED,
        Some((2, 3) | (7, 1)) => UNFIT_HERE,
        _ if reply.code == 552 => UNFIT_HERE,
        _ if is_limit_exceeded(reply) => QUOTA,
        _ => MESSAGE_REJECTED,
    }
}

fn is_limit_exceeded(reply: &Reply) -> bool {
    reply.code == 554 && reply.subject_and_detail() == Some((7, 0)) && contains(reply, &["limit exceeded"])
}

/// "Daily message quota exceeded" and its like. A full mailbox has a quota too, but not a daily one.
fn speaks_of_daily_quota(reply: &Reply) -> bool {
    !reply.is_about(2) && contains(reply, &["daily"]) && contains(reply, &["quota", "limit"])
}

/// Whether the reply has one of those words, in what is its own: an address that it repeats may be of any words.
fn contains(reply: &Reply, words: &[&str]) -> bool {
    let text = without_addresses(&reply.text().to_ascii_lowercase());
    words.iter().any(|word| text.contains(word))
}

fn without_addresses(text: &str) -> String {
    let mut own = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        own.push_str(before);
        rest = after.split_once('>').map_or("", |(_, after)| after);
    }
    own.push_str(rest);
    own.split_whitespace().filter(|word| !word.contains('@')).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
