//! Counts the statements that a piece of code sends to Postgres.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use tracing::{
    Dispatch, Event, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt};

/// Counts from its creation on, in this thread: for tests on a runtime of one thread.
pub struct StatementCounter {
    count: Arc<AtomicUsize>,
    _guard: DefaultGuard,
}

impl StatementCounter {
    pub fn start() -> Self {
        // As long as there is only one subscriber, a place in the code that another thread comes to first is taken for
        // one that nobody listens to. So there is always a second.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(tracing_subscriber::registry().with(Counting(Arc::default()))));
        let count = Arc::new(AtomicUsize::new(0));
        let subscriber = tracing_subscriber::registry().with(Counting(count.clone()));
        Self { count, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// How many there were since the last call.
    pub fn take(&self) -> usize {
        self.count.swap(0, Ordering::Relaxed)
    }
}

struct Counting(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Counting {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut sort = Sort::default();
        event.record(&mut sort);
        if event.metadata().target() == "sqlx::query" && !sort.opens_a_session {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a statement is. A connection may be opened at any time, and its settings are no statement of the code.
#[derive(Default)]
struct Sort {
    opens_a_session: bool,
}

impl Visit for Sort {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.opens_a_session |= field.name() == "summary" && value.starts_with("set search_path");
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
