//! Debian's postfix: a mail server as it is run, from its smtpd over its queue into mailboxes.

use super::{has_grpcio, judge, send_specimens};
use crate::support::{postfix::Postfix, program::Program};

#[tokio::test]
async fn postfix_delivers_what_was_sent_and_nothing_besides() {
    if !has_grpcio() {
        return;
    }
    let Some(postfix) = Postfix::start("") else { return };
    let settings = format!(
        "[providers.relay]\nkind = \"smtp\"\nhost = \"localhost\"\nport = {}\ntls = \"starttls\"\nca_file = {:?}\n\
         [chains]\ndefault = [\"relay\"]\n",
        postfix.port,
        postfix.ca_file()
    );
    let program = Program::serve(&settings).await;
    let ids = send_specimens(&program, 1, &[]).await;
    let delivered = postfix.delivered(5).await;
    assert_eq!(delivered.len(), 5, "one copy for each recipient, and no message of its own");
    let mut owners = Vec::new();
    for copy in &delivered {
        let (content, owner) = without_trace(copy);
        judge(&content, &ids[0], &[]).await;
        owners.push(owner);
    }
    owners.sort();
    let expected =
        ["ada@example.com", "anna@example.com", "archive@shop.example", "joerg@example.com", "plain@example.com"];
    assert_eq!(owners, expected);
    program.stop().await;
}

/// A delivered message without what delivery put before it and with the line ends of SMTP, and whose copy it is.
fn without_trace(copy: &[u8]) -> (Vec<u8>, String) {
    let text = String::from_utf8(copy.to_vec()).expect("ASCII");
    let owner = text.lines().find_map(|line| line.strip_prefix("Delivered-To: ")).expect("whose it is");
    let own = text.find("\nFrom: ").expect("a sender") + 1;
    (text[own..].replace('\n', "\r\n").into_bytes(), owner.to_owned())
}
