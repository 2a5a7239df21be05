//! The benchmark in its smallest form: that every scenario comes to figures. How good they are is not judged here.

use std::{collections::BTreeSet, time::Duration};

use postrider::bench::{self, Options, Report, Scale, Scenario};

use crate::support::postgres::Database;

fn smallest() -> Scale {
    Scale {
        messages: 50,
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

async fn run(database: &Database, scenarios: &[Scenario]) -> Report {
    let options = Options {
        scenarios: scenarios.to_vec(),
        scale: smallest(),
        database_url: Some(database.url.clone()),
        program: env!("CARGO_BIN_EXE_postrider").into(),
    };
    bench::run(&options, &|_| {}).await.expect("there is a database to run on")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_comes_to_figures_and_leaves_nothing_behind() {
    let database = Database::new().await;
    let report = run(&database, &Scenario::ALL).await;

    let names: BTreeSet<&str> = report.lines.iter().map(|line| line.name).collect();
    assert_eq!(names, Scenario::ALL.map(Scenario::as_str).into());
    for line in &report.lines {
        assert_eq!(line.failure, None, "{} {}", line.name, line.case);
        assert!(!line.measured.is_empty(), "{} {}", line.name, line.case);
        for figure in line.measured.iter().chain(&line.against) {
            assert!(figure.value.is_finite(), "{} {}: {figure}", line.name, line.case);
        }
    }
    let schemas = "pg_namespace where starts_with(nspname, 'postrider_bench_')";
    assert_eq!(database.count(schemas).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_is_an_object_of_the_json() {
    let database = Database::new().await;
    let json = run(&database, &[Scenario::Drain]).await.to_json();

    let drain = &json["scenarios"][0];
    assert_eq!((&drain["name"], &drain["goal"]), (&"drain".into(), &"ratio ≥ 0.8".into()));
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
async fn only_a_schema_of_the_benchmark_is_dropped() {
    let database = Database::new().await;
    database.outbox.drop_benchmark().await.expect_err("it is not the benchmark's");
    assert_eq!(database.count("pending").await, 0, "the tables are still there");
}
