//! The table of results, for people and as JSON.
//!
//! Owns what a line is and whether its goals are met; measures nothing.

mod figure;

use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

pub use figure::{Figure, Unit};

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
    /// The goal for the ratio: no more than that.
    pub ratio_at_most: Option<f64>,
    /// Why there are no figures.
    pub failure: Option<String>,
}

impl Line {
    /// A line for a rate that is held against a floor.
    pub fn of_rate(name: &'static str, case: impl Into<String>, rate: f64, floor: f64, at_least: f64) -> Self {
        let (rate, floor) = (Figure::new("rate", rate, Unit::PerSecond), Figure::new("floor", floor, Unit::PerSecond));
        Self { ratio_at_least: Some(at_least), ..Self::of_pair(name, case, rate, floor) }
    }

    /// A line for a figure that is held against another; its goal is still to be set.
    pub fn of_pair(name: &'static str, case: impl Into<String>, measured: Figure, against: Figure) -> Self {
        Self {
            name,
            case: case.into(),
            measured: vec![measured],
            against: vec![against],
            ratio: Some(measured.value / against.value),
            ..Self::default()
        }
    }

    /// Whether every goal is met. Without figures it is not.
    pub fn is_met(&self) -> bool {
        let holds = |limit: Option<f64>, fits: fn(f64, f64) -> bool| {
            limit.is_none_or(|limit| self.ratio.is_some_and(|ratio| fits(ratio, limit)))
        };
        let by_ratio = holds(self.ratio_at_least, |ratio, least| ratio >= least)
            && holds(self.ratio_at_most, |ratio, most| ratio <= most);
        self.failure.is_none() && by_ratio && self.measured.iter().all(Figure::is_met)
    }

    /// Whether there is a goal, or something failed that has one: else nothing is met or missed.
    fn is_judged(&self) -> bool {
        self.failure.is_some() || !self.goal().is_empty()
    }

    /// The goal in words, empty where there is none.
    fn goal(&self) -> String {
        let least = self.ratio_at_least.map(|least| format!("ratio ≥ {least}"));
        let most = self.ratio_at_most.map(|most| format!("ratio ≤ {most}"));
        let figures = self.measured.iter().filter_map(Figure::goal);
        least.into_iter().chain(most).chain(figures).collect::<Vec<_>>().join(", ")
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
            "met": self.is_judged().then(|| self.is_met()),
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
    let met = match line.is_judged() {
        true if line.is_met() => "met",
        true => "missed",
        false => "",
    };
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

    fn slower(times: f64) -> Line {
        let (now, before) =
            (Figure::new("p99", times, Unit::Milliseconds), Figure::new("alone", 1.0, Unit::Milliseconds));
        Line { ratio_at_most: Some(2.0), ..Line::of_pair("fairness", "", now, before) }
    }

    #[test]
    fn what_has_no_goal_is_neither_met_nor_missed() {
        let floor = Line { measured: vec![Figure::new("left", 7.0, Unit::Count)], ..Line::default() };
        let report = Report { lines: vec![floor], ..Report::default() };
        let json = &report.to_json()["scenarios"][0];
        assert_eq!((&json["met"], &json["figures"]["left"]), (&Value::Null, &7.0.into()));
        assert!(report.to_string().trim_end().ends_with("left 7"), "{report}");
    }

    #[test]
    fn a_goal_is_met_up_to_its_very_value() {
        for (line, met) in [
            (Line::of_rate("accept", "", 300.0, 100.0, 3.0), true),
            (Line::of_rate("accept", "", 299.0, 100.0, 3.0), false),
            (latency(3.0), true),
            (latency(3.1), false),
            (Line { failure: Some("gone".to_owned()), ..latency(1.0) }, false),
            (slower(2.0), true),
            (slower(2.1), false),
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
