//! The SMTP provider, spoken to over a bare socket.

use std::{io, time::Duration};

use postrider::sandbox::{
    AddressPattern,
    smtp::{Fault, Reply, SmtpOptions, SmtpSink, Stage},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);
const MAIL: &str = "Message-ID: <m1@shop.example>\r\nSubject: =?utf-8?B?0KHRh9GR0YI=?=\r\n\r\nHello\r\n";

async fn sink() -> SmtpSink {
    SmtpSink::start(SmtpOptions::default()).await.expect("it starts")
}

/// A client that does what it is told, right or wrong.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(sink: &SmtpSink) -> Self {
        Self(BufReader::new(TcpStream::connect(sink.address()).await.expect("it listens")))
    }

    /// Greeted, and past EHLO.
    async fn ready(sink: &SmtpSink) -> Self {
        let mut client = Self::connect(sink).await;
        client.expect("220").await;
        client.say("EHLO client.example\r\n", "250").await;
        client
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("sent");
    }

    /// The next reply, all its lines; `None` when the connection has ended.
    async fn reply(&mut self) -> Option<String> {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            let read = timeout(SOON, self.0.read_line(&mut line)).await.expect("a reply or the end");
            if read.unwrap_or(0) == 0 {
                return None;
            }
            assert!(line.ends_with("\r\n"), "{line:?}");
            reply.push_str(&line);
            if line.as_bytes()[3] == b' ' {
                return Some(reply);
            }
        }
    }

    async fn expect(&mut self, code: &str) {
        let reply = self.reply().await.expect("a reply");
        assert!(reply.starts_with(code), "{code} was expected: {reply}");
    }

    async fn say(&mut self, command: &str, code: &str) {
        self.send(command).await;
        self.expect(code).await;
    }

    /// Up to the reply to DATA.
    async fn envelope(&mut self, recipients: &[&str]) {
        self.say("MAIL FROM:<shop@shop.example>\r\n", "250").await;
        for recipient in recipients {
            self.say(&format!("RCPT TO:<{recipient}>\r\n"), "250").await;
        }
        self.say("DATA\r\n", "354").await;
    }

    async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(200), self.0.read_line(&mut String::new())).await.is_err()
    }

    async fn is_closed(&mut self) -> bool {
        self.reply().await.is_none()
    }
}

fn content(sink: &SmtpSink, number: u64) -> Vec<u8> {
    let mail = sink.inbox().get(number).expect("kept");
    mail.content.bytes().expect("kept").to_vec()
}

#[tokio::test]
async fn a_mail_is_kept_with_its_envelope_byte_for_byte() {
    let sink = sink().await;
    let mut client = Client::ready(&sink).await;
    client.envelope(&["a@example.org", "b@example.org"]).await;
    client.say(&format!("{MAIL}..\r\n..a\r\n.\r\n"), "250").await;
    let kept = sink.inbox().get(0).expect("kept");
    assert_eq!((kept.sender.as_str(), kept.recipients.len()), ("shop@shop.example", 2));
    assert_eq!((kept.message_id.as_str(), kept.subject.as_str()), ("m1@shop.example", "Счёт"));
    assert_eq!(content(&sink, 0), format!("{MAIL}.\r\n.a\r\n").as_bytes());

    client.envelope(&["a@example.org"]).await;
    client.say(&format!("{MAIL}.\r\n"), "250").await;
    let counts = sink.inbox().counts();
    assert_eq!((counts.mails, counts.repeats), (1, 1), "recognised by its Message-ID");
    client.say("QUIT\r\n", "221").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn what_looks_like_an_end_of_data_but_is_none_stays_inside_the_mail() {
    let sink = sink().await;
    let mut client = Client::ready(&sink).await;
    let second = "MAIL FROM:<evil@evil.example>\r\nRCPT TO:<b@example.org>\r\nDATA\r\nSubject: smuggled\r\n";
    for (number, end) in ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r\n.\r", "\r.\r\n"].iter().enumerate() {
        client.envelope(&["a@example.org"]).await;
        let body = format!("Message-ID: <{number}@x.example>\r\n\r\nfirst{end}{second}\r\n");
        client.say(&format!("{body}.\r\n"), "250").await;
        // A stuffed dot after a real CRLF is removed, which is all that may differ.
        let arrived = String::from_utf8(content(&sink, number as u64)).expect("text");
        assert_eq!(arrived, body.replace("\r\n.", "\r\n"), "{end:?}");
    }
    assert_eq!(sink.inbox().count(), 6);
    assert!(sink.inbox().by_recipient("b@example.org").is_empty());
}

#[tokio::test]
async fn commands_can_come_in_one_go() {
    let sink = sink().await;
    let mut client = Client::connect(&sink).await;
    let once = "MAIL FROM:<a@example.org> SIZE=100 BODY=8BITMIME\r\nRCPT TO:<b@example.org>\r\nDATA\r\nhi\r\n.\r\n";
    client.send(format!("EHLO me\r\n{once}{once}NOOP\r\nQUIT\r\n")).await;
    for code in ["220", "250", "250", "250", "354", "250", "250", "250", "354", "250", "250", "221"] {
        client.expect(code).await;
    }
    assert!(client.is_closed().await);
    assert_eq!(sink.inbox().count(), 2);
}

#[tokio::test]
async fn commands_out_of_order_and_beyond_the_limits_are_refused() {
    let options = SmtpOptions { max_bytes: 1_000, max_recipients: 1, ..SmtpOptions::default() };
    let sink = SmtpSink::start(options).await.expect("it starts");
    let mut client = Client::connect(&sink).await;
    client.expect("220").await;
    let long = "x".repeat(1_000);
    let dialogue = [
        ("MAIL FROM:<a@example.org>\r\n", "503"),
        ("EHLO\r\n", "501"),
        ("EHLO me\r\n", "250"),
        ("RCPT TO:<b@example.org>\r\n", "503"),
        ("DATA\r\n", "503"),
        ("STARTTLS\r\n", "502"),
        ("AUTH PLAIN =\r\n", "502"),
        ("NONSENSE\r\n", "500"),
        ("NO\nOP\r\n", "500"),
        ("MAIL FROM: <a@example.org>\r\n", "501"),
        ("MAIL FROM:<a@example.org> SIZE=1001\r\n", "552"),
        ("MAIL FROM:<a@example.org> NONSENSE\r\n", "555"),
        ("MAIL FROM:<ü@example.org>\r\n", "553"),
        ("MAIL FROM:<ü@example.org> SMTPUTF8\r\n", "250"),
        ("MAIL FROM:<a@example.org>\r\n", "503"),
        ("DATA\r\n", "503"),
        ("RCPT TO:<>\r\n", "501"),
        ("RCPT TO:<ö@example.org>\r\n", "250"),
        ("RCPT TO:<c@example.org>\r\n", "452"),
        ("DATA\r\n", "354"),
        (&format!("{long}\r\n.\r\n"), "552"),
        ("RSET\r\n", "250"),
        ("MAIL FROM:<>\r\n", "250"),
        ("RCPT TO:<b@example.org>\r\n", "250"),
        ("DATA\r\n", "354"),
        (&format!("{}\r\n.\r\n", &long[..999]), "552"),
        ("NOOP\r\n", "250"),
    ];
    for (command, code) in dialogue {
        client.say(command, code).await;
    }
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn while_it_refuses_nobody_listens_and_open_connections_are_cut() {
    let sink = sink().await;
    let mut open = Client::ready(&sink).await;
    sink.set_fault(Fault::Refuse).expect("closed");
    assert!(open.is_closed().await);
    let refused = TcpStream::connect(sink.address()).await.expect_err("nobody is there");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    sink.set_fault(Fault::None).expect("opened");
    Client::ready(&sink).await;
    assert_eq!(sink.connections(), 2);
}

const STEPS: [(Stage, &str, &str); 6] = [
    (Stage::Banner, "", "220"),
    (Stage::Hello, "EHLO me\r\n", "250"),
    (Stage::Mail, "MAIL FROM:<a@example.org>\r\n", "250"),
    (Stage::Rcpt, "RCPT TO:<b@example.org>\r\n", "250"),
    (Stage::Data, "DATA\r\n", "354"),
    (Stage::Dot, "hi\r\n.\r\n", "250"),
];

/// Connects and goes on to where the reply of that stage is due.
async fn up_to(sink: &SmtpSink, stage: Stage) -> Client {
    let mut client = Client::connect(sink).await;
    for (at, command, code) in STEPS {
        client.send(command).await;
        if at == stage {
            break;
        }
        client.expect(code).await;
    }
    client
}

#[tokio::test]
async fn it_falls_silent_at_every_stage() {
    let sink = sink().await;
    for (stage, ..) in STEPS {
        sink.set_fault(Fault::Silent { stage }).expect("switched");
        let mut client = up_to(&sink, stage).await;
        assert!(client.is_silent().await, "{stage}");
        client.send("NOOP\r\n").await;
        assert!(client.is_silent().await, "{stage}, for good");
    }
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn it_replies_as_told_at_every_stage() {
    let sink = sink().await;
    for (stage, ..) in STEPS {
        sink.set_fault(Fault::Status { stage, reply: Reply::new(451, "4.3.0 try later") }).expect("switched");
        let mut client = up_to(&sink, stage).await;
        assert_eq!(client.reply().await.as_deref(), Some("451 4.3.0 try later\r\n"), "{stage}");
        if stage == Stage::Banner {
            assert!(client.is_closed().await);
        } else {
            client.say("NOOP\r\n", "250").await;
        }
        sink.set_fault(Fault::Status { stage, reply: Reply::new(421, "4.3.2 bye") }).expect("switched");
        let mut client = up_to(&sink, stage).await;
        client.expect("421").await;
        assert!(client.is_closed().await, "421 ends the session at {stage}");
    }
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn it_hangs_up_at_every_stage() {
    let sink = sink().await;
    for (stage, ..) in STEPS {
        sink.set_fault(Fault::Drop { stage }).expect("switched");
        assert!(up_to(&sink, stage).await.is_closed().await, "{stage}");
    }
    assert_eq!(sink.inbox().count(), 0);
}

#[tokio::test]
async fn it_replies_late_at_every_stage_and_after_the_dot_the_mail_is_there_already() {
    let sink = sink().await;
    for (stage, _, code) in STEPS {
        sink.set_fault(Fault::Delay { stage, by: Duration::from_millis(1) }).expect("switched");
        up_to(&sink, stage).await.expect(code).await;
    }
    assert_eq!(sink.inbox().count(), 1);
    sink.set_fault(Fault::Delay { stage: Stage::Dot, by: Duration::from_secs(60) }).expect("switched");
    let mut client = up_to(&sink, Stage::Dot).await;
    sink.inbox().wait_until(|inbox| inbox.count() == 2, SOON).await.expect("kept at once");
    assert!(client.is_silent().await);
}

#[tokio::test]
async fn a_connection_lost_after_the_dot_leaves_the_mail_or_not() {
    let sink = sink().await;
    for (stored, kept) in [(false, 0), (true, 1)] {
        sink.set_fault(Fault::DropAfterDot { stored }).expect("switched");
        assert!(up_to(&sink, Stage::Dot).await.is_closed().await);
        assert_eq!(sink.inbox().count(), kept);
    }
}

#[tokio::test]
async fn of_three_recipients_one_is_rejected_and_later_one_is_put_off() {
    let sink = sink().await;
    let mut client = Client::ready(&sink).await;
    client.say("MAIL FROM:<shop@shop.example>\r\n", "250").await;
    sink.set_fault(Fault::RejectRecipient(AddressPattern::new("*@bad.example"))).expect("switched");
    client.say("RCPT TO:<a@bad.example>\r\n", "550").await;
    client.say("RCPT TO:<b@slow.example>\r\n", "250").await;
    client.say("RSET\r\n", "250").await;
    client.say("MAIL FROM:<shop@shop.example>\r\n", "250").await;
    sink.set_fault(Fault::DeferRecipient(AddressPattern::new("*@slow.example"))).expect("switched");
    client.say("RCPT TO:<b@slow.example>\r\n", "450").await;
    client.say("RCPT TO:<c@example.org>\r\n", "250").await;
    client.say("DATA\r\n", "354").await;
    client.say(&format!("{MAIL}.\r\n"), "250").await;
    assert_eq!(sink.inbox().get(0).expect("kept").recipients, ["c@example.org"]);
}

#[tokio::test]
async fn dropping_it_ends_its_connections() {
    let sink = sink().await;
    let address = sink.address();
    let mut client = Client::ready(&sink).await;
    sink.cut_connections();
    assert!(client.is_closed().await);
    let mut client = Client::ready(&sink).await;
    drop(sink);
    assert!(client.is_closed().await);
    TcpStream::connect(address).await.expect_err("it is gone");
}
