//! What was asked of a provider, for whoever judges its answer.
//!
//! Owns which recipient an answer speaks of, by its place in a list or by its address in a text; judges nothing.

use crate::message::{Message, RecipientIndex, UnknownOutcome};

/// What was asked of the provider.
pub struct Asked<'a> {
    /// The recipients in the envelope, with their addresses.
    pub(in crate::provider) recipients: Vec<(RecipientIndex, &'a str)>,
    /// What the caller wants done when nobody can know.
    pub(in crate::provider) unknown_outcome: UnknownOutcome,
    to: usize,
    cc: usize,
}

/// One of the three lists that recipients stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) enum List {
    /// The header To.
    To,
    /// The header Cc.
    Cc,
    /// In no header.
    Bcc,
}

impl<'a> Asked<'a> {
    /// The message for those recipients. One that the message does not have gets no verdict, and so stays open.
    pub(super) fn new(message: &'a Message, recipients: &[RecipientIndex]) -> Self {
        let email = &message.email;
        let address = |&index| Some((index, email.recipient(index)?.address.as_str()));
        Self {
            recipients: recipients.iter().filter_map(address).collect(),
            unknown_outcome: message.unknown_outcome,
            to: email.to.len(),
            cc: email.cc.len(),
        }
    }

    /// The recipient at that place of a list, if it was asked for.
    pub(in crate::provider) fn at(&self, list: List, place: usize) -> Option<RecipientIndex> {
        let (start, end) = match list {
            List::To => (0, self.to),
            List::Cc => (self.to, self.to + self.cc),
            List::Bcc => (self.to + self.cc, usize::MAX),
        };
        let index = start.checked_add(place).filter(|index| *index < end)?;
        self.recipients.iter().map(|(asked, _)| *asked).find(|asked| usize::from(asked.0) == index)
    }

    /// The recipients of a list that were asked for.
    pub(in crate::provider) fn of(&self, list: List) -> Vec<RecipientIndex> {
        let each = self.recipients.iter().map(|(index, _)| *index);
        each.filter(|index| self.list_of(*index) == list).collect()
    }

    /// The recipients that a refusal of lists means: those that it names, or who stands alone in the lists.
    pub(in crate::provider) fn meant(&self, lists: &[List], text: &str) -> Vec<RecipientIndex> {
        let named = self.named_in(text);
        let alone: Vec<RecipientIndex> = lists.iter().flat_map(|&list| self.of(list)).collect();
        if named.is_empty() && alone.len() == 1 { alone } else { named }
    }

    /// The recipients whose address stands in a text, as a whole and not as a part of a longer one.
    pub(in crate::provider) fn named_in(&self, text: &str) -> Vec<RecipientIndex> {
        let text = text.to_lowercase();
        let named = |address: &str| {
            let address = address.to_lowercase();
            text.match_indices(&address).any(|(start, found)| {
                let before = text[..start].chars().next_back();
                let mut after = text[start + found.len()..].chars();
                // A full stop ends a sentence unless the domain goes on behind it.
                let goes_on = match after.next() {
                    Some('.') => after.next().is_some_and(char::is_alphanumeric),
                    Some(next) => is_of_address(next),
                    None => false,
                };
                !before.is_some_and(|c| is_of_address(c) || c == '.') && !goes_on
            })
        };
        self.recipients.iter().filter(|(_, address)| named(address)).map(|(index, _)| *index).collect()
    }

    fn list_of(&self, index: RecipientIndex) -> List {
        match usize::from(index.0) {
            index if index < self.to => List::To,
            index if index < self.to + self.cc => List::Cc,
            _ => List::Bcc,
        }
    }

    /// Recipients without a message, for tests of what answers mean.
    #[cfg(test)]
    pub(in crate::provider) fn example(addresses: &[&'a str], unknown_outcome: UnknownOutcome) -> Self {
        let recipients =
            addresses.iter().enumerate().map(|(n, address)| (RecipientIndex(n as u16), *address)).collect();
        Self { recipients, unknown_outcome, to: addresses.len(), cc: 0 }
    }
}

fn is_of_address(c: char) -> bool {
    c.is_alphanumeric() || "@!#$%&*+-/=?^_`{|}~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_a_text_only_as_a_whole() {
        let asked = Asked::example(&["anna@example.com", "b.o'r@example.org"], UnknownOutcome::Resend);
        let named = |text: &str| asked.named_in(text).iter().map(|index| index.0).collect::<Vec<_>>();
        for (text, expected) in [
            ("Illegal address 'Anna@Example.com'.", &[0][..]),
            ("inactive: <anna@example.com>, b.o'r@example.org", &[0, 1]),
            ("anna@example.com", &[0]),
            ("joanna@example.com", &[]),
            ("jo.anna@example.com", &[]),
            ("anna@example.com.au", &[]),
            ("anna@example.community", &[]),
            ("joanna@example.com and anna@example.com.", &[0]),
            ("", &[]),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn a_place_in_a_list_is_a_recipient_only_if_it_was_asked_for() {
        let recipients = [0, 1, 2, 3].map(|n| (RecipientIndex(n), "a@example.com")).to_vec();
        let asked = Asked { recipients, unknown_outcome: UnknownOutcome::Resend, to: 2, cc: 1 };
        let at = |list, place| asked.at(list, place).map(|index| index.0);
        assert_eq!([at(List::To, 1), at(List::Cc, 0), at(List::Bcc, 0)], [Some(1), Some(2), Some(3)]);
        assert_eq!([at(List::To, 2), at(List::Cc, 1), at(List::Bcc, 1)], [None, None, None]);
        assert_eq!(at(List::Bcc, usize::MAX), None);
        assert_eq!(asked.of(List::To), [RecipientIndex(0), RecipientIndex(1)]);
    }
}
