//! What is kept, within its bounds, and by what it is recognised.
//!
//! Owns the counting and the forgetting; tells nobody that something arrived.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;

use super::mail::{Arrival, Content, Mail};

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

/// The kept mails.
#[derive(Default)]
pub(super) struct Shelf {
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

impl Shelf {
    /// The mails that are kept, the oldest first.
    pub(super) fn mails(&self) -> impl Iterator<Item = &Arc<Mail>> {
        self.places.iter().filter_map(|place| place.mail.as_ref())
    }

    /// The mail of that number, while it is kept.
    pub(super) fn mail(&self, number: u64) -> Option<Arc<Mail>> {
        self.places.get(self.index(number)?)?.mail.clone()
    }

    /// How much arrived.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes in what arrived, but for recipients that had it before; gives the number of the mail, an earlier one's if
    /// it is a repeat for all of them.
    pub(super) fn receive(&mut self, mut arrival: Arrival, keep: Keep) -> u64 {
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

fn mark(provider: &str, identity: &str, recipient: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (provider, identity, recipient.to_ascii_lowercase()).hash(&mut hasher);
    hasher.finish()
}
