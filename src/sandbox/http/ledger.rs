//! What became of each recipient under each idempotency key.
//!
//! Owns the memory that a gateway needs to answer a repeat as it answered the first time; decides nothing.

use std::collections::{HashMap, VecDeque};

/// How many keys are remembered.
const REMEMBERED: usize = 1_000_000;

/// What became of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It gets the mail.
    Accepted,
    /// It never will.
    Rejected,
    /// It is to be offered again.
    Deferred,
}

/// The memory of keys.
#[derive(Default)]
pub(super) struct Ledger {
    by_key: HashMap<String, Entry>,
    oldest_first: VecDeque<String>,
}

#[derive(Default)]
struct Entry {
    id: Option<String>,
    fates: HashMap<String, Fate>,
}

impl Ledger {
    /// The fate of a recipient, if it is final. What was deferred is open.
    pub(super) fn fate(&self, key: &str, recipient: &str) -> Option<Fate> {
        self.by_key.get(key)?.fates.get(&recipient.to_ascii_lowercase()).copied()
    }

    /// The id that was given out under the key.
    pub(super) fn id(&self, key: &str) -> Option<&str> {
        self.by_key.get(key)?.id.as_deref()
    }

    /// Writes down what became of the recipients, and the id that is given out.
    pub(super) fn write<'a>(&mut self, key: &str, id: Option<&str>, fates: impl Iterator<Item = (&'a str, Fate)>) {
        if key.is_empty() {
            return;
        }
        if !self.by_key.contains_key(key) {
            self.oldest_first.push_back(key.to_owned());
        }
        let entry = self.by_key.entry(key.to_owned()).or_default();
        entry.id = id.map(str::to_owned).or(entry.id.take());
        let finals = fates.filter(|(_, fate)| *fate != Fate::Deferred);
        entry.fates.extend(finals.map(|(recipient, fate)| (recipient.to_ascii_lowercase(), fate)));
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }
}
