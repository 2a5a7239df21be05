//! What arrived at the sandbox's providers, in one form, for those who look and those who wait.
//!
//! Owns recognising what arrived before; has no part in how it arrived.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use time::OffsetDateTime;
use tokio::{
    sync::Notify,
    time::{error::Elapsed, timeout},
};

/// A mail that arrived.
#[derive(Clone)]
pub struct Mail {
    /// Its number in this inbox, from 0 in the order of arrival.
    pub number: u64,
    /// The provider it arrived at.
    pub provider: Arc<str>,
    /// The envelope's sender.
    pub sender: String,
    /// The envelope's recipients. One that had this mail before is not here again: that is a repeat.
    pub recipients: Vec<String>,
    /// Its Message-ID without the angle brackets, or what a gateway is given in its place; empty if it had none.
    pub message_id: String,
    /// Its subject.
    pub subject: String,
    /// When it arrived, by this machine's clock.
    pub received_at: OffsetDateTime,
    /// How often it arrived again.
    pub repeats: u32,
    /// The headers of the request that brought it, names in lower case, credentials left out. None by SMTP.
    pub properties: Vec<(String, String)>,
    /// What it consists of.
    pub content: Content,
}

impl Mail {
    /// The header of that name (in lower case) of the request that brought it.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Nothing that could be an address.
impl std::fmt::Debug for Mail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mail")
            .field("number", &self.number)
            .field("provider", &self.provider)
            .field("recipients", &self.recipients.len())
            .field("repeats", &self.repeats)
            .finish_non_exhaustive()
    }
}

/// What a mail consists of.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// The bytes of its MIME form, as they were before the transport stuffed dots.
    Mime(Bytes),
    /// The bytes of its JSON form.
    Json(Bytes),
    /// It was not kept.
    Dropped,
}

impl Content {
    /// The bytes; `None` if they were not kept.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Content::Mime(bytes) | Content::Json(bytes) => Some(bytes),
            Content::Dropped => None,
        }
    }
}

/// How much of what arrives is kept. Whatever is chosen, everything is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// For how many mails. Of older ones nothing is left, and they are not recognised when they arrive again.
    pub mails: usize,
    /// Of how many bytes the newest contents are kept.
    pub bytes: usize,
    /// Whether mails can be looked at; without it they are only counted and recognised.
    pub listed: bool,
}

impl Keep {
    /// What suits looking at mails: the last 10,000, with 256 MB of content.
    pub const CONTENT: Keep = Keep { mails: 10_000, bytes: 256 * 1024 * 1024, listed: true };
    /// What suits load: numbers, and a million mails recognised.
    pub const COUNTS: Keep = Keep { mails: 1_000_000, bytes: 0, listed: false };
}

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

#[derive(Default)]
struct Shelf {
    /// The newest mails, without a gap in their numbers.
    places: VecDeque<Place>,
    /// Where a recipient's mail is, by the hash of provider, identity and recipient.
    known: HashMap<u64, u64>,
    counts: Counts,
    bytes: usize,
    /// The number of the first mail whose content is still there.
    first_whole: u64,
}

struct Place {
    marks: Vec<u64>,
    mail: Option<Arc<Mail>>,
}

/// How much arrived since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Mails, each once.
    pub mails: u64,
    /// Recipients of mails, each once a mail.
    pub recipients: u64,
    /// Arrivals of what had arrived before.
    pub repeats: u64,
}

/// What a provider hands in.
pub(super) struct Arrival {
    pub(super) provider: Arc<str>,
    pub(super) sender: String,
    pub(super) recipients: Vec<String>,
    pub(super) message_id: String,
    pub(super) subject: String,
    pub(super) properties: Vec<(String, String)>,
    pub(super) content: Content,
    /// By what it is recognised: the idempotency key, or else the Message-ID. Empty if by nothing.
    pub(super) identity: String,
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
        let shelf = self.shelf();
        shelf.places.get(shelf.index(number)?)?.mail.clone()
    }

    /// How much arrived.
    pub fn counts(&self) -> Counts {
        self.shelf().counts
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
        self.shelf()
            .places
            .iter()
            .filter_map(|place| place.mail.as_ref())
            .filter(|mail| wanted(mail))
            .cloned()
            .collect()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shared.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn receive(&mut self, mut arrival: Arrival, keep: Keep) -> u64 {
        let mut earlier = None;
        let mut marks = Vec::with_capacity(arrival.recipients.len());
        arrival.recipients.retain(|recipient| {
            let mark = mark(&arrival.provider, &arrival.identity, recipient);
            let known = if arrival.identity.is_empty() { None } else { self.known.get(&mark).copied() };
            if known.is_none() {
                marks.push(mark);
            }
            earlier = earlier.or(known);
            known.is_none()
        });
        if let Some(number) = earlier {
            self.count_repeat(number);
            if arrival.recipients.is_empty() {
                return number;
            }
        }
        self.put(arrival, marks, keep)
    }

    fn count_repeat(&mut self, number: u64) {
        self.counts.repeats += 1;
        let index = self.index(number);
        if let Some(mail) = index.and_then(|index| self.places[index].mail.as_mut()) {
            Arc::make_mut(mail).repeats += 1;
        }
    }

    fn put(&mut self, arrival: Arrival, marks: Vec<u64>, keep: Keep) -> u64 {
        let number = self.counts.mails;
        self.counts.mails += 1;
        self.counts.recipients += arrival.recipients.len() as u64;
        if !arrival.identity.is_empty() {
            self.known.extend(marks.iter().map(|mark| (*mark, number)));
        }
        let mail = keep.listed.then(|| {
            self.bytes += arrival.content.bytes().map_or(0, Bytes::len);
            Arc::new(arrival.into_mail(number))
        });
        self.places.push_back(Place { marks, mail });
        self.make_room(keep);
        number
    }

    fn make_room(&mut self, keep: Keep) {
        while self.places.len() > keep.mails {
            self.forget_oldest();
        }
        while self.bytes > keep.bytes {
            let Some(index) = self.index(self.first_whole) else { return };
            if let Some(mail) = self.places[index].mail.as_mut() {
                self.bytes -= mail.content.bytes().map_or(0, Bytes::len);
                Arc::make_mut(mail).content = Content::Dropped;
            }
            self.first_whole += 1;
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.counts.mails - self.places.len() as u64;
        let Some(place) = self.places.pop_front() else { return };
        for mark in place.marks {
            self.known.remove(&mark);
        }
        self.bytes -= place.mail.and_then(|mail| mail.content.bytes().map(Bytes::len)).unwrap_or(0);
        self.first_whole = self.first_whole.max(oldest + 1);
    }

    fn index(&self, number: u64) -> Option<usize> {
        let oldest = self.counts.mails - self.places.len() as u64;
        usize::try_from(number.checked_sub(oldest)?).ok().filter(|index| *index < self.places.len())
    }
}

impl Arrival {
    fn into_mail(self, number: u64) -> Mail {
        Mail {
            number,
            provider: self.provider,
            sender: self.sender,
            recipients: self.recipients,
            message_id: self.message_id,
            subject: self.subject,
            received_at: OffsetDateTime::now_utc(),
            repeats: 0,
            properties: self.properties,
            content: self.content,
        }
    }
}

/// A Message-ID without its angle brackets.
pub(super) fn bare_message_id(message_id: &str) -> &str {
    message_id.trim().trim_start_matches('<').trim_end_matches('>')
}

fn mark(provider: &str, identity: &str, recipient: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (provider, identity, recipient.to_ascii_lowercase()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
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
