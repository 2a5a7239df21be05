//! Whether a provider can carry a message at all.
//!
//! Owns no state: the answer follows from what the adapter declares and from the message, and never changes.

use crate::{
    message::{Email, RecipientIndex},
    provider::Capabilities,
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
}

/// Whether a provider can carry an email for those recipients.
pub(super) fn check(can: &Capabilities, email: &Email, recipients: &[RecipientIndex]) -> Result<(), Unfit> {
    if can.max_bytes.is_some_and(|limit| encoded_size(email) > limit) {
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
    Ok(())
}

/// An estimate of the bytes on the wire, on the high side for the usual message: everything in base64 (RFC 2045,
/// section 6.8: 57 bytes make a line of 76 characters and its end), and a few hundred bytes of headers a part.
fn encoded_size(email: &Email) -> u64 {
    const HEADERS_OF_A_PART: usize = 300;
    const HEADERS_OF_THE_WHOLE: usize = 1000;
    let encoded = |bytes: usize| bytes.div_ceil(57) * 78;
    let part = |bytes: usize| encoded(bytes) + HEADERS_OF_A_PART;

    let bodies = [&email.text, &email.html].into_iter().flatten().map(|body| part(body.len()));
    let attachments = email.attachments.iter().map(|a| part(a.content.len()) + encoded(a.filename.len()));
    let mailboxes = email.to.iter().chain(&email.cc).chain(&email.reply_to).chain([&email.from]);
    let addresses =
        mailboxes.map(|mailbox| encoded(mailbox.name.as_ref().map_or(0, String::len)) + mailbox.address.as_str().len());
    let headers = email.headers.iter().map(|header| header.name.len() + encoded(header.value.len()));

    let size = HEADERS_OF_THE_WHOLE + encoded(email.subject.len());
    let size = size + bodies.chain(attachments).chain(addresses).chain(headers).sum::<usize>();
    u64::try_from(size).unwrap_or(u64::MAX)
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
    use crate::chain::testing::{attachment, mailbox, message};

    fn everything() -> Capabilities {
        Capabilities {
            max_bytes: None,
            max_recipients: None,
            envelope_apart: true,
            inline_images: true,
            smtputf8: true,
            idempotency: None,
        }
    }

    fn nothing() -> Capabilities {
        Capabilities {
            max_bytes: Some(3_000),
            max_recipients: Some(2),
            envelope_apart: false,
            inline_images: false,
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
        let table = [
            (email(|_| ()), Ok(())),
            (email(|e| e.attachments.push(attachment(200, None))), Ok(())),
            (email(|e| e.attachments.push(attachment(3_000, None))), Err(Unfit::TooLarge)),
            (email(|e| e.html = Some("x".repeat(3_000))), Err(Unfit::TooLarge)),
            (email(|e| e.cc.push(mailbox("third@example.net"))), Err(Unfit::TooManyRecipients)),
            (email(|e| e.attachments.push(attachment(10, Some("logo")))), Err(Unfit::InlineImages)),
            (email(|e| e.to[1] = non_ascii()), Err(Unfit::Smtputf8)),
            (email(|e| e.from = non_ascii()), Err(Unfit::Smtputf8)),
            (email(|e| e.reply_to.push(non_ascii())), Err(Unfit::Smtputf8)),
            (email(|e| e.to[1] = mailbox("reader@почта.example")), Ok(())),
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
    fn the_size_is_that_after_encoding() {
        let email = email(|e| e.attachments.push(attachment(3_000_000, None)));
        let size = encoded_size(&email);
        assert!((4_105_000..4_125_000).contains(&size), "{size}");
    }
}
