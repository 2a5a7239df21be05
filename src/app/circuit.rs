//! The changes of one provider's circuit, for whoever shows them.
//!
//! Owns no breaker: it looks at what the chain publishes, and a change that is undone between two looks is not seen.

use std::time::Duration;

use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    delivery::ProviderName,
    health::{Board, Circuit},
    message::Clock,
};

/// How often the circuit is looked at.
const EVERY: Duration = Duration::from_millis(2);

/// Notes each change of a circuit until stopped.
pub struct CircuitWatch {
    stop: CancellationToken,
    task: JoinHandle<Vec<(Duration, &'static str)>>,
}

impl CircuitWatch {
    pub(super) fn start(provider: &str, board: Board, clock: Clock) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(ProviderName::new(provider), board, clock, stop.clone()));
        Self { stop, task }
    }

    /// The changes, each with the time since the watch began and the new state's word: `closed`, `open` or `half-open`.
    pub async fn stop(self) -> Vec<(Duration, &'static str)> {
        self.stop.cancel();
        self.task.await.unwrap_or_default()
    }
}

async fn watch(
    provider: ProviderName,
    board: Board,
    clock: Clock,
    stop: CancellationToken,
) -> Vec<(Duration, &'static str)> {
    let start = Instant::now();
    let mut changes = Vec::new();
    let mut last = Circuit::Closed;
    let mut looks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = stop.cancelled() => return changes,
        }
        let now = board.provider(&provider).map_or(Circuit::Closed, |state| state.circuit(clock.now()));
        if now != last {
            changes.push((start.elapsed(), now.as_str()));
            last = now;
        }
    }
}
