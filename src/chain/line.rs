//! In which order a chain's providers stand for one message.
//!
//! Owns the lot that is cast among those that share a place. Whether anybody is ready is not asked here.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::link::Link;
use crate::{delivery::ProviderName, message::MessageId};

/// One place in a chain: a provider, or several that share it, each with its weight.
#[derive(Clone)]
pub(super) struct Place(Vec<(Arc<Link>, u32)>);

impl Place {
    /// A place shared by those providers, at least one.
    pub(super) fn new(shares: Vec<(Arc<Link>, u32)>) -> Self {
        Self(shares)
    }

    /// Who is at it, with their weights.
    pub(super) fn shares(&self) -> &[(Arc<Link>, u32)] {
        &self.0
    }

    /// Who is at it.
    pub(super) fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.0.iter().map(|(link, _)| link)
    }

    /// Its providers as they stand for a message: each as often first as its weight says, and the others behind it in
    /// the same way.
    ///
    /// The lot falls by the message's id and the providers' names alone (weighted rendezvous hashing). So it is the same
    /// at every try and in every process, and a provider that comes or goes moves no message between the others.
    pub(super) fn line_for(&self, id: MessageId) -> Vec<&Arc<Link>> {
        let mut line: Vec<_> = self.0.iter().map(|(link, weight)| (lot(id, link.name(), *weight), link)).collect();
        line.sort_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.name().cmp(other.name())));
        line.into_iter().map(|(_, link)| link).collect()
    }
}

/// The lower, the further ahead. Exponentially distributed with the weight for its rate: the least of several such is
/// each with a probability in proportion to its weight.
fn lot(id: MessageId, provider: &ProviderName, weight: u32) -> f64 {
    let digest = Sha256::new().chain_update(id.as_uuid()).chain_update(provider.as_str()).finalize();
    let word = digest.iter().take(8).fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    // From the middle of each of 2^53 steps, so that it is neither 0 nor 1.
    let uniform = ((word >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln() / f64::from(weight)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use time::macros::datetime;

    use super::*;
    use crate::chain::testing::{Mock, Rig};

    fn place<const N: usize>(rig: &Rig, shares: [(&str, u32); N]) -> Place {
        Place::new(shares.map(|(name, weight)| (rig.links.get(&ProviderName::new(name)).unwrap(), weight)).to_vec())
    }

    fn ids(count: usize) -> Vec<MessageId> {
        (0..count).map(|_| MessageId::new_at(datetime!(2026-12-01 12:00 UTC))).collect()
    }

    fn names(line: &[&Arc<Link>]) -> Vec<String> {
        line.iter().map(|link| link.name().to_string()).collect()
    }

    #[tokio::test]
    async fn each_is_first_and_next_in_line_as_often_as_its_weight_says() {
        let rig = Rig::new(["a", "b", "c"].map(Mock::new));
        let place = place(&rig, [("a", 6), ("b", 3), ("c", 1)]);
        let mut counts: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        for id in ids(20_000) {
            *counts.entry(names(&place.line_for(id))[..2].to_vec()).or_default() += 1;
        }
        let share =
            |first: &str, second: &str| f64::from(counts[&vec![first.to_owned(), second.to_owned()]]) / 20_000.0;
        // First by its weight, then by its weight among those that are left.
        for (first, second, expected) in [
            ("a", "b", 0.6 * 0.75),
            ("a", "c", 0.6 * 0.25),
            ("b", "a", 0.3 * 6.0 / 7.0),
            ("b", "c", 0.3 / 7.0),
            ("c", "a", 0.1 * 6.0 / 9.0),
            ("c", "b", 0.1 * 3.0 / 9.0),
        ] {
            let share = share(first, second);
            assert!((share - expected).abs() < 0.015, "{first} {second}: {share} for {expected}");
        }
    }

    #[tokio::test]
    async fn the_line_is_the_same_each_time_and_moves_only_for_who_comes_or_goes() {
        let rig = Rig::new(["a", "b", "c"].map(Mock::new));
        let all = place(&rig, [("a", 2), ("b", 1), ("c", 1)]);
        let other_order = place(&rig, [("c", 1), ("b", 1), ("a", 2)]);
        let without = place(&rig, [("a", 2), ("b", 1)]);
        for id in ids(200) {
            let line = names(&all.line_for(id));
            assert_eq!(names(&all.line_for(id)), line);
            assert_eq!(names(&other_order.line_for(id)), line);
            let rest: Vec<_> = line.into_iter().filter(|name| name != "c").collect();
            assert_eq!(names(&without.line_for(id)), rest);
        }
    }
}
