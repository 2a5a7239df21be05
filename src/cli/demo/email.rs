//! The emails of the demo.
//!
//! Owns their content, which differs from one to the next; sends nothing.

use bytes::Bytes;

use crate::proto::v1;

/// The request for one of them: each has a recipient and a key of its own, and an invoice attached.
pub(super) fn request(nth: u32) -> v1::SendEmailRequest {
    let mailbox = |address: String, name: &str| v1::Mailbox { address, name: name.to_owned() };
    let invoice = v1::Attachment {
        filename: format!("invoice-{nth}.pdf"),
        content_type: "application/pdf".to_owned(),
        content: invoice(nth),
        content_id: String::new(),
    };
    let email = v1::Email {
        from: Some(mailbox("billing@shop.example".to_owned(), "The Shop")),
        to: vec![mailbox(format!("customer-{nth}@example.org"), "")],
        subject: format!("Your invoice {nth}"),
        text: "Dear customer,\n\nyour invoice is attached.\n".to_owned(),
        html: "<p>Dear customer,</p><p>your invoice is attached.</p>".to_owned(),
        attachments: vec![invoice],
        document_type: "INVOICE".to_owned(),
        ..v1::Email::default()
    };
    v1::SendEmailRequest {
        idempotency_key: format!("demo-invoice-{nth}"),
        email: Some(email),
        ..v1::SendEmailRequest::default()
    }
}

/// A small PDF of 16 KB.
fn invoice(nth: u32) -> Bytes {
    let mut pdf = format!("%PDF-1.4\n% Invoice {nth}\n").into_bytes();
    let line = format!("% {nth:0>60}\n");
    while pdf.len() < 16 * 1024 {
        pdf.extend_from_slice(line.as_bytes());
    }
    pdf.extend_from_slice(b"%%EOF\n");
    pdf.into()
}
