//! SMTP smuggling: text in a message that a server takes for the end of it, and what follows for a second message.
//!
//! Debian's postfix in its default setting takes a dot between bare line feeds for the end of the data.

use std::{io, process::Command};

use bytes::Bytes;
use postrider::{
    config::{SmtpProvider as Settings, SmtpTls},
    delivery::Class,
    message::Attachment,
    provider::{Provider, Submission},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::{message_from_to, provider, settings, verdict};
use crate::support::postfix::Postfix;

/// What some server or other takes for the end of the data.
const ENDS: [&str; 8] = ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r\n.\r", "\r.\r\n", "\n\n.\n\n", "\r\n.\r\n"];

const SMUGGLED: &str = "MAIL FROM:<admin@evil.example>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n\
                        From: admin@evil.example\r\nSubject: smuggled\r\n\r\nsmuggled\r\n.\r\n";

/// The settings of the server: clear text, so that the test can speak to it by hand too.
const CLEAR_TEXT: &str = "smtpd_tls_security_level = none\n";

#[tokio::test]
async fn nothing_in_a_message_becomes_a_second_one() {
    let Some(postfix) = Postfix::start(CLEAR_TEXT) else { return };
    let address = ([127, 0, 0, 1], postfix.port).into();
    let relay = provider(&Settings { tls: SmtpTls::None, ..settings(address) });
    let mut sent = 0;
    for end in ENDS {
        for place in [in_text, in_html, in_attachment] {
            let payload = format!("Hello{end}{SMUGGLED}Bye{end}");
            let mut submission = message_from_to("from@sender.example", &["a@example.com"]);
            place(&mut submission, payload);
            let outcome = relay.send(submission).await;
            assert_eq!(verdict(&outcome).0, Class::Accepted, "{end:?}");
            sent += 1;
        }
    }
    let delivered = postfix.delivered(sent).await;
    assert_eq!(delivered.len(), sent, "one for each that was sent");
    assert!(!postfix.log().contains("evil.example"), "{}", postfix.log());
    assert!(!postfix.log().contains("victim@example.com"), "{}", postfix.log());
}

/// That the server at hand can be smuggled to is what the test above is worth.
#[tokio::test]
async fn the_same_said_carelessly_becomes_two_where_the_server_takes_a_bare_line_feed() {
    let Some(postfix) = Postfix::start(CLEAR_TEXT) else { return };
    careless(postfix.port, &format!("Subject: careless\r\n\r\nHello\n.\r\n{SMUGGLED}")).await.expect("a conversation");
    let expected = if refuses_bare_line_feeds() { 0 } else { 2 };
    let delivered = postfix.delivered(expected).await;
    assert_eq!(delivered.len(), expected, "{}", postfix.log());
}

fn in_text(submission: &mut Submission, payload: String) {
    email(submission).text = Some(payload);
}

fn in_html(submission: &mut Submission, payload: String) {
    email(submission).html = Some(format!("<p>{payload}</p>"));
}

fn in_attachment(submission: &mut Submission, payload: String) {
    email(submission).attachments.push(Attachment {
        filename: "note.txt".to_owned(),
        content_type: "text/plain".to_owned(),
        content: Bytes::from(payload),
        content_id: None,
    });
}

fn email(submission: &mut Submission) -> &mut postrider::message::Email {
    &mut std::sync::Arc::make_mut(&mut submission.message).email
}

/// Whether this postfix has the newer setting, and it is on by default.
fn refuses_bare_line_feeds() -> bool {
    let default = Command::new("/usr/sbin/postconf").args(["-dh", "smtpd_forbid_bare_newline"]).output();
    let default = default.expect("postconf runs").stdout;
    matches!(String::from_utf8_lossy(&default).trim(), "yes" | "normalize" | "reject")
}

/// Sends that as the data, as it is.
async fn careless(port: u16, data: &str) -> io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    let mut reply = String::new();
    stream.read_line(&mut reply).await?;
    for command in ["HELO client.example", "MAIL FROM:<from@sender.example>", "RCPT TO:<a@example.com>", "DATA"] {
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        stream.read_line(&mut reply).await?;
    }
    stream.write_all(data.as_bytes()).await?;
    stream.write_all(b"QUIT\r\n").await?;
    stream.read_to_string(&mut reply).await.map(drop)
}
