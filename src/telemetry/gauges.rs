//! The figures of the outbox that are exported as metrics.
//!
//! Owns their names and their last values; whoever looks at the outbox now and then tells them.

use std::sync::{Arc, PoisonError, RwLock};

use opentelemetry::{KeyValue, global};

use crate::delivery::Status;

/// The figures of the outbox, as they were last told. Clones share them.
///
/// | gauge | what it is |
/// | --- | --- |
/// | `postrider.outbox.messages` | how many messages there are; attribute `status` |
/// | `postrider.outbox.days_ahead` | for how many days after today there are tables |
/// | `postrider.outbox.days_postponed` | how many days are over and kept, since most of their messages are not over |
#[derive(Clone, Debug, Default)]
pub struct OutboxGauges(Arc<RwLock<Values>>);

#[derive(Debug, Default)]
struct Values {
    messages: Vec<(Status, u64)>,
    days_ahead: Option<u64>,
    days_postponed: Option<u64>,
}

impl OutboxGauges {
    /// Gauges that are exported from now on, where metrics are. What was never told is not.
    pub fn exported() -> Self {
        let gauges = Self::default();
        let meter = global::meter("postrider");
        let values = gauges.clone();
        meter
            .u64_observable_gauge("postrider.outbox.messages")
            .with_description("Messages that are kept, by status.")
            .with_unit("{message}")
            .with_callback(move |gauge| {
                for (status, count) in &values.read().messages {
                    gauge.observe(*count, &[KeyValue::new("status", status.as_str())]);
                }
            })
            .build();
        let values = gauges.clone();
        meter
            .u64_observable_gauge("postrider.outbox.days_ahead")
            .with_description("Days after today that have tables.")
            .with_unit("{day}")
            .with_callback(move |gauge| values.read().days_ahead.into_iter().for_each(|days| gauge.observe(days, &[])))
            .build();
        let values = gauges.clone();
        meter
            .u64_observable_gauge("postrider.outbox.days_postponed")
            .with_description("Days that are over and kept, since most of their messages are not over.")
            .with_unit("{day}")
            .with_callback(move |gauge| {
                values.read().days_postponed.into_iter().for_each(|days| gauge.observe(days, &[]));
            })
            .build();
        gauges
    }

    /// Tells how many messages there are in each status.
    pub fn set_messages(&self, counts: Vec<(Status, u64)>) {
        self.write(|values| values.messages = counts);
    }

    /// Tells for how many days after today there are tables.
    pub fn set_days_ahead(&self, days: u32) {
        self.write(|values| values.days_ahead = Some(days.into()));
    }

    /// Tells how many days are put off.
    pub fn set_days_postponed(&self, days: usize) {
        self.write(|values| values.days_postponed = u64::try_from(days).ok());
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Values> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, change: impl FnOnce(&mut Values)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}
