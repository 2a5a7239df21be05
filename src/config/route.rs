//! The settings of a route: which messages take which chain.
//!
//! Owns the conditions as they are written; [`crate::policy::Routes`] applies them.

use super::section::{Rule, Section, Visitor};

/// A route. A message takes the first whose conditions it meets, all of them; one without any is met by every message.
/// Of the words of a condition one is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The clients that sent it. Empty, the default: any.
    pub clients: Vec<String>,
    /// The domain of its `from`: `example.com` is that domain alone, `*.example.com` every one below it. Empty, the
    /// default: any.
    pub sender_domains: Vec<String>,
    /// The domains of its recipients, written the same way; each recipient must be of one of them. Empty, the default:
    /// any.
    pub recipient_domains: Vec<String>,
    /// Its tags, of which it must bear one. Empty, the default: any or none.
    pub tags: Vec<String>,
    /// What it carries. Empty, the default: any or none.
    pub document_types: Vec<String>,
    /// Its priority, `HIGH`, `NORMAL` or `BULK`. Empty, the default: any.
    pub priorities: Vec<String>,
    /// The chain that it takes. It must be given.
    pub chain: String,
}

impl Route {
    /// Whether every message meets it.
    pub(super) fn is_met_by_all(&self) -> bool {
        let Self { clients, sender_domains, recipient_domains, tags, document_types, priorities, chain: _ } = self;
        [clients, sender_domains, recipient_domains, tags, document_types, priorities]
            .iter()
            .all(|list| list.is_empty())
    }
}

impl Section for Route {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let chain = v.setting("chain", Some(self.chain).filter(|chain| !chain.is_empty()), Rule::Required);
        Self {
            chain: chain.unwrap_or_default(),
            clients: v.any("clients", self.clients),
            sender_domains: v.any("sender_domains", self.sender_domains),
            recipient_domains: v.any("recipient_domains", self.recipient_domains),
            tags: v.any("tags", self.tags),
            document_types: v.any("document_types", self.document_types),
            priorities: v.any("priorities", self.priorities),
        }
    }
}
