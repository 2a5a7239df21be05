//! What the first provider's circuit does during the demo.

use std::time::Duration;

use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::local::PRIMARY,
    delivery::ProviderName,
    health::{Board, Circuit},
    message::Clock,
};

/// How often the circuit is looked at.
const EVERY: Duration = Duration::from_millis(2);

/// Notes each change until stopped.
pub(super) struct CircuitWatch {
    stop: CancellationToken,
    task: JoinHandle<Vec<(Duration, Circuit)>>,
}

impl CircuitWatch {
    pub(super) fn start(board: Board, clock: Clock, start: Instant) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(board, clock, start, stop.clone()));
        Self { stop, task }
    }

    /// The changes, each with the time since the start.
    pub(super) async fn stop(self) -> Vec<(Duration, Circuit)> {
        self.stop.cancel();
        self.task.await.unwrap_or_default()
    }
}

async fn watch(board: Board, clock: Clock, start: Instant, stop: CancellationToken) -> Vec<(Duration, Circuit)> {
    let primary = ProviderName::new(PRIMARY);
    let mut changes = Vec::new();
    let mut last = Circuit::Closed;
    let mut looks = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = stop.cancelled() => return changes,
        }
        let now = board.provider(&primary).map_or(Circuit::Closed, |state| state.circuit(clock.now()));
        if now != last {
            changes.push((start.elapsed(), now));
            last = now;
        }
    }
}
