//! Which chain a message takes: routes by client, domains, tags, document type and priority.
//!
//! Owns the decision, made once when a message is accepted; who is asked within a chain is not decided here.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::Violation;
use crate::{
    config::{self, DEFAULT_CHAIN},
    message::{ClientId, Email, Mailbox, Priority},
};

/// Says what of an email every provider of a chain lacks the means for. Empty: one of them can carry it, or nothing is
/// known of the chain.
type Lacks = dyn Fn(&str, &Email) -> Vec<Violation> + Send + Sync;

/// The way into the chains: which one a message takes, and whether it can be carried there. Clones are the same.
#[derive(Clone)]
pub struct Routes {
    routes: Arc<[Route]>,
    lacks: Arc<Lacks>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// One route: every condition that it has must be met.
#[derive(Clone, Debug)]
struct Route {
    clients: BTreeSet<String>,
    senders: Domains,
    recipients: Domains,
    tags: BTreeSet<String>,
    document_types: BTreeSet<String>,
    priorities: Vec<Priority>,
    chain: String,
}

impl Routes {
    /// The routes of those settings, in their order. `lacks` knows what the providers of a chain can carry.
    pub fn new(
        settings: &[config::Route],
        lacks: impl Fn(&str, &Email) -> Vec<Violation> + Send + Sync + 'static,
    ) -> Self {
        Self { routes: settings.iter().map(Route::new).collect(), lacks: Arc::new(lacks) }
    }

    /// The chain that a message takes; what is wrong with its email if no provider of that chain can carry it.
    pub fn lead(&self, client: &ClientId, priority: Priority, email: &Email) -> Result<&str, Vec<Violation>> {
        let chain = self.chain(client, priority, email);
        let violations = (self.lacks)(chain, email);
        if violations.is_empty() { Ok(chain) } else { Err(violations) }
    }

    /// The chain of the first route that it meets, else the default one.
    fn chain(&self, client: &ClientId, priority: Priority, email: &Email) -> &str {
        let met = self.routes.iter().find(|route| route.is_met(client, priority, email));
        met.map_or(DEFAULT_CHAIN, |route| &route.chain)
    }
}

impl Route {
    fn new(settings: &config::Route) -> Self {
        let set = |words: &[String]| words.iter().cloned().collect();
        Self {
            clients: set(&settings.clients),
            senders: Domains::new(&settings.sender_domains),
            recipients: Domains::new(&settings.recipient_domains),
            tags: set(&settings.tags),
            document_types: set(&settings.document_types),
            priorities: settings.priorities.iter().filter_map(|word| Priority::parse(word)).collect(),
            chain: settings.chain.clone(),
        }
    }

    fn is_met(&self, client: &ClientId, priority: Priority, email: &Email) -> bool {
        let is_of_these = |(_, mailbox): (_, &Mailbox)| self.recipients.hold(mailbox.address.domain());
        (self.clients.is_empty() || self.clients.contains(client.as_str()))
            && (self.priorities.is_empty() || self.priorities.contains(&priority))
            && (self.tags.is_empty() || email.tags.iter().any(|tag| self.tags.contains(tag)))
            && (self.document_types.is_empty()
                || email.document_type.as_ref().is_some_and(|word| self.document_types.contains(word)))
            && self.senders.hold(email.from.address.domain())
            && email.recipients().all(is_of_these)
    }
}

/// Domains, each alone or with all below it. None at all stand for every domain.
#[derive(Clone, Debug)]
struct Domains {
    alone: BTreeSet<String>,
    /// With the dot before: `.example.com`.
    below: Vec<String>,
}

impl Domains {
    fn new(patterns: &[String]) -> Self {
        let (mut alone, mut below) = (BTreeSet::new(), Vec::new());
        for pattern in patterns {
            // Domains of addresses are in small letters.
            let pattern = pattern.to_ascii_lowercase();
            match pattern.strip_prefix('*') {
                Some(suffix) => below.push(suffix.to_owned()),
                None => {
                    alone.insert(pattern);
                }
            }
        }
        Self { alone, below }
    }

    fn hold(&self, domain: &str) -> bool {
        let is_any = self.alone.is_empty() && self.below.is_empty();
        is_any || self.alone.contains(domain) || self.below.iter().any(|suffix| domain.ends_with(suffix.as_str()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
