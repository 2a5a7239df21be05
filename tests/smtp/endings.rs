//! Ends before their time, at each stage: silence, closed, reset, 421; and what they say.

use std::time::Duration;

use postrider::{
    config::SmtpProvider as Settings,
    delivery::{Class, Health},
    provider::Provider,
};
use tokio::time::Instant;

use super::{
    impatient, message, message_to, send, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
    verdict,
};

const FAILING: Health = Health::Failing { retry_after: None };
const BEFORE_THE_DOT: [&str; 5] = ["banner", "EHLO", "MAIL", "RCPT", "DATA"];

async fn ends(script: Script, settings: fn(std::net::SocketAddr) -> Settings) -> (Class, String, Health, usize) {
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&settings(peer.address), message()).await;
    let (class, code) = verdict(&outcome);
    (class, code, outcome.health, peer.seen().stored.len())
}

#[tokio::test]
async fn silence_before_the_final_dot_is_unavailable_and_after_it_unknown() {
    for moment in BEFORE_THE_DOT {
        let end = ends(Script::default().on(moment, Act::Silence), impatient).await;
        assert_eq!(end, (Class::Unavailable, "timeout".to_owned(), FAILING, 0), "{moment}");
    }
    let end = ends(Script::default().on(".", Act::Silence), impatient).await;
    assert_eq!(end, (Class::OutcomeUnknown, "timeout".to_owned(), FAILING, 0));
}

#[tokio::test]
async fn a_connection_closed_before_the_final_dot_is_unavailable_and_after_it_unknown() {
    for moment in BEFORE_THE_DOT {
        let end = ends(Script::default().on(moment, Act::Close), settings).await;
        assert_eq!(end, (Class::Unavailable, "eof".to_owned(), FAILING, 0), "{moment}");
    }
    let end = ends(Script::default().on(".", Act::Close), settings).await;
    assert_eq!(end, (Class::OutcomeUnknown, "eof".to_owned(), FAILING, 0));
    let end = ends(Script::default().on(".", Act::StoreAndClose), settings).await;
    assert_eq!(end, (Class::OutcomeUnknown, "eof".to_owned(), FAILING, 1));
}

#[tokio::test]
async fn a_connection_reset_before_the_final_dot_is_unavailable_and_after_it_unknown() {
    for moment in BEFORE_THE_DOT {
        let end = ends(Script::default().resetting().on(moment, Act::Close), settings).await;
        assert_eq!(end, (Class::Unavailable, "reset".to_owned(), FAILING, 0), "{moment}");
    }
    let end = ends(Script::default().resetting().on(".", Act::Close), settings).await;
    assert_eq!(end, (Class::OutcomeUnknown, "reset".to_owned(), FAILING, 0));
}

#[tokio::test]
async fn a_connection_broken_within_the_content_is_definitely_not_sent() {
    let large = "x".repeat(78) + "\r\n";
    let large = large.repeat(200_000);
    let table = [
        (Script::default().resetting().on("body", Act::Close), "reset", Class::Unavailable),
        (
            Script::default().on("body", Act::SayAndClose("421 4.3.2 going down".to_owned())),
            "421 4.3.2",
            Class::Unavailable,
        ),
        (Script::default().on("body", Act::SayAndClose("552 5.3.4 too big".to_owned())), "552 5.3.4", Class::UnfitHere),
    ];
    for (script, code, class) in table {
        let peer = SmtpPeer::start([script]).await;
        let outcome = send(&settings(peer.address), message_to(&["one"], &large)).await;
        assert_eq!(verdict(&outcome), (class, code.to_owned()));
    }
    let peer = SmtpPeer::start([Script::default().on("body", Act::Stall)]).await;
    let outcome = send(&impatient(peer.address), message_to(&["one"], &large)).await;
    assert_eq!(verdict(&outcome), (Class::Unavailable, "timeout".to_owned()));
}

#[tokio::test]
async fn a_server_that_goes_down_as_it_asks_for_the_content_has_no_message() {
    let script = Script::default().on("DATA", say("354 go ahead\r\n421 4.3.2 going down"));
    assert_eq!(ends(script, settings).await, (Class::Unavailable, "421 4.3.2".to_owned(), FAILING, 0));
}

#[tokio::test]
async fn a_421_at_each_stage_drops_the_connection() {
    let table = [
        ("banner", Class::Unavailable, FAILING),
        ("EHLO", Class::Unavailable, FAILING),
        ("MAIL", Class::Throttled, Health::Resting { retry_after: None }),
        ("RCPT", Class::Throttled, Health::Resting { retry_after: None }),
        ("DATA", Class::Throttled, Health::Resting { retry_after: None }),
        (".", Class::Deferred, Health::Healthy),
    ];
    for (moment, class, health) in table {
        let peer = SmtpPeer::start([Script::default().on(moment, say("421 no more"))]).await;
        let relay = super::provider(&settings(peer.address));
        let outcome = relay.send(message()).await;
        assert_eq!((verdict(&outcome), outcome.health), ((class, "421".to_owned()), health), "{moment}");
        assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted, "{moment}");
        assert_eq!(peer.seen().commands.len(), 2, "{moment}");
    }
}

#[tokio::test]
async fn a_broken_relay_is_unavailable_and_does_not_hold_the_mail() {
    for moment in ["MAIL", "RCPT", "DATA", "."] {
        let end = ends(Script::default().on(moment, say("451 4.3.0 temporary system problem")), settings).await;
        assert_eq!(end, (Class::Unavailable, "451 4.3.0".to_owned(), FAILING, 0), "{moment}");
    }
}

#[tokio::test]
async fn a_refused_connection_and_a_name_without_address_are_unavailable() {
    // Bound and never listening: nobody else can get its port meanwhile.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = settings(socket.local_addr().unwrap());
    let (class, code) = verdict(&send(&nobody, message()).await);
    assert!((class, code.as_str()) == (Class::Unavailable, "connect"), "{class:?} {code}");

    let nowhere = Settings { host: "nowhere.invalid".to_owned(), ..nobody };
    assert_eq!(verdict(&send(&nowhere, message()).await), (Class::Unavailable, "connect".to_owned()));
}

#[tokio::test]
async fn a_blocked_address_is_misconfigured() {
    let end = ends(Script::default().on("banner", say("554 your address is blocked")), settings).await;
    assert_eq!(end, (Class::Misconfigured, "554".to_owned(), Health::Misconfigured, 0));
}

#[tokio::test]
async fn the_deadline_ends_a_stage_that_has_time_left() {
    for (moment, class) in [("MAIL", Class::Unavailable), (".", Class::OutcomeUnknown)] {
        let peer = SmtpPeer::start([Script::default().on(moment, Act::Silence)]).await;
        let mut submission = message();
        submission.deadline = Instant::now() + Duration::from_millis(300);
        let outcome = send(&settings(peer.address), submission).await;
        assert_eq!(verdict(&outcome), (class, "timeout".to_owned()), "{moment}");
    }
}

#[tokio::test]
async fn without_time_left_the_server_is_not_asked_and_not_blamed() {
    let peer = SmtpPeer::start([]).await;
    let mut submission = message();
    submission.deadline = Instant::now();
    let outcome = send(&settings(peer.address), submission).await;
    assert_eq!((verdict(&outcome).0, outcome.health), (Class::Unavailable, Health::Neutral));
    assert_eq!(peer.seen().commands.len(), 0);
}

#[tokio::test]
async fn strange_replies_are_read_where_they_can_be() {
    let long = format!("250 {}", "x".repeat(3_000));
    let accepted = ["250", "250-2.0.0 first\r\n250 2.0.0 queued as ABC123", &long, "250-gr\u{fc}n\r\n250 gr\u{fc}n"];
    for reply in accepted {
        let peer = SmtpPeer::start([Script::default().on(".", Act::StoreAndSay(reply.to_owned()))]).await;
        let outcome = send(&settings(peer.address), message()).await;
        assert_eq!(verdict(&outcome).0, Class::Accepted, "{reply}");
    }
    for reply in ["OK", "354 go on", "250-a\r\n550 b"] {
        let end = ends(Script::default().on(".", say(reply)), settings).await;
        assert_eq!(end, (Class::OutcomeUnknown, "garbled".to_owned(), FAILING, 0), "{reply}");
    }
}

#[tokio::test]
async fn a_reply_without_end_is_given_up() {
    let endless = "x".repeat(10_000_000);
    for (moment, class) in [("banner", Class::Unavailable), ("MAIL", Class::Unavailable), (".", Class::OutcomeUnknown)]
    {
        let end = ends(Script::default().on(moment, Act::Say(format!("250 {endless}"))), settings).await;
        assert_eq!(end, (class, "garbled".to_owned(), FAILING, 0), "{moment}");
    }
}

#[tokio::test]
async fn replies_that_are_not_those_to_our_commands_stop_before_the_content() {
    for (moment, replies) in [("RCPT", "250 OK\r\n250 OK"), ("DATA", "250 OK"), ("DATA", "354 go\r\n250 OK")] {
        let end = ends(Script::default().on(moment, say(replies)), settings).await;
        assert_eq!(end, (Class::Unavailable, "garbled".to_owned(), FAILING, 0), "{moment}: {replies}");
    }
}
