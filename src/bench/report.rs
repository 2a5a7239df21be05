//! The table of results, for people and as JSON.
//!
//! Owns what a figure is and whether a goal is met; measures nothing.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// So many a second.
    PerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Millions of bytes.
    Megabytes,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Behind the name, in JSON.
    fn suffix(self) -> &'static str {
        match self {
            Unit::PerSecond => "per_second",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "seconds",
            Unit::Megabytes => "mb",
            Unit::Bytes => "bytes",
        }
    }

    /// Behind the value, for people.
    fn sign(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Milliseconds => " ms",
            Unit::Seconds => " s",
            Unit::Megabytes => " MB",
            Unit::Bytes => " B",
        }
    }
}

/// A value that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is, in lower case, words joined by underscores.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// In what.
    pub unit: Unit,
    /// The goal for it: no more than that.
    pub at_most: Option<f64>,
}

impl Figure {
    /// A figure without a goal of its own.
    pub fn new(name: &'static str, value: f64, unit: Unit) -> Self {
        Self { name, value, unit, at_most: None }
    }

    /// The figure with the goal of being no more than that.
    pub fn at_most(self, limit: f64) -> Self {
        Self { at_most: Some(limit), ..self }
    }

    fn key(&self) -> String {
        format!("{}_{}", self.name, self.unit.suffix())
    }

    fn words(&self) -> String {
        self.name.replace('_', " ")
    }

    fn goal(&self) -> Option<String> {
        Some(format!("{} ≤ {}", self.words(), Amount(self.at_most?, self.unit)))
    }

    fn is_met(&self) -> bool {
        self.at_most.is_none_or(|limit| self.value <= limit)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.words(), Amount(self.value, self.unit))
    }
}

/// A value with its unit, to three digits or whole.
struct Amount(f64, Unit);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0.abs() {
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        let mut text = format!("{:.*}", digits, self.0);
        if digits == 0 {
            group_thousands(&mut text);
        } else {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        write!(f, "{text}{}", self.1.sign())
    }
}

fn group_thousands(digits: &mut String) {
    let first = usize::from(digits.starts_with('-'));
    let mut at = digits.len();
    while at > first + 3 {
        at -= 3;
        digits.insert(at, ',');
    }
}

/// What a scenario came to in one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The scenario.
    pub name: &'static str,
    /// Which case of it: "64 callers", "smtp".
    pub case: String,
    /// What was measured, the figure first that the goal is about.
    pub measured: Vec<Figure>,
    /// What it is held against, and of what that consists.
    pub against: Vec<Figure>,
    /// What was measured, as a multiple of what it is held against.
    pub ratio: Option<f64>,
    /// The goal for the ratio: no less than that.
    pub ratio_at_least: Option<f64>,
    /// Why there are no figures.
    pub failure: Option<String>,
}

impl Line {
    /// A line for a rate that is held against a floor.
    pub fn of_rate(name: &'static str, case: impl Into<String>, rate: f64, floor: f64, at_least: f64) -> Self {
        Self {
            name,
            case: case.into(),
            measured: vec![Figure::new("rate", rate, Unit::PerSecond)],
            against: vec![Figure::new("floor", floor, Unit::PerSecond)],
            ratio: Some(rate / floor),
            ratio_at_least: Some(at_least),
            failure: None,
        }
    }

    /// Whether every goal is met. Without figures it is not.
    pub fn is_met(&self) -> bool {
        let by_ratio = self.ratio_at_least.is_none_or(|least| self.ratio.is_some_and(|ratio| ratio >= least));
        self.failure.is_none() && by_ratio && self.measured.iter().all(Figure::is_met)
    }

    /// The goal in words, empty where there is none.
    fn goal(&self) -> String {
        let ratio = self.ratio_at_least.map(|least| format!("ratio ≥ {least}"));
        ratio.into_iter().chain(self.measured.iter().filter_map(Figure::goal)).collect::<Vec<_>>().join(", ")
    }

    fn to_json(&self) -> Value {
        let figures: Map<String, Value> =
            self.measured.iter().chain(&self.against).map(|figure| (figure.key(), json!(figure.value))).collect();
        json!({
            "name": self.name,
            "case": self.case,
            "figures": figures,
            "ratio": self.ratio,
            "goal": self.goal(),
            "met": self.is_met(),
            "failure": self.failure,
        })
    }
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// On what it ran, a fact each.
    pub conditions: Vec<String>,
    /// A line for each case of each scenario.
    pub lines: Vec<Line>,
}

impl Report {
    /// As JSON: an object a line.
    pub fn to_json(&self) -> Value {
        json!({ "conditions": self.conditions, "scenarios": self.lines.iter().map(Line::to_json).collect::<Vec<_>>() })
    }
}

/// A table, and below each line of what its floor consists.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["scenario", "case", "measured", "ratio", "goal", ""].map(str::to_owned)];
        rows.extend(self.lines.iter().map(row));
        let widths: [usize; 6] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        writeln!(f, "{}", self.conditions.join(", "))?;
        for (row, line) in rows.iter().zip(std::iter::once(None).chain(self.lines.iter().map(Some))) {
            let mut text = String::new();
            for (cell, width) in row.iter().zip(widths) {
                write!(text, "{cell:width$}  ")?;
            }
            writeln!(f, "{}", text.trim_end())?;
            if let Some(line) = line.filter(|line| !line.against.is_empty()) {
                writeln!(f, "    against {}", join(&line.against))?;
            }
        }
        Ok(())
    }
}

fn row(line: &Line) -> [String; 6] {
    let measured = line.failure.as_ref().map_or_else(|| join(&line.measured), |failure| format!("failed: {failure}"));
    let ratio = line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let met = if line.is_met() { "met" } else { "missed" };
    [line.name.to_owned(), line.case.clone(), measured, ratio, line.goal(), met.to_owned()]
}

fn join(figures: &[Figure]) -> String {
    figures.iter().map(Figure::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(median: f64) -> Line {
        Line {
            name: "latency",
            case: "smtp".to_owned(),
            measured: vec![
                Figure::new("median", median, Unit::Milliseconds).at_most(3.0),
                Figure::new("rate", 1234.0, Unit::PerSecond),
            ],
            ..Line::default()
        }
    }

    #[test]
    fn a_goal_is_met_up_to_its_very_value() {
        for (line, met) in [
            (Line::of_rate("accept", "", 300.0, 100.0, 3.0), true),
            (Line::of_rate("accept", "", 299.0, 100.0, 3.0), false),
            (latency(3.0), true),
            (latency(3.1), false),
            (Line { failure: Some("gone".to_owned()), ..latency(1.0) }, false),
        ] {
            assert_eq!(line.is_met(), met, "{line:?}");
        }
    }

    #[test]
    fn json_has_an_object_for_each_line() {
        let report = Report { conditions: vec!["2 cores".to_owned()], lines: vec![latency(2.5)] };
        let expected = json!({
            "conditions": ["2 cores"],
            "scenarios": [{
                "name": "latency",
                "case": "smtp",
                "figures": { "median_ms": 2.5, "rate_per_second": 1234.0 },
                "ratio": null,
                "goal": "median ≤ 3 ms",
                "met": true,
                "failure": null,
            }],
        });
        assert_eq!(report.to_json(), expected);
    }

    #[test]
    fn the_table_lines_up_and_tells_the_floor() {
        let lines = vec![Line::of_rate("accept", "64 callers", 12_345.6, 4_115.2, 3.0), latency(2.5)];
        let report = Report { conditions: vec!["2 cores".to_owned(), "release build".to_owned()], lines };
        let expected = "\
2 cores, release build
scenario  case        measured                     ratio  goal
accept    64 callers  rate 12,346/s                3.00   ratio ≥ 3      met
    against floor 4,115/s
latency   smtp        median 2.5 ms, rate 1,234/s         median ≤ 3 ms  met
";
        assert_eq!(report.to_string(), expected);
    }
}
