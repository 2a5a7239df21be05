//! Providers that were considered and not asked, as they are stored.
//!
//! Owns that form, written and read; why somebody was not asked was decided before.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{OutboxError, error::unreadable};
use crate::delivery::{ProviderName, Skip};

/// One of them. The names are part of the tables.
#[derive(Serialize, Deserialize)]
struct StoredSkip {
    provider: String,
    reason: String,
    /// As RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// The text for a column; `None` for nobody.
pub(super) fn to_json(skipped: &[Skip]) -> Option<String> {
    if skipped.is_empty() {
        return None;
    }
    let stored: Vec<StoredSkip> = skipped
        .iter()
        .map(|skip| StoredSkip {
            provider: skip.provider.as_str().to_owned(),
            reason: skip.reason.replace('\0', "\u{fffd}"),
            // A time that cannot be written is one that is never reached.
            until: skip.until.and_then(|until| until.to_utc().format(&Rfc3339).ok()),
        })
        .collect();
    Some(serde_json::to_string(&stored).expect("texts can be written as JSON"))
}

/// Those of a column.
pub(super) fn from_json(json: Option<serde_json::Value>) -> Result<Vec<Skip>, OutboxError> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let stored: Vec<StoredSkip> = serde_json::from_value(json).map_err(unreadable)?;
    stored
        .into_iter()
        .map(|StoredSkip { provider, reason, until }| {
            let until = until.map(|until| OffsetDateTime::parse(&until, &Rfc3339).map_err(unreadable)).transpose()?;
            Ok(Skip { provider: ProviderName::new(&provider), reason, until })
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let skip = |provider, reason: &str, until| Skip {
            provider: ProviderName::new(provider),
            reason: reason.into(),
            until,
        };
        let skipped = [
            skip("primary", "circuit is open", Some(datetime!(2026-12-01 12:00:00.123456 UTC))),
            skip("backup", "does not show images inside the HTML", None),
        ];
        let json = serde_json::from_str(&to_json(&skipped).unwrap()).unwrap();
        assert_eq!(from_json(Some(json)).unwrap(), skipped);
        assert_eq!((to_json(&[]), from_json(None).unwrap()), (None, Vec::new()));
    }
}
