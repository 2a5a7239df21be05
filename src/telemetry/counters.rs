//! What is counted as it happens, and exported as metrics.
//!
//! Owns the names; who counts decides what is worth it.
//!
//! | counter | what it counts |
//! | --- | --- |
//! | `postrider.chain.failovers` | messages accepted by another provider than the first of their chain, which failed; attributes `chain`, `provider` (that failed), `by` |

use std::sync::LazyLock;

use opentelemetry::{KeyValue, global, metrics::Counter};

use crate::delivery::ProviderName;

/// Made at the first message, when it is long decided where metrics go.
static FAILOVERS: LazyLock<Counter<u64>> = LazyLock::new(|| {
    global::meter("postrider")
        .u64_counter("postrider.chain.failovers")
        .with_description("Messages accepted by another provider than the first of their chain, which failed.")
        .with_unit("{message}")
        .build()
});

/// Counts a message that `by` accepted since `failed`, the first of the chain, had not.
pub fn count_failover(chain: &str, failed: &ProviderName, by: &ProviderName) {
    let attributes = [
        KeyValue::new("chain", chain.to_owned()),
        KeyValue::new("provider", failed.as_str().to_owned()),
        KeyValue::new("by", by.as_str().to_owned()),
    ];
    FAILOVERS.add(1, &attributes);
}
