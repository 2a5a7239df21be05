//! Connections over several messages: kept, replaced, ended, never shared between two messages at once.

use std::time::Duration;

use postrider::{
    config::SmtpProvider as Settings,
    delivery::Class,
    provider::{Provider, smtp::SmtpProvider},
};

use super::{
    impatient, message, provider, settings,
    smtp_peer::{Act, Script, SmtpPeer, say},
    verdict,
};

async fn class(relay: &SmtpProvider) -> Class {
    verdict(&relay.send(message()).await).0
}

#[tokio::test]
async fn one_connection_carries_many_messages() {
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&settings(peer.address));
    for _ in 0..5 {
        assert_eq!(class(&relay).await, Class::Accepted);
    }
    let seen = peer.seen();
    assert_eq!((seen.commands.len(), seen.stored.len()), (1, 5));
}

#[tokio::test]
async fn a_connection_is_ended_after_its_share_of_messages() {
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&Settings { messages_per_connection: 2, ..settings(peer.address) });
    for _ in 0..3 {
        assert_eq!(class(&relay).await, Class::Accepted);
    }
    peer.wait(|seen| seen.commands[0].last().is_some_and(|command| command == "QUIT")).await;
    assert_eq!(peer.seen().commands.len(), 2);
}

#[tokio::test]
async fn an_idle_connection_is_ended_when_its_time_is_over() {
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&Settings { idle: Duration::from_millis(50), ..settings(peer.address) });
    assert_eq!(class(&relay).await, Class::Accepted);
    peer.wait(|seen| seen.commands[0].last().is_some_and(|command| command == "QUIT")).await;
    assert_eq!(class(&relay).await, Class::Accepted);
    peer.wait(|seen| seen.commands.len() == 2 && seen.commands[1].last().is_some_and(|command| command == "QUIT"))
        .await;
}

#[tokio::test]
async fn an_idle_connection_that_its_server_ended_is_replaced() {
    for parting in [Act::SayAndClose("250 OK".to_owned()), Act::SayAndClose("250 OK\r\n421 idle".to_owned())] {
        let peer = SmtpPeer::start([Script::default().on(".", parting)]).await;
        let relay = provider(&settings(peer.address));
        assert_eq!(class(&relay).await, Class::Accepted);
        peer.wait(|seen| seen.ended == [0]).await;
        assert_eq!(class(&relay).await, Class::Accepted);
        let seen = peer.seen();
        assert_eq!((seen.commands.len(), seen.stored.len()), (2, 1));
    }
}

#[tokio::test]
async fn a_used_connection_that_fails_at_mail_is_replaced_and_a_fresh_one_is_not() {
    for stale in [Act::Close, say("421 bye"), say("503 5.5.1 bad sequence"), say("nonsense")] {
        let script = Script::default().on("MAIL", Act::Usual).on("MAIL", stale.clone());
        let peer = SmtpPeer::start([script, Script::default()]).await;
        let relay = provider(&settings(peer.address));
        assert_eq!(class(&relay).await, Class::Accepted);
        assert_eq!(class(&relay).await, Class::Accepted);
        assert_eq!(peer.seen().commands.len(), 2);

        let peer = SmtpPeer::start([Script::default().on("MAIL", stale)]).await;
        assert_ne!(class(&provider(&settings(peer.address))).await, Class::Accepted);
        assert_eq!(peer.seen().commands.len(), 1);
    }
}

#[tokio::test]
async fn a_used_connection_that_fails_later_is_an_attempt() {
    for moment in ["RCPT", "DATA"] {
        let script = Script::default().on(moment, Act::Usual).on(moment, Act::Close);
        let peer = SmtpPeer::start([script]).await;
        let relay = provider(&settings(peer.address));
        assert_eq!(class(&relay).await, Class::Accepted);
        assert_eq!(class(&relay).await, Class::Unavailable, "{moment}");
        assert_eq!(peer.seen().commands.len(), 1, "{moment}");
    }
}

#[tokio::test]
async fn a_transaction_left_open_is_reset_or_the_connection_replaced() {
    let script = Script::default().on("DATA", say("450 later")).on("RSET", Act::Close);
    let peer = SmtpPeer::start([script]).await;
    let relay = provider(&settings(peer.address));
    assert_eq!(class(&relay).await, Class::Deferred);
    assert_eq!(class(&relay).await, Class::Accepted);
    assert_eq!(peer.seen().commands.len(), 2);
}

#[tokio::test]
async fn a_send_that_is_dropped_never_gives_its_connection_to_the_next_message() {
    for (moment, dropped_at) in [("EHLO", "EHLO"), ("MAIL", "MAIL"), ("RCPT", "RCPT"), ("DATA", "DATA"), (".", ".")] {
        let first = Script::default().on(moment, Act::Silence);
        let second = Script::default().on(".", say("554 5.6.0 not this one"));
        let peer = SmtpPeer::start([first, second]).await;
        let relay = provider(&settings(peer.address));
        let under_way = |seen: &super::smtp_peer::Seen| {
            seen.commands.first().is_some_and(|c| c.last().is_some_and(|command| command.starts_with(dropped_at)))
        };
        tokio::select! {
            outcome = relay.send(message()) => panic!("{moment}: the send ended: {outcome:?}"),
            () = peer.wait(under_way) => {}
        }
        peer.wait(|seen| seen.ended == [0]).await;
        assert_eq!(verdict(&relay.send(message()).await), (Class::MessageRejected, "554 5.6.0".to_owned()), "{moment}");
        assert_eq!(class(&relay).await, Class::Accepted, "{moment}");
        assert_eq!(peer.seen().commands.len(), 2, "{moment}");
    }
}

#[tokio::test]
async fn a_connection_with_a_reply_outstanding_is_not_used_again() {
    for moment in ["MAIL", "RCPT", "DATA", "."] {
        let peer = SmtpPeer::start([Script::default().on(moment, Act::Silence)]).await;
        let relay = provider(&impatient(peer.address));
        assert_ne!(class(&relay).await, Class::Accepted, "{moment}");
        peer.wait(|seen| seen.ended == [0]).await;
        assert_eq!(class(&relay).await, Class::Accepted, "{moment}");
        assert_eq!(peer.seen().commands.len(), 2, "{moment}");
    }
}

#[tokio::test]
async fn a_reply_that_is_not_utf_8_leaves_the_connection_in_step() {
    let script = Script::default().on(".", Act::StoreAndSay("250-gr\u{fc}n\r\n250 gr\u{fc}n".to_owned()));
    let peer = SmtpPeer::start([script]).await;
    let relay = provider(&settings(peer.address));
    assert_eq!(class(&relay).await, Class::Accepted);
    assert_eq!(class(&relay).await, Class::Accepted);
    assert_eq!(peer.seen().commands.len(), 1);
}

#[tokio::test]
async fn sends_at_once_have_connections_of_their_own() {
    let peer = SmtpPeer::start([]).await;
    let relay = provider(&settings(peer.address));
    let outcomes = futures_util::future::join_all((0..20).map(|_| relay.send(message()))).await;
    assert!(outcomes.iter().all(|outcome| verdict(outcome).0 == Class::Accepted));
    assert_eq!(peer.seen().stored.len(), 20);
    let connections = peer.seen().commands.len();
    for _ in 0..20 {
        assert_eq!(class(&relay).await, Class::Accepted);
    }
    assert_eq!(peer.seen().commands.len(), connections);
}

#[tokio::test]
async fn a_connection_is_ended_at_its_age_however_busy() {
    let peer = SmtpPeer::start([]).await;
    let age = Duration::from_millis(300);
    let relay =
        provider(&Settings { connection_age: age, messages_per_connection: 1_000_000, ..settings(peer.address) });
    let began = tokio::time::Instant::now();
    while peer.seen().commands.len() < 2 {
        assert_eq!(class(&relay).await, Class::Accepted);
        assert!(began.elapsed() < Duration::from_secs(20), "the first connection is used for ever");
    }
    assert!(began.elapsed() >= age);
    peer.wait(|seen| seen.commands[0].last().is_some_and(|command| command == "QUIT")).await;
    // Nobody has to ask for it.
    peer.wait(|seen| seen.ended.len() == 2).await;
}
