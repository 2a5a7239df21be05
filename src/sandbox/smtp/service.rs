//! What every session of one SMTP provider shares: its limits, its credentials, its fault, its inbox.
//!
//! Owns the keeping of mails; speaks to nobody.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use mail_parser::{HeaderName, MessageParser};
use tokio_rustls::TlsAcceptor;

use super::{Fault, SmtpCredentials};
use crate::sandbox::inbox::{Arrival, Content, Inbox};

/// What the sessions share.
pub(super) struct Service {
    pub(super) name: Arc<str>,
    pub(super) inbox: Inbox,
    pub(super) credentials: Option<SmtpCredentials>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) implicit_tls: bool,
    pub(super) max_bytes: usize,
    pub(super) max_recipients: usize,
    pub(super) fault: RwLock<Arc<Fault>>,
    /// Reads the two headers that the inbox shows and passes over the others.
    pub(super) headers: MessageParser,
}

/// The envelope of a mail.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    pub(super) sender: String,
    pub(super) recipients: Vec<String>,
    /// Whether addresses and headers may be other than ASCII (RFC 6531).
    pub(super) smtputf8: bool,
}

impl Service {
    pub(super) fn fault(&self) -> Arc<Fault> {
        self.fault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_fault(&self, fault: Fault) {
        *self.fault.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fault);
    }

    /// Keeps a mail; gives its number, an earlier one's if it arrived before.
    pub(super) fn keep(&self, envelope: Envelope, data: Bytes) -> u64 {
        let (message_id, subject) = self.read_headers(&data);
        self.inbox.receive(Arrival {
            provider: self.name.clone(),
            sender: envelope.sender,
            recipients: envelope.recipients,
            identity: message_id.clone(),
            message_id,
            subject,
            properties: Vec::new(),
            content: Content::Mime(data),
        })
    }

    /// Message-ID and subject, empty where there is none.
    fn read_headers(&self, data: &[u8]) -> (String, String) {
        let Some(mail) = self.headers.parse_headers(data) else { return Default::default() };
        (mail.message_id().unwrap_or_default().to_owned(), mail.subject().unwrap_or_default().to_owned())
    }
}

/// What reads Message-ID and subject.
pub(super) fn header_parser() -> MessageParser {
    MessageParser::new().header_id(HeaderName::MessageId).header_text(HeaderName::Subject).default_header_ignore()
}
