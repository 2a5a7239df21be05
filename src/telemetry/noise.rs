//! Which lines and spans get through.
//!
//! Owns the filters besides the one that the settings ask for.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{Event, Level, Metadata, level_filters::LevelFilter, subscriber::Interest};
use tracing_subscriber::{
    filter::Targets,
    layer::{Context, Filter},
};

/// How often the exporter's own complaints are let through. A collector that is away makes one every few seconds.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// What is exported: only our own. Spans of the exporter's connection would make new ones with each export, and those of
/// libraries may hold what we keep out.
pub(super) fn exported() -> Targets {
    Targets::new().with_target("postrider", Level::INFO)
}

/// Lets the exporter's own complaints through at most once an interval, and nothing that is less than a complaint.
#[derive(Default)]
pub(super) struct Seldom {
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= COMPLAINT_INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }
}

fn is_exporters(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("opentelemetry")
}

/// Each place in the code is asked about once and for all, as far as that can be: a library with a span for each frame
/// of a connection would else ask for every one of them.
impl<S> Filter<S> for Seldom {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match (is_exporters(metadata), *metadata.level() <= Level::WARN) {
            (false, _) => Interest::always(),
            (true, true) => Interest::sometimes(),
            (true, false) => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        !is_exporters(metadata) || *metadata.level() <= Level::WARN
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        !is_exporters(event.metadata()) || self.is_due(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_let_through_once_an_interval() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        assert!(seldom.is_due(start));
        assert!(!seldom.is_due(start + COMPLAINT_INTERVAL / 2));
        assert!(seldom.is_due(start + COMPLAINT_INTERVAL));
        assert!(!seldom.is_due(start + COMPLAINT_INTERVAL));
    }
}
