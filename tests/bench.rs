//! The benchmark in its smallest form: that every scenario comes to figures. How good they are is not judged here.

use std::{collections::BTreeSet, time::Duration};

use postrider::bench::{self, Options, Report, Scale, Scenario};
use serde_json::Value;

use crate::support::postgres::Database;

/// What a line of a scenario tells: its figures as JSON names them, and the goal as it is written.
struct Expected {
    scenario: Scenario,
    lines: usize,
    figures: &'static [&'static str],
    goal: &'static str,
}

/// Scenarios that are tried one after the other; the groups are tried side by side.
const OF_RATES: [Expected; 7] = [
    Expected { scenario: Scenario::Floors, lines: 4, figures: &["rate_per_second"], goal: "" },
    Expected {
        scenario: Scenario::Accept,
        lines: 2,
        figures: &[
            "rate_per_second",
            "wal_a_message_bytes",
            "commits_a_message",
            "floor_per_second",
            "floor_with_more_connections_per_second",
        ],
        goal: "ratio ≥ ",
    },
    Expected {
        scenario: Scenario::EndToEnd,
        lines: 3,
        figures: &[
            "rate_per_second",
            "wal_a_message_bytes",
            "commits_a_message",
            "dead_rows_a_thousand",
            "floor_per_second",
            "echo_per_second",
            "accept_per_second",
            "claim_per_second",
            "settle_per_second",
            "send_per_second",
        ],
        goal: "ratio ≥ 0.7",
    },
    Expected { scenario: Scenario::Sends, lines: 2, figures: &["rate_per_second", "floor_per_second"], goal: "" },
    Expected {
        scenario: Scenario::Drain,
        lines: 1,
        figures: &["rate_per_second", "floor_per_second", "claim_per_second", "settle_per_second", "send_per_second"],
        goal: "ratio ≥ 0.8",
    },
    Expected {
        scenario: Scenario::Held,
        lines: 1,
        figures: &[
            "rate_per_second",
            "rate_at_the_end_per_second",
            "without_per_second",
            "without_at_the_end_per_second",
        ],
        goal: "ratio ≥ 0.8",
    },
    Expected {
        scenario: Scenario::Planner,
        lines: 1,
        figures: &["rate_per_second", "before_per_second"],
        goal: "ratio ≥ 0.9",
    },
];
const OF_TIMES: [Expected; 2] = [
    Expected {
        scenario: Scenario::Latency,
        lines: 4,
        figures: &["median_ms", "p99_ms", "rate_per_second"],
        goal: "median ≤ 3 ms, p99 ≤ 15 ms",
    },
    Expected {
        scenario: Scenario::Backlog,
        lines: 1,
        figures: &["claim_ms", "p99_ms", "claim_of_few_ms", "p99_of_few_ms"],
        goal: "ratio ≤ 1.2",
    },
];
const OF_CLIENTS: [Expected; 2] = [
    Expected {
        scenario: Scenario::Retention,
        lines: 1,
        figures: &[
            "p99_ms",
            "longest_ms",
            "retired_in_seconds",
            "rate_per_second",
            "steady_p99_ms",
            "steady_longest_ms",
        ],
        goal: "ratio ≤ 2",
    },
    Expected {
        scenario: Scenario::Fairness,
        lines: 2,
        figures: &["median_ms", "p99_ms", "others_left", "alone_ms", "p99_alone_ms"],
        goal: "ratio ≤ 2",
    },
];
const OF_PROCESSES: [Expected; 3] = [
    Expected {
        scenario: Scenario::Large,
        lines: 1,
        figures: &["peak_memory_mb", "rate_per_second"],
        goal: "peak memory ≤ 300 MB",
    },
    Expected {
        scenario: Scenario::Idle,
        lines: 1,
        figures: &["statements_per_second", "memory_mb"],
        goal: "statements ≤ 0.5/s, memory ≤ 50 MB",
    },
    Expected {
        scenario: Scenario::Failover,
        lines: 2,
        figures: &[
            "until_none_waits_seconds",
            "extra_ms",
            "circuit_open_after_seconds",
            "rate_per_second",
            "timeout_seconds",
            "pause_seconds",
        ],
        goal: "until none waits ≤ ",
    },
];

fn smallest() -> Scale {
    Scale {
        messages: 40,
        callers: 4,
        repeats: 1,
        failover_rate: 20.0,
        failover_phase: Duration::from_millis(400),
        silence: Duration::from_millis(300),
        pause: Duration::from_millis(200),
        breaker_window: Duration::from_secs(1),
        idle: Duration::from_millis(500),
        backlog: 2_000,
        claims: 3,
        held: Duration::from_millis(400),
        retired: 2_000,
        retention_phase: Duration::from_millis(300),
        waiting: 200,
        singles: 5,
        large: 2,
    }
}

async fn run(database: &Database, scenarios: Vec<Scenario>) -> Report {
    let options = Options {
        scenarios,
        scale: smallest(),
        database_url: Some(database.url.clone()),
        program: env!("CARGO_BIN_EXE_postrider").into(),
    };
    bench::run(&options, &|_| {}).await.expect("there is a database to run on")
}

/// Runs the scenarios, and sees that each tells all that it should and leaves nothing behind.
async fn each_tells_all(expected: &[Expected]) {
    let database = Database::new().await;
    let report = run(&database, expected.iter().map(|expected| expected.scenario).collect()).await.to_json();
    let lines = report["scenarios"].as_array().expect("an array");
    for Expected { scenario, lines: count, figures, goal } in expected {
        let lines: Vec<&Value> = lines.iter().filter(|line| line["name"] == scenario.as_str()).collect();
        assert_eq!(lines.len(), *count, "{lines:#?}");
        for line in lines {
            assert_eq!(line["failure"], Value::Null, "{line:#}");
            let told: BTreeSet<&str> =
                line["figures"].as_object().expect("figures").keys().map(String::as_str).collect();
            assert_eq!(told, figures.iter().copied().collect(), "{line:#}");
            // A figure that is not finite is none in JSON.
            assert!(line["figures"].as_object().expect("figures").values().all(Value::is_number), "{line:#}");
            assert!(line["goal"].as_str().expect("a goal").starts_with(goal), "{line:#}");
            let is_ratio = goal.starts_with("ratio") || told.contains("floor_per_second");
            assert_eq!(line["ratio"].is_number(), is_ratio, "{line:#}");
            assert_eq!(line["met"].is_boolean(), !goal.is_empty(), "{line:#}");
        }
    }
    let schemas = "pg_namespace where starts_with(nspname, 'postrider_bench_')";
    assert_eq!(database.count(schemas).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_rates_tell_all() {
    each_tells_all(&OF_RATES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_times_tell_all() {
    each_tells_all(&OF_TIMES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_clients_tell_all() {
    each_tells_all(&OF_CLIENTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_processes_tell_all() {
    each_tells_all(&OF_PROCESSES).await;
}

#[test]
fn every_scenario_is_tried() {
    let expected = OF_RATES.iter().chain(&OF_TIMES).chain(&OF_CLIENTS).chain(&OF_PROCESSES);
    let tried: BTreeSet<&str> = expected.map(|expected| expected.scenario.as_str()).collect();
    assert_eq!(tried, Scenario::ALL.map(Scenario::as_str).into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ratio_is_that_of_the_figures() {
    let database = Database::new().await;
    let json = run(&database, vec![Scenario::Drain]).await.to_json();

    let drain = &json["scenarios"][0];
    let figure = |name: &str| drain["figures"][name].as_f64().expect(name);
    let ratio = figure("rate_per_second") / figure("floor_per_second");
    assert!((drain["ratio"].as_f64().expect("a ratio") - ratio).abs() < 1e-9);
    assert_eq!(drain["met"], ratio >= 0.8);
}

#[tokio::test]
async fn a_scenario_without_its_program_is_a_line_that_says_so() {
    let database = Database::new().await;
    let options = Options {
        scenarios: vec![Scenario::Idle],
        scale: smallest(),
        database_url: Some(database.url.clone()),
        program: "/nowhere/postrider".into(),
    };
    let report = bench::run(&options, &|_| {}).await.expect("there is a database to run on");

    let failure = report.lines[0].failure.as_deref().expect("it failed");
    assert!(failure.contains("/nowhere/postrider"), "{failure}");
    assert!(!report.lines[0].is_met());
}

#[tokio::test]
async fn only_a_schema_of_the_benchmark_is_dropped_or_filled() {
    let database = Database::new().await;
    database.outbox.drop_benchmark().await.expect_err("it is not the benchmark's");
    database.outbox.fill_waiting("default", 1, 1).await.expect_err("it is not the benchmark's");
    database.outbox.make_day_over().await.expect_err("it is not the benchmark's");
    assert_eq!(database.count("pending").await, 0, "the tables are still there, and empty");
}
