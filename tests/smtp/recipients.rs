//! Envelope and content: each recipient's fate, what is announced, the bytes on the wire.

use std::sync::Arc;

use postrider::{
    delivery::{Class, Health},
    message::{EmailAddress, mime},
    provider::Provider,
};

use super::{
    classes, message, message_to, provider, send, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
    verdict,
};

#[tokio::test]
async fn each_recipient_has_its_own_fate() {
    let script = Script::default()
        .on("RCPT TO:<two", say("550 5.1.1 user unknown"))
        .on("RCPT TO:<three", say("450 4.2.0 later"));
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&settings(peer.address), message_to(&["one", "two", "three"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Accepted, Class::RecipientRejected, Class::Deferred]);
    assert_eq!(outcome.health, Health::Healthy);
    assert_eq!(outcome.provider_message_id.as_deref(), Some("PEER1234"));
    assert_eq!(peer.seen().stored.len(), 1);
}

#[tokio::test]
async fn only_the_open_recipients_are_offered() {
    let peer = SmtpPeer::start([]).await;
    let mut submission = message_to(&["one", "two", "three"], "Hello\r\n");
    submission.recipients.remove(0);
    submission.recipients.remove(0);
    let outcome = send(&settings(peer.address), submission).await;
    assert_eq!(outcome.verdicts.len(), 1);
    let seen = peer.seen();
    let rcpt: Vec<_> = seen.commands[0].iter().filter(|command| command.starts_with("RCPT")).collect();
    assert_eq!(rcpt, ["RCPT TO:<three@there.example>"]);
}

#[tokio::test]
async fn the_reply_to_the_final_dot_is_for_those_that_were_taken() {
    let script = Script::default().on("RCPT TO:<two", say("550 no such user")).on(".", say("552 5.3.4 too big"));
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&settings(peer.address), message_to(&["one", "two"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::UnfitHere, Class::RecipientRejected]);
}

#[tokio::test]
async fn without_a_recipient_there_is_no_content_and_the_connection_serves_on() {
    let script = Script::default().on("RCPT", say("550 user unknown"));
    let peer = SmtpPeer::start([script]).await;
    let relay = provider(&settings(peer.address));
    assert_eq!(verdict(&relay.send(message()).await), (Class::RecipientRejected, "550".to_owned()));
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    let seen = peer.seen();
    assert_eq!(seen.commands.len(), 1);
    let verbs: Vec<_> = seen.commands[0].iter().map(|command| command.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT", "DATA", "."]);
}

#[tokio::test]
async fn a_connection_lost_at_a_recipient_leaves_the_earlier_verdicts() {
    let script = Script::default().on("RCPT TO:<one", say("550 user unknown")).on("RCPT TO:<three", Act::Close);
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&settings(peer.address), message_to(&["one", "two", "three", "four"], "Hello\r\n")).await;
    assert_eq!(
        classes(&outcome),
        [Class::RecipientRejected, Class::Unavailable, Class::Unavailable, Class::Unavailable]
    );
    assert_eq!(outcome.health, Health::Failing { retry_after: None });
}

#[tokio::test]
async fn an_envelope_that_is_full_is_split() {
    let script = Script::default().on("RCPT TO:<three", say("452 4.5.3 too many recipients"));
    let peer = SmtpPeer::start([script]).await;
    let outcome = send(&settings(peer.address), message_to(&["one", "two", "three", "four"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Accepted; 4]);
    let seen = peer.seen();
    assert_eq!((seen.commands.len(), seen.stored.len()), (1, 2));
    assert_eq!(seen.stored[0], seen.stored[1]);

    let locals: Vec<String> = (0..150).map(|n| format!("to{n}")).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    let peer = SmtpPeer::start([]).await;
    let outcome = send(&settings(peer.address), message_to(&locals, "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Accepted; 150]);
    assert_eq!(peer.seen().stored.len(), 2);
}

#[tokio::test]
async fn lines_that_begin_with_a_dot_arrive_as_they_are() {
    let texts = [
        "",
        ".",
        ".\r\n",
        "..\r\n.\r\n...\r\n",
        "a\r\n.b\r\n\r\n.\r\nc",
        "no line end",
        "\r\n\r\n",
        "ends with dot\r\n.",
    ];
    let long = format!("{}\r\n.\r\n", "x".repeat(64 * 1024 - 100));
    for text in texts.into_iter().chain([long.as_str()]) {
        let peer = SmtpPeer::start([]).await;
        let submission = message_to(&["one"], text);
        let mut expected = mime::render(&submission.message).unwrap();
        if !expected.ends_with(b"\r\n") {
            expected.extend(b"\r\n");
        }
        assert_eq!(verdict(&send(&settings(peer.address), submission).await).0, Class::Accepted);
        let stored = String::from_utf8(peer.seen().stored.remove(0)).unwrap();
        let unstuffed: String = stored
            .split_inclusive("\r\n")
            .map(|line| match line.strip_prefix('.') {
                Some(rest) => {
                    assert!(rest.starts_with('.'), "a line begins with a single dot");
                    rest
                }
                None => line,
            })
            .collect();
        assert_eq!(unstuffed.as_bytes(), expected, "{text:?}");
    }
}

#[tokio::test]
async fn the_size_is_announced_and_a_server_s_limit_obeyed() {
    let offers = |limit| Script::default().on("EHLO", Act::Say(format!("250-peer\r\n250 SIZE {limit}")));
    let peer = SmtpPeer::start([offers(1_000_000)]).await;
    let submission = message();
    let size = mime::render(&submission.message).unwrap().len();
    assert_eq!(verdict(&send(&settings(peer.address), submission).await).0, Class::Accepted);
    assert!(peer.seen().commands[0].contains(&format!("MAIL FROM:<from@sender.example> SIZE={size}")));

    let peer = SmtpPeer::start([offers(10)]).await;
    assert_eq!(verdict(&send(&settings(peer.address), message()).await), (Class::UnfitHere, "size".to_owned()));
    assert_eq!(peer.seen().commands[0], ["EHLO client.example"]);
}

#[tokio::test]
async fn a_non_ascii_address_needs_smtputf8() {
    let peer = SmtpPeer::start([]).await;
    let outcome = send(&settings(peer.address), message_to(&["one", "пошта"], "Hello\r\n")).await;
    let seen = peer.seen();
    assert!(seen.stored.iter().all(|content| content.is_ascii()));
    assert!(classes(&outcome).contains(&Class::UnfitHere));
    assert!(!seen.commands[0].iter().any(|command| command.contains("пошта")));

    let script = Script::default().on("EHLO", say("250-peer\r\n250-8BITMIME\r\n250 SMTPUTF8"));
    let peer = SmtpPeer::start([script]).await;
    let relay = provider(&settings(peer.address));
    let outcome = relay.send(message_to(&["one", "пошта"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Accepted; 2]);
    let commands = peer.seen().commands.remove(0);
    assert_eq!(commands[1], "MAIL FROM:<from@sender.example> SMTPUTF8 BODY=8BITMIME");
    assert!(commands.contains(&"RCPT TO:<пошта@there.example>".to_owned()));

    // What is all ASCII needs neither, whatever its text says.
    assert_eq!(verdict(&relay.send(message_to(&["one"], "Grüße\r\n")).await).0, Class::Accepted);
    assert!(peer.seen().commands[0].contains(&"MAIL FROM:<from@sender.example>".to_owned()));
}

#[tokio::test]
async fn a_non_ascii_sender_is_unfit_for_a_server_without_smtputf8() {
    let peer = SmtpPeer::start([]).await;
    let mut submission = message();
    let message = Arc::make_mut(&mut submission.message);
    message.email.from.address = EmailAddress::parse("пошта@sender.example").unwrap();
    let outcome = send(&settings(peer.address), submission).await;
    assert_eq!(verdict(&outcome), (Class::UnfitHere, "smtputf8".to_owned()));
    assert_eq!(outcome.health, Health::Healthy);
}
