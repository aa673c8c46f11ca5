//! The formats of the results.

use std::collections::BTreeMap;

use anyhow::anyhow;
use sqs_once_bench::contender::{Contender, LIMIT, OURS};
use sqs_once_bench::measure::{Cell, ColdStart, Spread};
use sqs_once_bench::report::{self, Results, Skipped};
use sqs_once_bench::shape::Shape;
use sqs_once_bench::table::Units;

fn spread(value: f64) -> Spread {
    Spread::of([value * 0.9, value, value * 1.1]).unwrap()
}

fn cell(contender: &Contender, shape: &Shape, latency_ms: f64) -> Cell {
    Cell {
        contender: contender.name,
        shape: shape.name,
        records: shape.records,
        latency_ms: spread(latency_ms),
        cpu_us: spread(30.0),
        memory_mb: Some(12.0),
        requests: 0.08,
        statements: 2.0,
        units: Units {
            write: 2.0,
            read: 0.0,
        },
        event_bytes: 600 * shape.records,
        operations: BTreeMap::new(),
        connections: 4,
        table_cpu_us: 10.0,
        table_late_us: 20.0,
    }
}

fn cold_start(contender: &'static str, latency_ms: f64) -> ColdStart {
    ColdStart {
        contender,
        share: None,
        latency_ms: spread(latency_ms),
        cpu_ms: None,
    }
}

/// Results in which sqs-once takes this many times as long as the limit.
fn results(to_limit: f64) -> Results {
    let contenders = Contender::all();
    let shapes = Shape::all();
    let cells = contenders.iter().flat_map(|contender| {
        let times = match contender.name {
            LIMIT => 1.0,
            OURS => to_limit,
            _ => 1000.0,
        };
        let those = shapes.iter().filter(|shape| shape.is_for(contender));
        those.map(move |shape| {
            let least = 4.0 + shape.records as f64 / 50.0;
            cell(contender, shape, least * times)
        })
    });
    Results {
        machine: "a machine".to_owned(),
        cores: 2,
        cells: cells.collect(),
        cold_starts: vec![cold_start(OURS, 12.0), cold_start(LIMIT, 10.0)],
        ..Results::new(1)
    }
}

/// Asserts that the text has this line.
#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(text.lines().any(|one| one == line), "{line}\n{text}");
}

#[test]
fn an_aim_that_is_missed_is_called_so_and_shows_by_how_much() {
    for (to_limit, aim) in [
        (1.2, "holds  10 new: latency to the limit's ≤ 1.25: 1.20"),
        (1.248, "holds  10 new: latency to the limit's ≤ 1.25: 1.25"),
        (1.252, "MISSED 10 new: latency to the limit's ≤ 1.25: 1.252"),
        (1.3, "MISSED 10 new: latency to the limit's ≤ 1.25: 1.30"),
    ] {
        assert_line(&report::text(&results(to_limit)), aim);
    }
}

#[test]
fn an_aim_without_a_figure_is_not_measured() {
    let mut results = results(1.0);
    results.cells.retain(|cell| cell.shape != "1000 new");
    results.cold_starts.clear();
    let text = report::text(&results);
    for aim in [
        "1000 new: latency to the limit's ≤ 1.25",
        "1000 new: CPU to the prototype's ≤ 1",
        "cold start to the limit's ≤ 1.3",
    ] {
        assert_line(&text, &format!("–      {aim}: not measured"));
    }
}

#[test]
fn a_contender_that_could_not_be_run_is_shown() {
    let mut results = results(1.0);
    results.missing(&Contender::all()[0], &anyhow!("no network"));
    assert!(report::text(&results).contains("MISSING: limit: bare HTTP client: no network"));
}

#[test]
fn an_aim_that_the_limit_itself_misses_says_so() {
    let mut results = results(1.0);
    for cell in &mut results.cells {
        if cell.contender == "python-6" {
            cell.latency_ms = spread(60.0 * (4.0 + cell.records as f64 / 50.0));
        }
    }
    let text = report::text(&results);
    let line = |aim: &str| text.lines().find(|line| line.contains(aim)).unwrap();
    assert!(
        line("faster than Powertools Python, 6 threads").ends_with("(the limit itself is 60.0 ×)"),
        "{text}"
    );
    assert!(!line("faster than Powertools Python, sequential").contains("the limit"));
}

#[test]
fn a_busy_machine_is_told() {
    for (load, is_busy) in [(None, false), (Some(0.5), false), (Some(0.7), true)] {
        let mut results = results(1.0);
        results.load_before = load;
        let text = report::text(&results);
        assert_eq!(text.contains("WARNING"), is_busy, "{load:?}");
    }
}

#[test]
fn a_batch_that_was_left_out_is_shown() {
    let mut results = results(1.0);
    results.skipped.push(Skipped {
        contender: "python-1",
        shape: "10000 new",
        expected_s: 98.4,
    });
    let text = report::text(&results);
    assert_line(&text, "left out: python-1, 10000 new: 98 s a batch");
}

#[test]
fn growth_is_the_line_through_what_was_measured() {
    let json = report::json(&results(1.5)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let growth = json["growth"].as_array().unwrap();
    let ours = growth.iter().find(|one| one["contender"] == OURS).unwrap();
    // 1.5 × (4 + records ÷ 50) ms, and 30 µs of CPU per record.
    let close = |found: &serde_json::Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-6, "{ours}");
    };
    close(&ours["latency_ms"]["base"], 6.0);
    close(&ours["latency_ms"]["each"], 0.03);
    close(&ours["cpu_ms"]["each"], 0.03);
}
