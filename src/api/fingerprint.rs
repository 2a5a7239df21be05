//! What makes two requests the same: a hash of a request as it was parsed, kept beside its idempotency key.
//!
//! Owns the form that is hashed; looks no key up.
//!
//! The form is a list of fields, each as its number, its length and its bytes. It does not depend on how a client's
//! library orders fields or map entries on the wire. A field that is not set is left out: when the contract grows, a
//! request that does not use the new field keeps its fingerprint, and two versions of Postrider agree on it. A change
//! to the form itself needs another [`VERSION`].
//!
//! Left out on purpose: `idempotency_key` (it is what the fingerprint stands beside), `validate_only` (nothing is
//! stored), and `correlation_id` (it says who asks, not what is asked: a repeat may come from another piece of the
//! caller's work). Times count as given, whether they have passed or not.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use sha2::{Digest, Sha256};

use crate::proto::v1 as pb;

/// The first byte of a fingerprint: by which form it was made.
pub const VERSION: u8 = 1;

/// What identifies a request: [`VERSION`], then SHA-256 over the form above.
pub(super) fn fingerprint(request: &pb::SendEmailRequest) -> Vec<u8> {
    let pb::SendEmailRequest {
        idempotency_key: _,
        email,
        send_at,
        expire_at,
        priority,
        unknown_outcome_policy,
        validate_only: _,
        correlation_id: _,
    } = request;

    let mut form = Form::default();
    if let Some(email) = email {
        form.group(2, |form| write_email(form, email));
    }
    form.time(3, *send_at);
    form.time(4, *expire_at);
    form.number(5, *priority, pb::Priority::Normal as i32);
    form.number(6, *unknown_outcome_policy, pb::UnknownOutcomePolicy::Resend as i32);

    let mut fingerprint = vec![VERSION];
    fingerprint.extend_from_slice(&form.hash.finalize());
    fingerprint
}

fn write_email(form: &mut Form, email: &pb::Email) {
    let pb::Email {
        from,
        to,
        cc,
        bcc,
        reply_to,
        subject,
        text,
        html,
        attachments,
        headers,
        tags,
        metadata,
        document_type,
    } = email;
    for (number, mailboxes) in [(1, from.as_slice()), (2, to), (3, cc), (4, bcc), (5, reply_to)] {
        for mailbox in mailboxes {
            form.group(number, |form| {
                form.bytes(1, mailbox.address.as_bytes());
                form.bytes(2, mailbox.name.as_bytes());
            });
        }
    }
    form.bytes(6, subject.as_bytes());
    form.bytes(7, text.as_bytes());
    form.bytes(8, html.as_bytes());
    for attachment in attachments {
        form.group(9, |form| {
            form.bytes(1, attachment.filename.as_bytes());
            form.bytes(2, attachment.content_type.as_bytes());
            form.bytes(3, &attachment.content);
            form.bytes(4, attachment.content_id.as_bytes());
        });
    }
    for header in headers {
        form.group(10, |form| {
            form.bytes(1, header.name.as_bytes());
            form.bytes(2, header.value.as_bytes());
        });
    }
    for tag in tags {
        form.group(11, |form| form.bytes(1, tag.as_bytes()));
    }
    for (key, value) in metadata.iter().collect::<BTreeMap<_, _>>() {
        form.group(12, |form| {
            form.bytes(1, key.as_bytes());
            form.bytes(2, value.as_bytes());
        });
    }
    form.bytes(13, document_type.as_bytes());
}

/// The form, as it is hashed. Groups are closed by a number that no field has, so that nothing can move from one group
/// into the next unnoticed.
#[derive(Default)]
struct Form {
    hash: Sha256,
}

impl Form {
    const END: u32 = 0;

    /// A field with bytes; nothing if there are none.
    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.hash.update(number.to_be_bytes());
        self.hash.update((bytes.len() as u64).to_be_bytes());
        self.hash.update(bytes);
    }

    /// An enum's value; nothing if it is unspecified or what unspecified means.
    fn number(&mut self, number: u32, value: i32, default: i32) {
        if value != 0 && value != default {
            self.bytes(number, &value.to_be_bytes());
        }
    }

    /// A time; nothing if there is none.
    fn time(&mut self, number: u32, time: Option<Timestamp>) {
        if let Some(Timestamp { seconds, nanos }) = time {
            self.bytes(number, &[&seconds.to_be_bytes()[..], &nanos.to_be_bytes()].concat());
        }
    }

    /// A field that has fields itself.
    fn group(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        self.hash.update(number.to_be_bytes());
        write(self);
        self.hash.update(Self::END.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn mailbox(address: &str, name: &str) -> pb::Mailbox {
        pb::Mailbox { address: address.into(), name: name.into() }
    }

    fn request() -> pb::SendEmailRequest {
        pb::SendEmailRequest {
            idempotency_key: "invoice-4711".into(),
            email: Some(pb::Email {
                from: Some(mailbox("billing@example.com", "Billing")),
                to: vec![mailbox("ada@example.com", "Ada"), mailbox("bob@example.com", "")],
                cc: vec![mailbox("cc@example.com", "")],
                subject: "Invoice 4711".into(),
                text: "Enclosed.".into(),
                attachments: vec![pb::Attachment {
                    filename: "invoice.pdf".into(),
                    content_type: "application/pdf".into(),
                    content: b"%PDF-1.7".to_vec().into(),
                    content_id: String::new(),
                }],
                headers: vec![pb::Header { name: "X-A".into(), value: "1".into() }],
                tags: vec!["invoice".into(), "june".into()],
                metadata: HashMap::from_iter((0..50).map(|i| (format!("key-{i}"), format!("value-{i}")))),
                document_type: "INVOICE".into(),
                ..Default::default()
            }),
            send_at: Some(Timestamp { seconds: 1_800_000_000, nanos: 5 }),
            expire_at: None,
            priority: pb::Priority::High as i32,
            unknown_outcome_policy: pb::UnknownOutcomePolicy::Hold as i32,
            validate_only: false,
            correlation_id: "c-1".into(),
        }
    }

    fn changed(change: impl FnOnce(&mut pb::SendEmailRequest)) -> Vec<u8> {
        let mut request = request();
        change(&mut request);
        fingerprint(&request)
    }

    fn changed_email(change: impl FnOnce(&mut pb::Email)) -> Vec<u8> {
        changed(|request| change(request.email.as_mut().expect("an email")))
    }

    #[test]
    fn the_form_is_the_one_that_is_in_databases() {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        // If this fails, keys used before the change are refused after it: raise VERSION and keep the old form beside.
        assert_eq!(hex(&fingerprint(&request())), "01e6f5e1663332b56f8dd7d278fd36cd6095d7f6c0261f430543d02e646492b93f");
        assert_eq!(
            hex(&fingerprint(&pb::SendEmailRequest::default())),
            "01e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "nothing set: the hash of nothing"
        );
    }

    #[test]
    fn the_order_of_map_entries_does_not_matter() {
        let reversed = changed_email(|email| {
            let mut entries: Vec<_> = email.metadata.drain().collect();
            entries.sort_by(|a, b| b.cmp(a));
            email.metadata = entries.into_iter().collect();
        });
        assert_eq!(reversed, fingerprint(&request()));
    }

    #[test]
    fn what_is_not_asked_for_is_not_compared() {
        let same = fingerprint(&request());
        assert_eq!(changed(|r| r.correlation_id = "another".into()), same);
        assert_eq!(changed(|r| r.validate_only = true), same);
        assert_eq!(changed(|r| r.idempotency_key = "another".into()), same);
    }

    #[test]
    fn unspecified_is_what_it_means() {
        let normal = changed(|r| r.priority = pb::Priority::Normal as i32);
        assert_eq!(changed(|r| r.priority = pb::Priority::Unspecified as i32), normal);
        let resend = changed(|r| r.unknown_outcome_policy = pb::UnknownOutcomePolicy::Resend as i32);
        assert_eq!(changed(|r| r.unknown_outcome_policy = 0), resend);
    }

    #[test]
    fn every_difference_shows() {
        let variants = [
            fingerprint(&request()),
            changed(|r| r.email = None),
            changed(|r| r.send_at = None),
            changed(|r| r.send_at = Some(Timestamp { seconds: 1_800_000_000, nanos: 6 })),
            changed(|r| r.expire_at = r.send_at.take()),
            changed(|r| r.priority = pb::Priority::Bulk as i32),
            changed(|r| r.priority = pb::Priority::Normal as i32),
            changed(|r| r.priority = 77),
            changed(|r| r.unknown_outcome_policy = 0),
            changed_email(|e| e.from = None),
            changed_email(|e| e.from = e.to.pop()),
            changed_email(|e| e.to.swap(0, 1)),
            changed_email(|e| e.bcc = std::mem::take(&mut e.cc)),
            changed_email(|e| e.reply_to = std::mem::take(&mut e.cc)),
            changed_email(|e| e.to[1] = mailbox("bob@example.co", "m")),
            changed_email(|e| e.to[1].name = "Bob".into()),
            changed_email(|e| e.subject.push('1')),
            changed_email(|e| e.html = std::mem::take(&mut e.text)),
            changed_email(|e| e.attachments[0].content = b"%PDF-1.8".to_vec().into()),
            changed_email(|e| e.attachments[0].content_id = "logo".into()),
            changed_email(|e| e.attachments[0].filename = "other.pdf".into()),
            changed_email(|e| e.attachments[0].content_type.clear()),
            changed_email(|e| e.attachments.push(pb::Attachment::default())),
            changed_email(|e| e.headers[0].value = "2".into()),
            changed_email(|e| e.headers[0].name = "X-B".into()),
            changed_email(|e| e.tags = vec!["invoicejune".into()]),
            changed_email(|e| e.tags.reverse()),
            changed_email(|e| drop(e.metadata.remove("key-7"))),
            changed_email(|e| drop(e.metadata.insert("key-7".into(), "value-8".into()))),
            changed_email(|e| e.document_type.clear()),
        ];
        for (i, one) in variants.iter().enumerate() {
            assert_eq!((one.len(), one[0]), (33, VERSION));
            for (j, other) in variants.iter().enumerate().skip(i + 1) {
                assert_ne!(one, other, "variants {i} and {j}");
            }
        }
    }
}
