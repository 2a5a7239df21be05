//! From Python's grpcio to aiosmtpd.

use super::{has_grpcio, judge, relay, send_specimens};
use crate::support::{aiosmtpd::Aiosmtpd, program::Program};

/// The envelope of a specimen.
const RECIPIENTS: [&str; 5] =
    ["anna@example.com", "ada@example.com", "plain@example.com", "joerg@example.com", "archive@shop.example"];

#[tokio::test]
async fn what_pythons_client_sends_arrives_as_pythons_email_package_reads_it() {
    if !has_grpcio() {
        return;
    }
    let Some(mut server) = Aiosmtpd::start().await else { return };
    let program = Program::serve(&relay(&server, "plain")).await;
    let ids = send_specimens(&program, 1, &[]).await;
    let handed = server.handed().await;
    assert_eq!(handed.to, RECIPIENTS);
    judge(&handed.content, &ids[0], &[]).await;
    program.stop().await;
}

#[tokio::test]
async fn many_messages_arrive_once_each_and_whole() {
    if !has_grpcio() {
        return;
    }
    let Some(mut server) = Aiosmtpd::start().await else { return };
    let program = Program::serve(&relay(&server, "login")).await;
    let mut ids = send_specimens(&program, 20, &[]).await;
    for _ in 0..20 {
        let handed = server.handed().await;
        assert_eq!(handed.to, RECIPIENTS);
        let content = String::from_utf8(handed.content).expect("ASCII");
        let place = ids.iter().position(|id| content.contains(&format!("<{id}@shop.example>")));
        ids.swap_remove(place.expect("a message that has not arrived before"));
        assert_eq!(content.matches("Content-Disposition:").count(), 3);
        assert!(content.ends_with("_mixed--\r\n"), "its end is missing");
    }
    program.stop().await;
}

#[tokio::test]
async fn a_second_attempt_sends_the_same_bytes() {
    let Some(mut server) = Aiosmtpd::start().await else { return };
    let program = Program::serve(&relay(&server, "plain")).await;
    let arguments = ["send", "--from", "a@shop.example", "--to", "again@example.com", "--text", "Hello", "--wait"];
    let said = program.run(arguments).await;
    assert!(said.well().contains("SUCCESS_SENT"), "{said:?}");
    assert!(said.out.contains("451 4.3.0"), "the first attempt is on record: {said:?}");
    let (first, second) = (server.handed().await, server.handed().await);
    assert_eq!(first.to, second.to);
    assert!(first.content == second.content, "the second attempt differs");
    assert!(first.content.starts_with(b"From: "), "{}", String::from_utf8_lossy(&first.content));
    program.stop().await;
}
