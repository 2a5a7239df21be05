//! What it comes to when no answer comes.

use super::*;

#[tokio::test]
async fn trickling_headers_are_ended_by_the_timeout() {
    let outcome = outcome_at_the_timeout(Behaviour::Trickle("HTTP/1.1 200 OK\r\nx-slow:".to_owned())).await;
    assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, "timeout", FAILING);
}

#[tokio::test]
async fn a_connection_that_ends_after_the_request_leaves_it_unknown() {
    let cut_short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":";
    let table = [("", "connection_lost"), ("220 mx.example ESMTP\r\n", "connection_lost"), (cut_short, "200")];
    for (answer, code) in table {
        let outcome = outcome_of(Behaviour::AnswerAndClose(answer.to_owned()), message()).await;
        assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, code, FAILING);
    }
}

#[tokio::test]
async fn a_reset_half_way_through_the_request_leaves_it_unknown() {
    let outcome = outcome_of(Behaviour::ResetAfter(20_000), message()).await;
    assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, "connection_lost", FAILING);
}

#[tokio::test]
async fn a_silent_gateway_leaves_it_unknown_when_time_is_up() {
    for behaviour in [Behaviour::Silent, Behaviour::Deaf] {
        let outcome = outcome_at_the_timeout(behaviour).await;
        assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, "timeout", FAILING);
    }
}

#[tokio::test]
async fn the_deadline_ends_a_send_sooner_than_the_settings() {
    let peer = HttpPeer::start(&[Behaviour::Silent]).await;
    let provider = provider(&peer.url());
    let begun = Instant::now();
    let soon = Submission { deadline: begun + Duration::from_millis(100), ..submission(message(), &[0]) };
    let outcome = provider.send(soon).await;
    assert_outcome(&outcome, Class::OutcomeUnknown, Scope::Wire, "timeout", FAILING);
    assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
}

#[tokio::test]
async fn after_the_deadline_nothing_is_begun() {
    let mut peer = HttpPeer::start(&[Behaviour::Answer(response(200, "", ""))]).await;
    let provider = provider(&peer.url());
    let [first, late, next] = [message(), message(), message()];
    let keys = [first.id.to_string(), next.id.to_string()];
    provider.send(submission(first, &[0])).await;
    let outcome = provider.send(Submission { deadline: Instant::now(), ..submission(late, &[0]) }).await;
    assert_outcome(&outcome, Class::Unavailable, Scope::Provider, "deadline", Health::Neutral);
    provider.send(submission(next, &[0])).await;

    for (key, connection) in keys.iter().zip([0, 0]) {
        let request = peer.request().await;
        assert_eq!(request.header("idempotency-key"), Some(key.as_str()));
        assert_eq!(request.connection, connection, "the late one cost a connection");
    }
}

#[tokio::test]
async fn without_a_connection_it_was_not_sent() {
    let gone = HttpPeer::start(&[Behaviour::Silent]).await.url();
    // Dropping the peer closes its listener when its task has ended.
    while tokio::net::TcpStream::connect(gone[7..].split_once('/').unwrap().0).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let hold = || submission(bare(UnknownOutcome::Hold), &[0]);
    let outcome = provider(&gone).send(hold()).await;
    assert_outcome(&outcome, Class::Unavailable, Scope::Provider, "connect", FAILING);

    // A label of more than 63 bytes: the resolver refuses it without asking anybody.
    let nowhere = format!("http://{}.example/", "a".repeat(64));
    let outcome = provider(&nowhere).send(hold()).await;
    assert_outcome(&outcome, Class::Unavailable, Scope::Provider, "dns", FAILING);
}

#[tokio::test]
async fn a_connection_that_the_gateway_closed_while_idle_is_replaced() {
    let ok = response(200, "", "");
    let mut peer = HttpPeer::start(&[Behaviour::AnswerAndClose(ok.clone()), Behaviour::Answer(ok)]).await;
    let provider = provider(&peer.url());
    provider.send(submission(message(), &[0])).await;
    peer.closed().await;
    // The close is in our socket by now; each yield lets the runtime look at its sockets once.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let outcome = provider.send(submission(message(), &[0])).await;
    assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
    assert_eq!(peer.request().await.connection, 1);
}
