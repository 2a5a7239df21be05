use super::*;
use crate::provider::smtp::fault::{Loss, Stage::*};

fn reply(line: &str) -> Reply {
    Reply::parse(format!("{line}\r\n").as_bytes()).expect("a reply").expect("its end").0
}

fn of_reply(stage: Stage, line: &str) -> Meaning {
    let judgement = judge(&Fault::reply(stage, reply(line)));
    (judgement.verdict.class, judgement.verdict.scope)
}

fn check(table: &[(Stage, &str, Meaning)]) {
    for (stage, line, expected) in table {
        assert_eq!(of_reply(*stage, line), *expected, "{stage:?}: {line}");
    }
}

#[test]
fn before_a_message_is_on_the_table_a_refusal_is_about_the_server_or_our_account() {
    check(&[
        (Banner, "421 too many connections", UNAVAILABLE),
        (Banner, "421 4.7.0 try again later", UNAVAILABLE),
        (Banner, "450 come back", UNAVAILABLE),
        (Banner, "554 5.7.1 your address is blocked", ACCOUNT),
        (Banner, "554 no", ACCOUNT),
        (Hello, "421 closing", UNAVAILABLE),
        (Hello, "451 local error", UNAVAILABLE),
        (Hello, "550 5.7.1 bad name", ACCOUNT),
        (Tls, "454 4.7.0 TLS not available", UNAVAILABLE),
        (Tls, "502 5.5.1 not implemented", ACCOUNT),
        (Auth, "535 5.7.8 authentication failed", ACCOUNT),
        (Auth, "534 5.7.9 mechanism too weak", ACCOUNT),
        (Auth, "530 must start TLS", ACCOUNT),
        (Auth, "538 encryption required", ACCOUNT),
        (Auth, "504 5.5.4 unrecognised mechanism", ACCOUNT),
        (Auth, "454 4.7.0 temporary authentication failure", UNAVAILABLE),
        (Auth, "421 closing", UNAVAILABLE),
        (Auth, "432 4.7.12 password transition needed", UNAVAILABLE),
    ]);
}

#[test]
fn a_refused_sender_is_about_the_sender_domain_or_the_message_at_this_provider() {
    check(&[
        (Mail, "550 5.1.7 bad sender address syntax", SENDER_DOMAIN),
        (Mail, "550 5.1.8 sender domain not found", SENDER_DOMAIN),
        (Mail, "550 5.7.1 not owner", SENDER_DOMAIN),
        (Mail, "553 5.7.1 sender address not owned by user", SENDER_DOMAIN),
        (Mail, "553 mailbox name not allowed", SENDER_DOMAIN),
        (Mail, "550 sender verify failed", SENDER_DOMAIN),
        (Mail, "501 5.1.0 bad address", SENDER_DOMAIN),
        (Mail, "552 5.3.4 message too big", UNFIT_HERE),
        (Mail, "552 too big", UNFIT_HERE),
        (Mail, "554 5.3.4 message too big", UNFIT_HERE),
        (Mail, "550 no", UNFIT_HERE),
        (Mail, "555 5.5.4 parameters not recognised", UNFIT_HERE),
        (Mail, "530 5.7.0 authentication required", ACCOUNT),
        (Mail, "535 5.7.8 no", ACCOUNT),
        (Mail, "503 5.5.1 bad sequence", UNAVAILABLE),
        (Mail, "421 closing", THROTTLED),
        (Mail, "421 4.7.0 too many messages", THROTTLED),
        (Mail, "421 4.3.2 shutting down", UNAVAILABLE),
        (Mail, "451 4.3.0 queue file write error", UNAVAILABLE),
        (Mail, "451 4.4.1 no answer from host", UNAVAILABLE),
        (Mail, "452 4.3.1 insufficient storage", UNAVAILABLE),
        (Mail, "451 local error", UNAVAILABLE),
        (Mail, "450 4.7.1 greylisted", DEFERRED),
        (Mail, "450 4.2.1 mailbox busy", DEFERRED),
        (Mail, "454 Throttling failure: Maximum sending rate exceeded.", THROTTLED),
        (Mail, "454 Throttling failure: Daily message quota exceeded.", QUOTA),
        (Mail, "454 4.7.0 Throttling failure: Maximum sending rate exceeded.", THROTTLED),
    ]);
}

#[test]
fn a_refused_recipient_is_finished_unless_the_refusal_is_not_about_it() {
    check(&[
        (Rcpt, "550 user unknown", RECIPIENT_REJECTED),
        (Rcpt, "550 5.1.1 user unknown", RECIPIENT_REJECTED),
        (Rcpt, "550 5.1.2 bad domain", RECIPIENT_REJECTED),
        (Rcpt, "501 5.1.3 bad syntax", RECIPIENT_REJECTED),
        (Rcpt, "550 5.1.6 mailbox has moved", RECIPIENT_REJECTED),
        (Rcpt, "556 5.1.10 null MX", RECIPIENT_REJECTED),
        (Rcpt, "550 5.2.1 mailbox disabled", RECIPIENT_REJECTED),
        (Rcpt, "552 5.2.2 mailbox full, quota exceeded", RECIPIENT_REJECTED),
        (Rcpt, "552 5.2.2 daily quota of the mailbox exceeded", RECIPIENT_REJECTED),
        (Rcpt, "554 5.7.1 rejected by policy", RECIPIENT_REJECTED),
        (Rcpt, "550 5.1.1 unable to relay, no such user", RECIPIENT_REJECTED),
        (Rcpt, "553 no", RECIPIENT_REJECTED),
        (Rcpt, "554 5.7.1 Relay access denied", ACCOUNT),
        (Rcpt, "550 relay not permitted", ACCOUNT),
        (Rcpt, "554 5.7.1 <joe@relay.example>: Recipient address rejected: Access denied", RECIPIENT_REJECTED),
        (Rcpt, "554 joe@relay.example access denied", RECIPIENT_REJECTED),
        (Rcpt, "554 5.7.1 <joe@shop.example>: Relay access denied", ACCOUNT),
        (Rcpt, "451 Temporary local problem - please try later", UNAVAILABLE),
        (Rcpt, "451 4.7.1 greylisted, a local problem of yours", DEFERRED),
        (Rcpt, "450 4.7.1 <joe@daily.example>: rate limit", DEFERRED),
        (Rcpt, "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain", ACCOUNT),
        (Rcpt, "530 5.7.0 authentication required", ACCOUNT),
        (Rcpt, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked", ACCOUNT),
        (Rcpt, "553 5.7.1 Sender address rejected: not owned by user", SENDER_DOMAIN),
        (Rcpt, "550 5.1.8 Sender address rejected: domain not found", SENDER_DOMAIN),
        (Rcpt, "552 5.3.4 message too big", UNFIT_HERE),
        (Rcpt, "454 4.7.1 <to@there.example>: Relay access denied", ACCOUNT),
        (Rcpt, "450 4.7.1 rejected for now: greylisted, a mail relay comes again", DEFERRED),
        (Rcpt, "450 4.2.0 greylisted", DEFERRED),
        (Rcpt, "451 4.7.1 greylisted", DEFERRED),
        (Rcpt, "452 4.2.2 mailbox full", DEFERRED),
        (Rcpt, "452 4.5.3 too many recipients", DEFERRED),
        (Rcpt, "552 too many recipients", DEFERRED),
        (Rcpt, "450 4.1.1 unverified", DEFERRED),
        (Rcpt, "450 later", DEFERRED),
        (Rcpt, "451 4.3.0 mail server temporarily rejected message", UNAVAILABLE),
        (Rcpt, "451 4.4.3 name server timeout", UNAVAILABLE),
        (Rcpt, "421 too many errors", THROTTLED),
        (Rcpt, "454 Throttling failure: Maximum sending rate exceeded.", THROTTLED),
        (Rcpt, "454 Daily message quota exceeded", QUOTA),
        (Rcpt, "550 5.4.5 Daily user sending limit exceeded", QUOTA),
        (Rcpt, "503 5.5.1 need MAIL", UNAVAILABLE),
    ]);
}

#[test]
fn a_refused_content_is_about_the_message_here_or_everywhere() {
    for stage in [Body, FinalDot] {
        check(&[
            (stage, "421 4.4.2 timeout", UNAVAILABLE),
            (stage, "421 closing", DEFERRED),
            (stage, "450 later", DEFERRED),
            (stage, "451 4.7.1 greylisted", DEFERRED),
            (stage, "452 4.2.2 full", DEFERRED),
            (stage, "451 4.3.0 queue error", UNAVAILABLE),
            (stage, "454 Throttling failure: Maximum sending rate exceeded.", THROTTLED),
            (stage, "550 5.6.0 bad MIME", MESSAGE_REJECTED),
            (stage, "552 5.6.0 bad MIME", MESSAGE_REJECTED),
            (stage, "554 5.6.2 conversion required", MESSAGE_REJECTED),
            (stage, "554 transaction failed", MESSAGE_REJECTED),
            (stage, "550 no", MESSAGE_REJECTED),
            (stage, "552 too big", UNFIT_HERE),
            (stage, "552 5.3.4 too big", UNFIT_HERE),
            (stage, "554 5.2.3 longer than the mailbox takes", UNFIT_HERE),
            (stage, "554 5.7.1 spam", UNFIT_HERE),
            (stage, "550 5.7.1 spam", UNFIT_HERE),
            (stage, "550 5.7.26 unauthenticated", SENDER_DOMAIN),
            (stage, "550 5.7.23 SPF", SENDER_DOMAIN),
            (stage, "554 5.7.0 limit exceeded", QUOTA),
            (stage, "554 5.7.0 no", MESSAGE_REJECTED),
            (stage, "503 5.5.1 no valid recipients", UNAVAILABLE),
        ]);
    }
    check(&[
        (Data, "554 5.5.1 no valid recipients", UNFIT_HERE),
        (Data, "554 5.7.0 limit exceeded", QUOTA),
        (Data, "451 4.3.0 queue error", UNAVAILABLE),
        (Data, "450 later", DEFERRED),
        (Data, "421 closing", THROTTLED),
    ]);
}

#[test]
fn a_lost_reply_is_unknown_only_after_the_final_dot() {
    let losses =
        [Loss::Resolve, Loss::Connect(std::io::ErrorKind::ConnectionRefused), Loss::Tls, Loss::Timeout, Loss::Eof]
            .into_iter()
            .chain([Loss::Reset, Loss::Garbled]);
    for loss in losses {
        for stage in [Connect, Banner, Hello, Tls, Auth, Mail, Rcpt, Data, Body, FinalDot] {
            let Judgement { verdict, health } = judge(&Fault::lost(stage, loss));
            let expected = if stage == FinalDot { UNKNOWN } else { UNAVAILABLE };
            assert_eq!((verdict.class, verdict.scope), expected, "{loss:?} at {stage:?}");
            assert_eq!(health, Health::Failing { retry_after: None }, "{loss:?} at {stage:?}");
            assert_eq!(verdict.code, loss.code());
        }
    }
}

#[test]
fn a_certificate_of_ours_that_is_refused_is_about_our_account() {
    for stage in [Tls, Hello] {
        let Judgement { verdict, health } = judge(&Fault::lost(stage, Loss::Credentials));
        assert_eq!((verdict.class, verdict.scope), ACCOUNT, "{stage:?}");
        assert_eq!((verdict.code.as_str(), health), ("tls", Health::Misconfigured), "{stage:?}");
    }
}

#[test]
fn health_follows_from_the_class_and_what_it_is_about() {
    let table = [
        (Rcpt, "550 user unknown", Health::Healthy),
        (Rcpt, "450 later", Health::Healthy),
        (FinalDot, "554 no", Health::Healthy),
        (FinalDot, "552 too big", Health::Healthy),
        (Mail, "451 4.3.0 no", Health::Failing { retry_after: None }),
        (Mail, "421 no", Health::Resting { retry_after: None }),
        (FinalDot, "554 5.7.0 limit exceeded", Health::Resting { retry_after: None }),
        (Auth, "535 no", Health::Misconfigured),
        (FinalDot, "550 5.7.26 no", Health::MisconfiguredForSenderDomain),
    ];
    for (stage, line, expected) in table {
        assert_eq!(judge(&Fault::reply(stage, reply(line))).health, expected, "{stage:?}: {line}");
    }
    assert_eq!(accepted(&reply("250 2.0.0 OK")).health, Health::Healthy);
}

#[test]
fn what_we_decline_says_whose_fault_it_is() {
    let table = [
        (Decline::NoStartTls, ACCOUNT, Health::Misconfigured, "tls"),
        (Decline::BadTls("expired".to_owned()), ACCOUNT, Health::Misconfigured, "tls"),
        (Decline::Injected, ACCOUNT, Health::Misconfigured, "tls"),
        (Decline::NoMechanism, ACCOUNT, Health::Misconfigured, "auth"),
        (Decline::ClearText, ACCOUNT, Health::Misconfigured, "auth"),
        (Decline::TooLarge, UNFIT_HERE, Health::Healthy, "size"),
        (Decline::NeedsSmtpUtf8, UNFIT_HERE, Health::Healthy, "smtputf8"),
        (Decline::UnsafeContent, UNFIT_HERE, Health::Neutral, "content"),
        (Decline::TooLate, UNAVAILABLE, Health::Neutral, "timeout"),
    ];
    for (decline, meaning, health, code) in table {
        let judgement = judge(&Fault::declined(Mail, decline.clone()));
        let found = (judgement.verdict.class, judgement.verdict.scope);
        assert_eq!((found, judgement.health, judgement.verdict.code.as_str()), (meaning, health, code), "{decline:?}");
    }
}

#[test]
fn the_code_on_record_is_the_reply_code_with_the_enhanced_one() {
    let table = [("550 5.1.1 no", "550 5.1.1"), ("550 no", "550"), ("451 4.3.0 no", "451 4.3.0")];
    for (line, code) in table {
        assert_eq!(judge(&Fault::reply(Rcpt, reply(line))).verdict.code, code);
    }
}

#[test]
fn a_full_envelope_is_told_from_a_full_mailbox() {
    let table = [
        ("452 4.5.3 no", true),
        ("452 Too many recipients", true),
        ("552 5.5.3 too many recipients", true),
        ("552 too many recipients", true),
        ("452 4.2.2 full", false),
        ("452 no", false),
        ("451 too many recipients", false),
    ];
    for (line, expected) in table {
        assert_eq!(is_envelope_full(&reply(line)), expected, "{line}");
    }
}
