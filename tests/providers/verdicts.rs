//! Answers and what each adapter makes of them, told over real HTTP.

use postrider::message::{Message, UnknownOutcome};

use super::{Behaviour, HttpPeer, Subject, Way, all_recipients, build, response, submission, summary, to_one};

/// An answer (status, headers, body) and the summary of the outcome that it must come to.
pub type Row<'a> = (u16, &'a str, &'a str, &'a str);

/// Holds the adapter to the rows, with a message to one recipient that may be sent again.
pub async fn assert_verdicts(subject: &Subject, rows: &[Row<'_>]) {
    assert_verdicts_for(subject, &to_one(), rows).await;
}

/// The same with a message that must not be sent twice.
pub async fn assert_verdicts_under_hold(subject: &Subject, rows: &[Row<'_>]) {
    assert_verdicts_for(subject, &Message { unknown_outcome: UnknownOutcome::Hold, ..to_one() }, rows).await;
}

/// The same with that message to all of its recipients.
pub async fn assert_verdicts_for(subject: &Subject, message: &Message, rows: &[Row<'_>]) {
    let answer = |(status, headers, body, _): &Row<'_>| Behaviour::Answer(response(*status, headers, body));
    let peer = HttpPeer::start(&rows.iter().map(answer).collect::<Vec<_>>()).await;
    let account = build(&(subject.settings)(&Way::to(&peer.base())));
    let recipients = all_recipients(message);
    let mut wrong = Vec::new();
    for (status, _, body, expected) in rows {
        let outcome = account.send(submission(message.clone(), &recipients)).await;
        let found = summary(&outcome);
        if found != *expected {
            wrong.push(format!("{status} {body}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", subject.kind, wrong.join("\n"));
}
