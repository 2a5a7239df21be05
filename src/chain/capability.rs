//! Whether a provider can carry a message at all.
//!
//! Owns no state: the answer follows from what the adapter declares and from the message, and never changes.

use crate::{
    message::{Email, RecipientIndex},
    provider::{Capabilities, Lack},
};

/// Why a provider cannot carry a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// It is larger than the provider takes.
    #[error("message is larger than it takes")]
    TooLarge,
    /// It has more recipients than the provider takes.
    #[error("more recipients than it takes")]
    TooManyRecipients,
    /// Headers and envelope are one to the provider, and only some of the recipients are to be offered.
    #[error("cannot be offered some of the recipients only")]
    Remainder,
    /// It has images shown inside the HTML.
    #[error("does not show images inside the HTML")]
    InlineImages,
    /// It has an address with a non-ASCII local part.
    #[error("does not carry non-ASCII addresses")]
    Smtputf8,
    /// It is of a kind that the provider does not carry for anybody.
    #[error(transparent)]
    Lacking(#[from] Lack),
}

/// Whether a provider can carry an email for those recipients.
pub(super) fn check(can: &Capabilities, email: &Email, recipients: &[RecipientIndex]) -> Result<(), Unfit> {
    if can.max_bytes.is_some_and(|limit| least_size(email) > limit) {
        return Err(Unfit::TooLarge);
    }
    if can.max_recipients.is_some_and(|limit| recipients.len() > limit) {
        return Err(Unfit::TooManyRecipients);
    }
    if !can.envelope_apart && recipients.len() < email.recipient_count() {
        return Err(Unfit::Remainder);
    }
    if !can.inline_images && email.attachments.iter().any(|attachment| attachment.content_id.is_some()) {
        return Err(Unfit::InlineImages);
    }
    if !can.smtputf8 && needs_smtputf8(email, recipients) {
        return Err(Unfit::Smtputf8);
    }
    can.lack(email).map_or(Ok(()), |lack| Err(lack.into()))
}

/// A size that no encoding on the wire falls short of: attachments in base64 without line ends, bodies and subject as
/// they are. What is close to the limit goes to the adapter, which knows its encoding to the byte: refused here, a
/// message that it would have taken could end with a person.
fn least_size(email: &Email) -> u64 {
    let texts = [Some(&email.subject), email.text.as_ref(), email.html.as_ref()];
    let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
    let attachments = email.attachments.iter().map(|a| a.content.len().div_ceil(3) * 4).sum::<usize>();
    u64::try_from(texts + attachments).unwrap_or(u64::MAX)
}

/// Whether RFC 6531 is needed: for an address of the headers, or one of the recipients to be offered.
fn needs_smtputf8(email: &Email, recipients: &[RecipientIndex]) -> bool {
    let in_headers = email.to.iter().chain(&email.cc).chain(&email.reply_to).chain([&email.from]);
    let in_envelope = recipients.iter().filter_map(|&recipient| email.recipient(recipient));
    in_headers.chain(in_envelope).any(|mailbox| !mailbox.address.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::testing::{attachment, mailbox, message},
        message::{Attachment, Header},
        provider::AttachmentNames,
    };

    fn everything() -> Capabilities {
        Capabilities::unlimited()
    }

    fn nothing() -> Capabilities {
        Capabilities {
            max_bytes: Some(3_000),
            max_recipients: Some(2),
            envelope_apart: false,
            inline_images: false,
            attachments: AttachmentNames::AllBut(&["exe"]),
            repeated_headers: false,
            without_to: false,
            without_subject: false,
            smtputf8: false,
            idempotency: None,
        }
    }

    /// A change to a plain email to two recipients.
    fn email(change: impl FnOnce(&mut Email)) -> Email {
        let mut email = message(2).email;
        change(&mut email);
        email
    }

    #[test]
    fn each_lacking_capability_is_named_and_a_provider_that_has_it_carries_the_message() {
        let non_ascii = || mailbox("почта@example.net");
        let program = Attachment { filename: "a.exe".to_owned(), ..attachment(10, None) };
        let header = |name: &str| Header { name: name.to_owned(), value: "1".to_owned() };
        let table = [
            (email(|_| ()), Ok(())),
            (email(|e| e.attachments.push(attachment(200, None))), Ok(())),
            (email(|e| e.attachments.push(attachment(3_000, None))), Err(Unfit::TooLarge)),
            (email(|e| e.html = Some("x".repeat(3_001))), Err(Unfit::TooLarge)),
            (email(|e| e.cc.push(mailbox("third@example.net"))), Err(Unfit::TooManyRecipients)),
            (email(|e| e.attachments.push(attachment(10, Some("logo")))), Err(Unfit::InlineImages)),
            (email(|e| e.to[1] = non_ascii()), Err(Unfit::Smtputf8)),
            (email(|e| e.from = non_ascii()), Err(Unfit::Smtputf8)),
            (email(|e| e.reply_to.push(non_ascii())), Err(Unfit::Smtputf8)),
            (email(|e| e.to[1] = mailbox("reader@почта.example")), Ok(())),
            (email(|e| e.attachments.push(program.clone())), Err(Unfit::Lacking(Lack::Attachment))),
            (email(|e| e.headers = ["X-A", "x-a"].map(header).to_vec()), Err(Unfit::Lacking(Lack::RepeatedHeader))),
            (email(|e| e.bcc = e.to.drain(..).collect()), Err(Unfit::Lacking(Lack::NoTo))),
            (email(|e| e.subject = " ".to_owned()), Err(Unfit::Lacking(Lack::NoSubject))),
        ];
        for (email, expected) in table {
            let all: Vec<_> = email.recipients().map(|(recipient, _)| recipient).collect();
            assert_eq!(check(&nothing(), &email, &all), expected);
            assert_eq!(check(&everything(), &email, &all), Ok(()));
        }
    }

    #[test]
    fn a_remainder_needs_the_envelope_apart() {
        let email = email(|_| ());
        assert_eq!(check(&nothing(), &email, &[RecipientIndex(1)]), Err(Unfit::Remainder));
        assert_eq!(check(&everything(), &email, &[RecipientIndex(1)]), Ok(()));
    }

    #[test]
    fn a_blind_copy_matters_only_while_it_is_offered() {
        let can = Capabilities { smtputf8: false, ..everything() };
        let email = email(|e| e.bcc.push(mailbox("почта@example.net")));
        assert_eq!(check(&can, &email, &[RecipientIndex(0), RecipientIndex(1)]), Ok(()));
        assert_eq!(check(&can, &email, &[RecipientIndex(2)]), Err(Unfit::Smtputf8));
    }

    #[test]
    fn only_recipients_that_are_offered_are_counted() {
        let can = Capabilities { max_recipients: Some(1), ..everything() };
        assert_eq!(check(&can, &message(3).email, &[RecipientIndex(2)]), Ok(()));
    }

    #[test]
    fn only_what_no_encoding_makes_small_enough_is_too_large() {
        let can = Capabilities { max_bytes: Some(1_000_000), ..everything() };
        let all = [RecipientIndex(0), RecipientIndex(1)];
        let text = |bytes: usize| email(|e| e.text = Some("x".repeat(bytes)));
        let file = |bytes: usize| email(|e| e.attachments.push(attachment(bytes, None)));
        for (email, expected) in [
            (text(990_000), Ok(())),
            (text(1_000_001), Err(Unfit::TooLarge)),
            (file(740_000), Ok(())),
            (file(750_001), Err(Unfit::TooLarge)),
        ] {
            assert_eq!(check(&can, &email, &all), expected);
        }
    }
}
