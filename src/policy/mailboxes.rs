//! Rules for sender and recipients.
//!
//! Owns how many there may be and that none is named twice; the syntax of an address is the message's.

use std::collections::HashMap;

use super::{
    draft::DraftMailbox,
    filled,
    violation::{Violations, check_line},
};
use crate::message::{EmailAddress, Mailbox};

/// The longest display name, in characters.
const MAX_NAME: usize = 256;
/// The most addresses for answers.
const MAX_REPLY_TO: usize = 25;

pub(super) fn sender(draft: Option<DraftMailbox>, violations: &mut Violations) -> Option<Mailbox> {
    let parsed = draft.map(|draft| parse("email.from", draft, violations));
    parsed.unwrap_or_else(|| {
        violations.add("email.from", "is required");
        None
    })
}

/// The recipients of the three lists, each given with its name. A recipient that is named twice is refused and not
/// dropped: it is more likely the caller's mistake (a wrong address) than meant, and a list that shrinks by itself
/// would no longer match what the caller asked for.
pub(super) fn recipients(
    lists: [(&str, Vec<DraftMailbox>); 3],
    max: usize,
    violations: &mut Violations,
) -> [Vec<Mailbox>; 3] {
    let count: usize = lists.iter().map(|(_, list)| list.len()).sum();
    if count == 0 {
        violations.add("email.to", "is empty, and so are email.cc and email.bcc; at least one recipient is required");
    }
    if count > max {
        let description = format!("names {count} recipients together with email.cc and email.bcc; the limit is {max}");
        violations.add("email.to", description);
        // Each of them may be fine; there is no use in saying so for thousands.
        return Default::default();
    }
    let mut seen: HashMap<String, String> = HashMap::with_capacity(count);
    lists.map(|(name, list)| {
        let each = list.into_iter().enumerate().filter_map(|(index, draft)| {
            let field = format!("email.{name}[{index}]");
            let mailbox = parse(&field, draft, violations)?;
            // Case matters in a local part by the letter of RFC 5321, and in no mailbox that anybody runs.
            let key = mailbox.address.as_str().to_lowercase();
            if let Some(first) = seen.get(&key) {
                violations.add(format!("{field}.address"), format!("is the same recipient as {first}"));
                return None;
            }
            seen.insert(key, field);
            Some(mailbox)
        });
        each.collect()
    })
}

pub(super) fn reply_to(list: Vec<DraftMailbox>, violations: &mut Violations) -> Vec<Mailbox> {
    if list.len() > MAX_REPLY_TO {
        violations.add("email.reply_to", format!("names {} mailboxes; the limit is {MAX_REPLY_TO}", list.len()));
        return Vec::new();
    }
    let each = list.into_iter().enumerate();
    each.filter_map(|(index, draft)| parse(&format!("email.reply_to[{index}]"), draft, violations)).collect()
}

fn parse(field: &str, draft: DraftMailbox, violations: &mut Violations) -> Option<Mailbox> {
    let address = EmailAddress::parse(&draft.address);
    if let Err(error) = address {
        violations.add(format!("{field}.address"), error.to_string());
    }
    check_line(&format!("{field}.name"), &draft.name, MAX_NAME, violations);
    Some(Mailbox { address: address.ok()?, name: filled(draft.name) })
}
