//! Medians, percentiles, and rates put together.
//!
//! Owns the arithmetic; measures nothing.

use std::time::Duration;

/// The value in the middle; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The smallest value that so many percent of the values do not exceed; `None` without values.
pub(super) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Both casts are of small whole numbers that are not negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let rank = ((percent / 100.0 * sorted.len() as f64).ceil() as usize).saturating_sub(1);
    sorted.get(rank).copied()
}

/// The rate of steps that follow one another on the same machine: their times add.
pub(super) fn chained(rates: &[f64]) -> f64 {
    1.0 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

/// So many in that time, a second.
#[allow(clippy::cast_precision_loss)]
pub(super) fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// In milliseconds.
pub(super) fn milliseconds(time: time::Duration) -> f64 {
    time.as_seconds_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(median(&hundred), Some(50.0));
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 100.0), Some(100.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_times_of_steps_add() {
        assert_eq!(chained(&[100.0]), 100.0);
        assert_eq!(chained(&[100.0, 100.0]), 50.0);
        assert!((chained(&[1_000_000.0, 10.0]) - 10.0).abs() < 0.001);
    }
}
