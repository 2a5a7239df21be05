//! Whether a provider can carry a message at all.
//!
//! Owns no state: the answer follows from what the adapter declares and from the message, and never changes.

use crate::{
    message::{Email, RecipientIndex},
    provider::{Capabilities, Lack},
};

/// Why a provider cannot carry a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is larger than the provider takes.
    #[error("message is larger than the {0} bytes that it takes")]
    TooLarge(u64),
    /// It has more recipients than the provider takes.
    #[error("more recipients than the {0} that it takes")]
    TooManyRecipients(usize),
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
    if let Some(limit) = can.max_bytes.filter(|limit| least_size(email) > *limit) {
        return Err(Unfit::TooLarge(limit));
    }
    if let Some(limit) = can.max_recipients.filter(|limit| recipients.len() > *limit) {
        return Err(Unfit::TooManyRecipients(limit));
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

impl Unfit {
    /// The field of the email that it is about, by its path in the API.
    pub fn field(self, email: &Email) -> String {
        match self {
            Unfit::TooLarge(_) | Unfit::Remainder => "email".to_owned(),
            Unfit::TooManyRecipients(_) => "email.to".to_owned(),
            Unfit::InlineImages => {
                let nth = email.attachments.iter().position(|attachment| attachment.content_id.is_some());
                format!("email.attachments[{}].content_id", nth.unwrap_or_default())
            }
            Unfit::Smtputf8 => non_ascii_field(email),
            Unfit::Lacking(lack) => match lack {
                Lack::Attachment => "email.attachments",
                Lack::RepeatedHeader => "email.headers",
                Lack::NoTo => "email.to",
                Lack::NoSubject => "email.subject",
            }
            .to_owned(),
        }
    }
}

/// The first address that is not ASCII.
fn non_ascii_field(email: &Email) -> String {
    if !email.from.address.is_ascii() {
        return "email.from.address".to_owned();
    }
    let lists = [("to", &email.to), ("cc", &email.cc), ("bcc", &email.bcc), ("reply_to", &email.reply_to)];
    let found = lists.iter().find_map(|(name, list)| {
        let nth = list.iter().position(|mailbox| !mailbox.address.is_ascii())?;
        Some(format!("email.{name}[{nth}].address"))
    });
    found.unwrap_or_else(|| "email".to_owned())
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
            (email(|e| e.attachments.push(attachment(3_000, None))), Err(Unfit::TooLarge(3_000))),
            (email(|e| e.html = Some("x".repeat(3_001))), Err(Unfit::TooLarge(3_000))),
            (email(|e| e.cc.push(mailbox("third@example.net"))), Err(Unfit::TooManyRecipients(2))),
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
    fn the_field_at_fault_is_named_by_its_path() {
        let non_ascii = || mailbox("почта@example.net");
        let table = [
            (email(|e| e.html = Some("x".repeat(3_001))), "email"),
            (email(|e| e.cc.push(mailbox("third@example.net"))), "email.to"),
            (
                email(|e| e.attachments.extend([attachment(10, None), attachment(10, Some("logo"))])),
                "email.attachments[1].content_id",
            ),
            (email(|e| e.to[1] = non_ascii()), "email.to[1].address"),
            (email(|e| e.from = non_ascii()), "email.from.address"),
            (email(|e| e.reply_to.push(non_ascii())), "email.reply_to[0].address"),
        ];
        for (email, expected) in table {
            let all: Vec<_> = email.recipients().map(|(recipient, _)| recipient).collect();
            let unfit = check(&nothing(), &email, &all).expect_err(expected);
            assert_eq!(unfit.field(&email), expected);
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
            (text(1_000_001), Err(Unfit::TooLarge(1_000_000))),
            (file(740_000), Ok(())),
            (file(750_001), Err(Unfit::TooLarge(1_000_000))),
        ] {
            assert_eq!(check(&can, &email, &all), expected);
        }
    }
}
