//! Commands in groups (PIPELINING): what is sent together, and that each reply is taken for its own command.

use postrider::{
    delivery::{Class, Health},
    provider::{Provider, smtp::SmtpProvider},
};

use super::{
    classes, impatient, message, message_to, provider, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
    verdict,
};

fn script() -> Script {
    Script::default().pipelining()
}

async fn start(script: Script) -> (SmtpPeer, SmtpProvider) {
    let peer = SmtpPeer::start([script]).await;
    let relay = provider(&settings(peer.address));
    (peer, relay)
}

fn verbs(peer: &SmtpPeer, connection: usize) -> Vec<String> {
    let seen = peer.seen();
    seen.commands[connection].iter().map(|command| command.split([' ', ':']).next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn commands_go_out_together_where_that_is_offered_and_only_there() {
    for (script, groups) in [(script(), true), (Script::default(), false)] {
        let (peer, relay) = start(script).await;
        let outcome = relay.send(message_to(&["one", "two", "three"], "Hello\r\n")).await;
        assert_eq!(classes(&outcome), [Class::Accepted; 3]);
        assert_eq!(peer.seen().groups, groups);
        assert_eq!(verbs(&peer, 0), ["EHLO", "MAIL", "RCPT", "RCPT", "RCPT", "DATA", "."]);
    }
}

#[tokio::test]
async fn the_content_waits_until_it_was_asked_for() {
    // In a group with its commands it would be taken for commands by a server that refuses DATA.
    let (peer, relay) = start(script().on("DATA", say("450 later"))).await;
    assert_eq!(verdict(&relay.send(message()).await), (Class::Deferred, "450".to_owned()));
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    assert_eq!(verbs(&peer, 0), ["EHLO", "MAIL", "RCPT", "DATA", "RSET", "MAIL", "RCPT", "DATA", "."]);
}

#[tokio::test]
async fn a_refused_recipient_stops_none_of_the_others() {
    let script = script().on("RCPT TO:<one", say("550 5.1.1 no")).on("RCPT TO:<three", say("450 4.2.0 later"));
    let (peer, relay) = start(script).await;
    let outcome = relay.send(message_to(&["one", "two", "three", "four"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::RecipientRejected, Class::Accepted, Class::Deferred, Class::Accepted]);
    assert_eq!(peer.seen().stored.len(), 1);
}

#[tokio::test]
async fn after_a_refused_mail_every_reply_is_heard_and_the_connection_serves_on() {
    let script = script()
        .on("MAIL", say("550 5.7.1 not owner"))
        .on("RCPT", say("503 5.5.1 MAIL first"))
        .on("RCPT", say("503 5.5.1 MAIL first"))
        .on("DATA", say("503 5.5.1 MAIL first"));
    let (peer, relay) = start(script).await;
    let outcome = relay.send(message_to(&["one", "two"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Misconfigured; 2]);
    assert_eq!(outcome.health, Health::MisconfiguredForSenderDomain);
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    assert_eq!(peer.seen().commands.len(), 1);
}

#[tokio::test]
async fn a_server_in_the_middle_of_another_transaction_gets_no_content_not_even_an_empty_one() {
    let (peer, relay) = start(script().on("MAIL", say("503 5.5.1 nested MAIL"))).await;
    assert_eq!(verdict(&relay.send(message()).await), (Class::Unavailable, "503 5.5.1".to_owned()));
    peer.wait(|seen| seen.ended == [0]).await;
    assert!(peer.seen().stored.is_empty());
    assert_eq!(verbs(&peer, 0), ["EHLO", "MAIL", "RCPT", "DATA"]);
}

#[tokio::test]
async fn without_a_recipient_data_is_refused_and_the_connection_serves_on() {
    let script = script().on("RCPT", say("550 5.1.1 no")).on("DATA", say("554 5.5.1 no valid recipients"));
    let (peer, relay) = start(script).await;
    assert_eq!(verdict(&relay.send(message()).await), (Class::RecipientRejected, "550 5.1.1".to_owned()));
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    assert_eq!((peer.seen().commands.len(), peer.seen().stored.len()), (1, 1));
}

#[tokio::test]
async fn a_server_that_asks_for_the_content_without_a_recipient_gets_an_empty_one() {
    let script = script().on("RCPT", say("550 5.1.1 no")).on(".", say("554 5.5.1 no valid recipients"));
    let (peer, relay) = start(script).await;
    assert_eq!(verdict(&relay.send(message()).await), (Class::RecipientRejected, "550 5.1.1".to_owned()));
    assert!(peer.seen().stored.is_empty());
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    let seen = peer.seen();
    assert_eq!((seen.commands.len(), seen.stored.len()), (1, 1));
    assert!(seen.stored[0].starts_with(b"From: "));
}

#[tokio::test]
async fn a_verdict_does_not_wait_for_replies_that_change_nothing() {
    let (peer, relay) = start(script().on("RCPT", say("550 5.1.1 no")).on("DATA", Act::Close)).await;
    assert_eq!(verdict(&relay.send(message()).await), (Class::RecipientRejected, "550 5.1.1".to_owned()));
    assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
    assert_eq!(peer.seen().commands.len(), 2);
}

#[tokio::test]
async fn an_envelope_that_is_full_is_split() {
    let script = script()
        .on("RCPT TO:<three", say("452 4.5.3 too many recipients"))
        .on("RCPT TO:<four", say("452 4.5.3 too many recipients"));
    let (peer, relay) = start(script).await;
    let outcome = relay.send(message_to(&["one", "two", "three", "four"], "Hello\r\n")).await;
    assert_eq!(classes(&outcome), [Class::Accepted; 4]);
    let seen = peer.seen();
    assert_eq!((seen.commands.len(), seen.stored.len()), (1, 2));
    assert_eq!(seen.stored[0], seen.stored[1]);

    let locals: Vec<String> = (0..250).map(|n| format!("to{n}")).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    let (peer, relay) = start(Script::default().pipelining()).await;
    assert_eq!(classes(&relay.send(message_to(&locals, "Hello\r\n")).await), [Class::Accepted; 250]);
    assert_eq!(peer.seen().stored.len(), 3);
}

#[tokio::test]
async fn a_server_with_room_for_nobody_defers_and_is_not_asked_for_ever() {
    let full = || say("452 4.5.3 too many recipients");
    for script in [script(), Script::default()] {
        let (peer, relay) = start(script.on("RCPT", full()).on("RCPT", full())).await;
        let outcome = relay.send(message_to(&["one", "two"], "Hello\r\n")).await;
        assert_eq!(classes(&outcome), [Class::Deferred; 2]);
        assert!(peer.seen().stored.iter().all(Vec::is_empty));
    }
}

#[tokio::test]
async fn a_used_connection_that_ends_at_mail_is_replaced_and_no_message_is_sent_twice() {
    for stale in [Act::Close, Act::SayAndClose("421 idle".to_owned()), say("503 5.5.1 out of order")] {
        let (peer, relay) = start(script().on("MAIL", Act::Usual).on("MAIL", stale)).await;
        for _ in 0..2 {
            assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted);
        }
        assert_eq!((peer.seen().commands.len(), peer.seen().stored.len()), (2, 2));
    }
}

#[tokio::test]
async fn a_reply_too_many_is_not_taken_for_that_to_the_next_command() {
    for (moment, replies) in [("MAIL", "250 OK\r\n250 OK"), ("RCPT TO:<one", "250 OK\r\n250 OK")] {
        let (peer, relay) = start(script().on(moment, say(replies)).on("RCPT TO:<two", say("550 5.1.1 no"))).await;
        let outcome = relay.send(message_to(&["one", "two"], "Hello\r\n")).await;
        // Which recipient was refused cannot be known any more, so nobody gets the content.
        assert!(!classes(&outcome).contains(&Class::Accepted), "{moment}: {:?}", classes(&outcome));
        assert!(peer.seen().stored.is_empty(), "{moment}");
        assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted, "{moment}");
        assert_eq!(peer.seen().commands.len(), 2, "{moment}");
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_never_gives_its_connection_to_the_next_message() {
    for moment in ["MAIL", "RCPT", "DATA", "."] {
        let first = script().on(moment, Act::Silence);
        let second = script().on(".", say("554 5.6.0 not this one"));
        let peer = SmtpPeer::start([first, second]).await;
        let relay = provider(&settings(peer.address));
        let under_way = |seen: &super::smtp_peer::Seen| {
            seen.commands.first().is_some_and(|c| c.iter().any(|command| command.starts_with(moment)))
        };
        tokio::select! {
            outcome = relay.send(message()) => panic!("{moment}: the send ended: {outcome:?}"),
            () = peer.wait(under_way) => {}
        }
        peer.wait(|seen| seen.ended == [0]).await;
        assert!(!peer.seen().commands[0].contains(&"QUIT".to_owned()), "{moment}");
        assert_eq!(verdict(&relay.send(message()).await), (Class::MessageRejected, "554 5.6.0".to_owned()), "{moment}");
        assert_eq!(verdict(&relay.send(message()).await).0, Class::Accepted, "{moment}");
        assert_eq!(peer.seen().commands.len(), 2, "{moment}");
    }
}

#[tokio::test]
async fn a_silent_server_is_left_without_a_word() {
    for moment in ["MAIL", "RCPT", "DATA", "."] {
        let peer = SmtpPeer::start([script().on(moment, Act::Silence)]).await;
        let relay = provider(&impatient(peer.address));
        assert_ne!(verdict(&relay.send(message()).await).0, Class::Accepted, "{moment}");
        peer.wait(|seen| seen.ended == [0]).await;
        assert!(!peer.seen().commands[0].contains(&"QUIT".to_owned()), "{moment}");
    }
}
