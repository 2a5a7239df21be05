//! What each reply and each end means, stage by stage: for the recipients and, apart from them, for the provider.
//!
//! Every row is sent to a server over a socket twice: to one that answers command by command, and to one that takes them
//! in groups. Both must come to the same.

use postrider::{
    config::SmtpProvider as Settings,
    delivery::{
        Class::{self, *},
        Health, Outcome,
        Scope::{self, *},
    },
    provider::Provider,
};

use super::{
    impatient, message, message_to, provider, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
};

const HEALTHY: Health = Health::Healthy;
const FAILING: Health = Health::Failing { retry_after: None };
const RESTING: Health = Health::Resting { retry_after: None };
const ACCOUNT: Health = Health::Misconfigured;
const SENDER: Health = Health::MisconfiguredForSenderDomain;

/// A reply at a stage, and what it means.
type Row = (&'static str, &'static str, Class, Scope, Health);

const BEFORE_A_MESSAGE: [Row; 14] = [
    ("banner", "421 4.3.2 not now", Unavailable, Scope::Provider, FAILING),
    ("banner", "450 not now", Unavailable, Scope::Provider, FAILING),
    ("banner", "554 5.7.1 your address is blocked", Misconfigured, Account, ACCOUNT),
    ("EHLO", "421 not now", Unavailable, Scope::Provider, FAILING),
    ("EHLO", "451 local error", Unavailable, Scope::Provider, FAILING),
    ("EHLO", "550 5.7.1 bad name", Misconfigured, Account, ACCOUNT),
    ("AUTH", "535 5.7.8 wrong", Misconfigured, Account, ACCOUNT),
    ("AUTH", "534 5.7.9 too weak", Misconfigured, Account, ACCOUNT),
    ("AUTH", "530 5.7.0 TLS first", Misconfigured, Account, ACCOUNT),
    ("AUTH", "538 5.7.11 encryption is required", Misconfigured, Account, ACCOUNT),
    ("AUTH", "504 5.5.4 no such mechanism", Misconfigured, Account, ACCOUNT),
    ("AUTH", "454 4.7.0 later", Unavailable, Scope::Provider, FAILING),
    ("AUTH", "421 4.7.0 later", Unavailable, Scope::Provider, FAILING),
    ("AUTH", "432 4.7.12 a new password is needed", Unavailable, Scope::Provider, FAILING),
];

const AT_MAIL: [Row; 20] = [
    ("MAIL", "550 5.1.7 bad sender", Misconfigured, SenderDomain, SENDER),
    ("MAIL", "553 5.1.8 no such domain", Misconfigured, SenderDomain, SENDER),
    ("MAIL", "550 5.7.1 not owner", Misconfigured, SenderDomain, SENDER),
    ("MAIL", "553 5.7.1 not owner", Misconfigured, SenderDomain, SENDER),
    ("MAIL", "550 sender rejected", Misconfigured, SenderDomain, SENDER),
    ("MAIL", "550 no", UnfitHere, MessageAtProvider, HEALTHY),
    ("MAIL", "552 5.3.4 too large", UnfitHere, MessageAtProvider, HEALTHY),
    ("MAIL", "555 5.5.4 parameters", UnfitHere, MessageAtProvider, HEALTHY),
    ("MAIL", "530 5.7.0 authentication required", Misconfigured, Account, ACCOUNT),
    ("MAIL", "503 5.5.1 out of order", Unavailable, Scope::Provider, FAILING),
    ("MAIL", "421 too many", Throttled, Scope::Provider, RESTING),
    ("MAIL", "454 Throttling failure: Maximum sending rate exceeded.", Throttled, Scope::Provider, RESTING),
    ("MAIL", "454 Throttling failure: Daily message quota exceeded.", QuotaUsedUp, Account, RESTING),
    ("MAIL", "450 not now", Unavailable, Scope::Provider, FAILING),
    ("MAIL", "451 4.3.0 queue error", Unavailable, Scope::Provider, FAILING),
    ("MAIL", "451 4.4.1 no answer", Unavailable, Scope::Provider, FAILING),
    ("MAIL", "421 4.3.2 going down", Unavailable, Scope::Provider, FAILING),
    ("MAIL", "450 4.7.1 greylisted", Deferred, RecipientAtProvider, HEALTHY),
    ("MAIL", "450 4.2.0 greylisted", Deferred, RecipientAtProvider, HEALTHY),
    ("MAIL", "452 4.3.1 no space", Unavailable, Scope::Provider, FAILING),
];

const AT_RCPT: [Row; 26] = [
    ("RCPT", "550 user unknown", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "550 5.1.1 user unknown", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "550 5.1.2 no such domain", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "501 5.1.3 bad address", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "550 5.1.6 moved", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "556 5.1.10 null MX", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "550 5.2.1 disabled", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "552 5.2.2 full", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "554 5.7.1 policy", RecipientRejected, Recipient, HEALTHY),
    ("RCPT", "452 4.2.2 full", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "450 4.2.0 greylisted", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "451 4.7.1 greylisted", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "450 4.1.1 not verified yet", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "450 later", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "452 4.5.3 too many recipients", Deferred, RecipientAtProvider, HEALTHY),
    ("RCPT", "451 4.3.0 queue error", Unavailable, Scope::Provider, FAILING),
    ("RCPT", "451 4.4.3 name server", Unavailable, Scope::Provider, FAILING),
    ("RCPT", "554 5.7.1 Relay access denied", Misconfigured, Account, ACCOUNT),
    ("RCPT", "454 4.7.1 Relay access denied", Misconfigured, Account, ACCOUNT),
    ("RCPT", "550 relay not permitted", Misconfigured, Account, ACCOUNT),
    ("RCPT", "553 5.7.1 Sender address rejected: not owned by user", Misconfigured, SenderDomain, SENDER),
    ("RCPT", "421 too many", Throttled, Scope::Provider, RESTING),
    ("RCPT", "454 Throttling failure: Maximum sending rate exceeded.", Throttled, Scope::Provider, RESTING),
    ("RCPT", "454 Daily message quota exceeded", QuotaUsedUp, Account, RESTING),
    ("RCPT", "550 5.4.5 Daily sending limit exceeded", QuotaUsedUp, Account, RESTING),
    ("RCPT", "503 5.5.1 out of order", Unavailable, Scope::Provider, FAILING),
];

const AT_THE_CONTENT: [Row; 25] = [
    ("DATA", "450 later", Deferred, RecipientAtProvider, HEALTHY),
    ("DATA", "451 4.3.0 queue error", Unavailable, Scope::Provider, FAILING),
    ("DATA", "421 too many", Throttled, Scope::Provider, RESTING),
    ("DATA", "554 5.7.0 limit exceeded", QuotaUsedUp, Account, RESTING),
    ("DATA", "554 no", UnfitHere, MessageAtProvider, HEALTHY),
    (".", "450 later", Deferred, RecipientAtProvider, HEALTHY),
    (".", "421 later", Deferred, RecipientAtProvider, HEALTHY),
    (".", "451 4.7.1 later", Deferred, RecipientAtProvider, HEALTHY),
    (".", "452 4.2.2 full", Deferred, RecipientAtProvider, HEALTHY),
    (".", "451 4.3.0 queue error", Unavailable, Scope::Provider, FAILING),
    (".", "421 4.4.2 timeout", Unavailable, Scope::Provider, FAILING),
    (".", "454 Throttling failure: Maximum sending rate exceeded.", Throttled, Scope::Provider, RESTING),
    (".", "550 5.6.0 bad MIME", MessageRejected, Scope::Message, HEALTHY),
    (".", "554 5.6.2 conversion", MessageRejected, Scope::Message, HEALTHY),
    (".", "554 transaction failed", MessageRejected, Scope::Message, HEALTHY),
    (".", "550 no", MessageRejected, Scope::Message, HEALTHY),
    (".", "552 too large", UnfitHere, MessageAtProvider, HEALTHY),
    (".", "554 5.3.4 too large", UnfitHere, MessageAtProvider, HEALTHY),
    (".", "554 5.2.3 too large for the mailbox", UnfitHere, MessageAtProvider, HEALTHY),
    (".", "554 5.7.1 spam", UnfitHere, MessageAtProvider, HEALTHY),
    (".", "550 5.7.26 unauthenticated", Misconfigured, SenderDomain, SENDER),
    (".", "550 5.7.23 SPF", Misconfigured, SenderDomain, SENDER),
    (".", "554 5.7.0 limit exceeded", QuotaUsedUp, Account, RESTING),
    (".", "530 5.7.0 authentication required", Misconfigured, Account, ACCOUNT),
    (".", "503 5.5.1 no valid recipients", Unavailable, Scope::Provider, FAILING),
];

/// Sends to a server of each sort that follows the script, and gives the outcome, the same from both.
async fn outcome(script: Script, settings: impl Fn(std::net::SocketAddr) -> Settings, locals: &[&str]) -> Outcome {
    let mut outcomes = Vec::new();
    for script in [script.clone(), script.pipelining()] {
        let peer = SmtpPeer::start([script]).await;
        outcomes.push(provider(&settings(peer.address)).send(message_to(locals, "Hello\r\n")).await);
    }
    assert_eq!(outcomes[0], outcomes[1], "with groups of commands it is another");
    outcomes.remove(0)
}

/// Class and scope of each recipient, in their order.
fn meanings(outcome: &Outcome) -> Vec<(Class, Scope)> {
    let mut verdicts: Vec<_> = outcome.verdicts.iter().collect();
    verdicts.sort_by_key(|(recipient, _)| *recipient);
    verdicts.into_iter().map(|(_, verdict)| (verdict.class, verdict.scope)).collect()
}

fn login_where_it_is_about_that(moment: &'static str) -> impl Fn(std::net::SocketAddr) -> Settings {
    move |address| Settings { username: (moment == "AUTH").then(|| "user".to_owned()), ..settings(address) }
}

/// The code as the reply has it: three digits, and the enhanced code where it begins the text.
fn code(reply: &str) -> String {
    let (digits, text) = reply.split_once(' ').unwrap_or((reply, ""));
    let word = text.split(' ').next().unwrap_or_default();
    let is_enhanced = word.split('.').count() == 3 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_enhanced { format!("{digits} {word}") } else { digits.to_owned() }
}

async fn check(rows: &[Row]) {
    for &(moment, reply, class, scope, health) in rows {
        let script = Script::default().on(moment, say(reply));
        let outcome = outcome(script, login_where_it_is_about_that(moment), &["one"]).await;
        assert_eq!(meanings(&outcome), [(class, scope)], "{moment}: {reply}");
        assert_eq!(outcome.health, health, "{moment}: {reply}");
        assert_eq!(outcome.verdicts[0].1.code, code(reply), "{moment}: {reply}");
    }
}

#[tokio::test]
async fn a_refusal_before_a_message_is_about_the_server_or_our_account() {
    check(&BEFORE_A_MESSAGE).await;
}

#[tokio::test]
async fn a_refusal_of_mail_is_about_the_sender_the_message_or_the_server() {
    check(&AT_MAIL).await;
}

#[tokio::test]
async fn a_refusal_of_the_only_recipient_says_what_it_says_of_the_server() {
    check(&AT_RCPT).await;
}

#[tokio::test]
async fn a_refusal_of_the_content_is_about_the_message_here_or_everywhere() {
    check(&AT_THE_CONTENT).await;
}

#[tokio::test]
async fn a_refusal_before_or_after_the_recipients_is_the_same_for_each() {
    let rows = BEFORE_A_MESSAGE.iter().chain(&AT_MAIL).chain(&AT_THE_CONTENT);
    for &(moment, reply, class, scope, health) in rows {
        let script = Script::default().on(moment, say(reply));
        let outcome = outcome(script, login_where_it_is_about_that(moment), &["one", "two", "three"]).await;
        assert_eq!(meanings(&outcome), [(class, scope); 3], "{moment}: {reply}");
        assert_eq!(outcome.health, health, "{moment}: {reply}");
    }
}

#[tokio::test]
async fn a_refused_recipient_of_three_is_refused_alone_and_says_nothing_of_a_server_that_took_the_others() {
    let taken = (Accepted, Recipient);
    // What ends the conversation, or asks for another envelope, is not about one recipient.
    let is_about_one = |reply: &str| !reply.starts_with("421") && !reply.contains("4.5.3");
    for &(_, reply, class, scope, health) in AT_RCPT.iter().filter(|(_, reply, ..)| is_about_one(reply)) {
        let script = Script::default().on("RCPT TO:<two", say(reply));
        let outcome = outcome(script, settings, &["one", "two", "three"]).await;
        assert_eq!(meanings(&outcome), [taken, (class, scope), taken], "{reply}");
        let expected = if health == RESTING { RESTING } else { HEALTHY };
        assert_eq!(outcome.health, expected, "{reply}");
        assert_eq!(outcome.provider_message_id.as_deref(), Some("PEER1234"), "{reply}");
    }
}

#[tokio::test]
async fn a_421_at_a_recipient_is_for_all_that_were_not_refused_before() {
    let script = Script::default().on("RCPT TO:<one", say("550 5.1.1 no")).on("RCPT TO:<three", say("421 too many"));
    let outcome = outcome(script, settings, &["one", "two", "three", "four"]).await;
    let busy = (Throttled, Scope::Provider);
    assert_eq!(meanings(&outcome), [(RecipientRejected, Recipient), busy, busy, busy]);
    assert_eq!(outcome.health, RESTING);
}

#[tokio::test]
async fn an_end_without_a_reply_is_definite_before_the_final_dot_and_unknown_after_it() {
    for moment in ["banner", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "."] {
        for (act, code) in [(Act::Close, "eof"), (Act::Silence, "timeout"), (say("nonsense"), "garbled")] {
            let patience = |address| Settings {
                username: (moment == "AUTH").then(|| "user".to_owned()),
                ..if code == "timeout" { impatient(address) } else { settings(address) }
            };
            let outcome = outcome(Script::default().on(moment, act), patience, &["one", "two"]).await;
            let expected = if moment == "." { (OutcomeUnknown, Wire) } else { (Unavailable, Scope::Provider) };
            assert_eq!(meanings(&outcome), [expected; 2], "{moment}: {code}");
            assert_eq!((outcome.verdicts[0].1.code.as_str(), outcome.health), (code, FAILING), "{moment}");
        }
    }
}

#[tokio::test]
async fn what_was_accepted_stays_so_whatever_becomes_of_quit() {
    for act in [Act::Close, Act::Silence, say("421 no"), say("nonsense")] {
        let peer = SmtpPeer::start([Script::default().on("QUIT", act)]).await;
        let once = Settings { messages_per_connection: 1, ..settings(peer.address) };
        let outcome = provider(&once).send(message()).await;
        assert_eq!((meanings(&outcome), outcome.health), (vec![(Accepted, Recipient)], HEALTHY));
        peer.wait(|seen| seen.commands[0].last().is_some_and(|command| command == "QUIT")).await;
    }
}
