//! A process's share of what belongs to an account: its places, and its messages a second.
//!
//! Owns the arithmetic: the shares of all processes that there are add up to the whole. Who there is, is the outbox's
//! to say.

/// Which of the processes that send through an account one is.
///
/// By rank, so that every process comes to the same result without asking another. With fewer places than processes
/// the first have one each and the others none: since any process may claim any message, nothing waits for want of one
/// here, and it is always the same ones that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: usize,
    of: usize,
}

impl Share {
    /// The share of a process that is alone.
    pub const WHOLE: Share = Share { rank: 0, of: 1 };

    /// The share of the process with so many before it, and so many others in all.
    pub fn new(before: usize, others: usize) -> Self {
        Self { rank: before.min(others), of: others + 1 }
    }

    /// How many processes there are.
    pub fn processes(self) -> usize {
        self.of
    }

    /// Whether it does what one of them does for all.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// Of so many places, how many are this process's.
    pub fn places(self, all: usize) -> usize {
        all / self.of + usize::from(self.rank < all % self.of)
    }

    /// Of so many messages a second, with so many places, how many are this process's. Who has no place needs none.
    pub fn rate(self, all: f64, places: usize) -> f64 {
        all / self.of.min(places.max(1)) as f64
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(processes: usize) -> impl Iterator<Item = Share> {
        (0..processes).map(move |before| Share::new(before, processes - 1))
    }

    #[test]
    fn the_shares_of_all_processes_are_the_whole() {
        for processes in 1..40 {
            for places in [1, 2, 3, 7, 32, 33, 10_000] {
                let mine: Vec<usize> = shares(processes).map(|share| share.places(places)).collect();
                assert_eq!(mine.iter().sum::<usize>(), places, "{processes} {places}");
                assert!(mine[0] - mine[processes - 1] <= 1, "{mine:?}");
                let has_place = shares(processes).filter(|share| share.places(places) > 0);
                let rate: f64 = has_place.map(|share| share.rate(0.5, places)).sum();
                assert!((rate - 0.5).abs() < 1e-9, "{processes} {places}: {rate}");
            }
        }
    }

    #[test]
    fn one_process_is_the_first_and_alone_has_everything() {
        assert_eq!(shares(5).filter(|share| share.is_first()).count(), 1);
        assert_eq!((Share::WHOLE.places(32), Share::WHOLE.rate(50.0, 32)), (32, 50.0));
    }
}
