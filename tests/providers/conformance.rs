//! What every adapter of an HTTP API does, whoever is at the other end. The table of adapters and rows is printed.

mod rows;

use postrider::{
    delivery::Outcome,
    message::{Message, UnknownOutcome},
    provider::Provider,
};
use tokio::task::JoinSet;

use self::rows::ROWS;
use super::{Behaviour, HttpPeer, Way, build, carried_by_all, health, subject::SUBJECTS, submission};

#[tokio::test]
async fn every_adapter_passes_every_row() {
    let mut cells = JoinSet::new();
    for (column, _) in SUBJECTS.iter().enumerate() {
        cells.spawn(async move {
            let mut found = Vec::new();
            for row in &ROWS {
                found.push(row.try_with(SUBJECTS[column]).await);
            }
            (column, found)
        });
    }
    let mut columns = cells.join_all().await;
    columns.sort_by_key(|(column, _)| *column);
    let columns: Vec<Vec<Result<(), String>>> = columns.into_iter().map(|(_, found)| found).collect();

    let kinds = SUBJECTS.iter().map(|subject| format!("{:>9}", subject.kind)).collect::<String>();
    eprintln!("{:<48}{kinds}", "");
    let mut wrong = Vec::new();
    for (line, row) in ROWS.iter().enumerate() {
        let cells = columns.iter().map(|column| if column[line].is_ok() { "ok" } else { "FAIL" });
        eprintln!("{:<48}{}", row.name, cells.map(|cell| format!("{cell:>9}")).collect::<String>());
        for (subject, column) in SUBJECTS.iter().zip(&columns) {
            wrong.extend(column[line].as_ref().err().map(|found| format!("{}, {}: {found}", subject.kind, row.name)));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A change to an email, and its name.
type Change = (&'static str, fn(&mut Message));

#[tokio::test]
async fn nothing_in_an_email_becomes_a_header_of_its_own() {
    const EVIL: &str = "a\r\nBcc: eve@example.com";
    let changes: [Change; 8] = [
        ("the subject", |m| m.email.subject = EVIL.to_owned()),
        ("the sender's name", |m| m.email.from.name = Some(EVIL.to_owned())),
        ("a recipient's name", |m| m.email.bcc[0].name = Some(EVIL.to_owned())),
        ("the name for answers", |m| m.email.reply_to[0].name = Some(EVIL.to_owned())),
        ("the name of a header", |m| m.email.headers[0].name = EVIL.to_owned()),
        ("the value of a header", |m| m.email.headers[0].value = EVIL.to_owned()),
        ("the name of a file", |m| m.email.attachments[0].filename = format!("{EVIL}.pdf")),
        ("a tag", |m| m.email.tags[0] = EVIL.to_owned()),
    ];
    for subject in SUBJECTS {
        let mut peer = HttpPeer::start(&[Behaviour::Answer((subject.accept)())]).await;
        let account = build(&(subject.settings)(&Way::to(&peer.base())));
        for (what, change) in changes {
            let mut message = message(UnknownOutcome::Resend);
            change(&mut message);
            let found = uniform(&account.send(submission(message, &[0, 1, 2, 3])).await);
            assert_eq!(found, "UNFIT_HERE MESSAGE_AT_PROVIDER encoding / neutral", "{}: {what}", subject.kind);
        }
        assert!(peer.is_quiet(), "{}", subject.kind);
    }
}

#[tokio::test]
async fn what_is_larger_than_a_provider_takes_is_not_offered() {
    for subject in SUBJECTS {
        let mut peer = HttpPeer::start(&[Behaviour::Answer((subject.accept)())]).await;
        let account = build(&(subject.settings)(&Way::to(&peer.base())));
        let Some(limit) = account.capabilities().max_bytes else { continue };
        let mut message = message(UnknownOutcome::Resend);
        message.email.attachments[0].content = vec![0; usize::try_from(limit).unwrap() / 4 * 3].into();
        let found = uniform(&account.send(submission(message, &[0, 1, 2, 3])).await);
        assert_eq!(found, "UNFIT_HERE MESSAGE_AT_PROVIDER size / neutral", "{}", subject.kind);
        assert!(peer.is_quiet(), "{}", subject.kind);
    }
}

/// The email that is handed over in every row: larger than what a connection takes before anybody reads.
fn message(unknown_outcome: UnknownOutcome) -> Message {
    Message { unknown_outcome, ..carried_by_all() }
}

async fn send(account: &dyn Provider, unknown_outcome: UnknownOutcome) -> Outcome {
    account.send(submission(message(unknown_outcome), &[0, 1, 2, 3])).await
}

/// One line for an outcome whose verdict is the same for all.
fn uniform(outcome: &Outcome) -> String {
    let verdict = |(_, verdict): &(_, postrider::delivery::Verdict)| {
        format!("{} {} {}", verdict.class.as_str(), verdict.scope.as_str(), verdict.code)
    };
    let mut verdicts: Vec<String> = outcome.verdicts.iter().map(verdict).collect();
    assert_eq!(verdicts.len(), 4, "a verdict for each recipient");
    verdicts.dedup();
    format!("{} / {}", verdicts.join(" | "), health(outcome.health))
}
