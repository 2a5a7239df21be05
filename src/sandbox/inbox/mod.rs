//! What arrived at the sandbox's providers, in one form, for those who look and those who wait.
//!
//! Owns recognising what arrived before; has no part in how it arrived.

mod mail;
mod shelf;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{error::Elapsed, timeout},
};

use self::shelf::Shelf;
pub use self::{
    mail::{Content, Mail},
    shelf::{Counts, Keep},
};
pub(super) use mail::{Arrival, bare_message_id};

/// What arrived; a handle, cheap to clone. Several providers can share one.
#[derive(Clone)]
pub struct Inbox {
    shared: Arc<Shared>,
}

struct Shared {
    keep: Keep,
    shelf: Mutex<Shelf>,
    arrived: Notify,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new(Keep::CONTENT)
    }
}

impl Inbox {
    /// An empty inbox.
    pub fn new(keep: Keep) -> Self {
        Self { shared: Arc::new(Shared { keep, shelf: Mutex::default(), arrived: Notify::new() }) }
    }

    /// Every mail that is kept, the oldest first.
    pub fn all(&self) -> Vec<Arc<Mail>> {
        self.find(|_| true)
    }

    /// The mails of a recipient; case does not matter.
    pub fn by_recipient(&self, address: &str) -> Vec<Arc<Mail>> {
        self.find(|mail| mail.recipients.iter().any(|recipient| recipient.eq_ignore_ascii_case(address)))
    }

    /// The mails of a Message-ID, with or without its angle brackets.
    pub fn by_message_id(&self, message_id: &str) -> Vec<Arc<Mail>> {
        let wanted = bare_message_id(message_id);
        self.find(|mail| mail.message_id == wanted)
    }

    /// The mail of that number, while it is kept.
    pub fn get(&self, number: u64) -> Option<Arc<Mail>> {
        self.shelf().mail(number)
    }

    /// How much arrived.
    pub fn counts(&self) -> Counts {
        self.shelf().counts()
    }

    /// How many mails arrived, each counted once.
    pub fn count(&self) -> u64 {
        self.counts().mails
    }

    /// Waits until the condition holds; it is asked at once and whenever something has arrived.
    pub async fn wait_until(&self, condition: impl Fn(&Inbox) -> bool, longest: Duration) -> Result<(), Elapsed> {
        let holds = async {
            loop {
                let mut arrived = std::pin::pin!(self.shared.arrived.notified());
                // Listening begins before the look, so that nothing that arrives between the two is missed.
                arrived.as_mut().enable();
                if condition(self) {
                    return;
                }
                arrived.await;
            }
        };
        timeout(longest, holds).await
    }

    /// Takes in what arrived; gives the number of the mail, an earlier one's if it is a repeat.
    pub(super) fn receive(&self, arrival: Arrival) -> u64 {
        let number = self.shelf().receive(arrival, self.shared.keep);
        self.shared.arrived.notify_waiters();
        number
    }

    fn find(&self, wanted: impl Fn(&Mail) -> bool) -> Vec<Arc<Mail>> {
        self.shelf().mails().filter(|mail| wanted(mail)).cloned().collect()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shared.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn arrival(identity: &str, recipients: &[&str], bytes: usize) -> Arrival {
        Arrival {
            provider: "relay".into(),
            sender: "shop@example.org".into(),
            recipients: recipients.iter().map(ToString::to_string).collect(),
            message_id: identity.into(),
            subject: "Invoice".into(),
            properties: Vec::new(),
            content: Content::Mime(vec![b'x'; bytes].into()),
            identity: identity.into(),
        }
    }

    #[test]
    fn what_arrives_again_is_counted_on_the_first_mail() {
        let inbox = Inbox::default();
        assert_eq!(inbox.receive(arrival("1", &["a@example.org"], 1)), 0);
        assert_eq!(inbox.receive(arrival("1", &["A@example.org"], 1)), 0);
        assert_eq!(inbox.receive(arrival("2", &["a@example.org"], 1)), 1);
        assert_eq!(inbox.counts(), Counts { mails: 2, recipients: 2, repeats: 1 });
        assert_eq!(inbox.get(0).expect("kept").repeats, 1);
        assert_eq!(inbox.by_recipient("a@EXAMPLE.org").len(), 2);
        assert_eq!(inbox.by_message_id("<2>").len(), 1);
    }

    #[test]
    fn the_same_mail_for_other_recipients_is_no_repeat() {
        let inbox = Inbox::default();
        inbox.receive(arrival("1", &["a@example.org"], 1));
        inbox.receive(arrival("1", &["a@example.org", "b@example.org"], 1));
        assert_eq!(inbox.counts(), Counts { mails: 2, recipients: 2, repeats: 1 });
        assert_eq!(inbox.get(1).expect("kept").recipients, ["b@example.org"]);
    }

    #[test]
    fn the_same_identity_at_another_provider_is_no_repeat() {
        let inbox = Inbox::default();
        inbox.receive(arrival("1", &["a@example.org"], 1));
        inbox.receive(Arrival { provider: "gateway".into(), ..arrival("1", &["a@example.org"], 1) });
        assert_eq!(inbox.counts().repeats, 0);
        assert_eq!(inbox.by_message_id("1").len(), 2);
    }

    #[test]
    fn without_an_identity_nothing_is_a_repeat() {
        let inbox = Inbox::default();
        inbox.receive(arrival("", &["a@example.org"], 1));
        inbox.receive(arrival("", &["a@example.org"], 1));
        assert_eq!(inbox.counts(), Counts { mails: 2, recipients: 2, repeats: 0 });
    }

    #[test]
    fn the_oldest_contents_go_first_and_then_the_oldest_mails() {
        let inbox = Inbox::new(Keep { mails: 3, bytes: 100, listed: true });
        for identity in ["0", "1", "2", "3", "4"] {
            inbox.receive(arrival(identity, &["a@example.org"], 50));
        }
        assert!(inbox.get(1).is_none());
        assert!(inbox.get(2).expect("kept").content == Content::Dropped);
        assert_eq!(inbox.get(3).and_then(|mail| mail.content.bytes().map(Bytes::len)), Some(50));
        assert_eq!(inbox.all().len(), 3);
        inbox.receive(arrival("5", &["a@example.org"], 500));
        assert!(inbox.get(5).expect("kept").content == Content::Dropped);
        assert_eq!(inbox.receive(arrival("0", &["a@example.org"], 1)), 6, "forgotten, so it is new");
        assert_eq!(inbox.count(), 7);
    }

    #[test]
    fn counting_only_keeps_no_mail_and_still_recognises() {
        let inbox = Inbox::new(Keep::COUNTS);
        inbox.receive(arrival("1", &["a@example.org"], 10));
        inbox.receive(arrival("1", &["a@example.org"], 10));
        assert_eq!(inbox.counts(), Counts { mails: 1, recipients: 1, repeats: 1 });
        assert!(inbox.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_arrival_or_the_time() {
        let inbox = Inbox::default();
        let longest = Duration::from_secs(5);
        assert!(inbox.wait_until(|inbox| inbox.count() == 1, longest).await.is_err());
        let waiting = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.wait_until(|inbox| inbox.count() == 1, longest).await }
        });
        tokio::task::yield_now().await;
        inbox.receive(arrival("1", &["a@example.org"], 1));
        assert!(waiting.await.expect("no panic").is_ok());
    }
}
