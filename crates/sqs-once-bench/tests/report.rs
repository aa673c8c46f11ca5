//! What becomes of the results.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;

use sqs_once_bench::contender::{Contender, LIMIT, OURS};
use sqs_once_bench::measure::{Cell, Spread};
use sqs_once_bench::report::{self, DocsError, Results};
use sqs_once_bench::shape::Shape;

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
        operations: BTreeMap::new(),
        connections: 4,
        table_cpu_us: 10.0,
        table_late_us: 20.0,
    }
}

/// Results in which sqs-once takes so many times as long as the limit.
fn results(to_limit: f64) -> Results {
    let contenders = Contender::all();
    let shapes = Shape::all();
    let cells = contenders.iter().flat_map(|contender| {
        let times = match contender.name {
            LIMIT => 1.0,
            OURS => to_limit,
            _ => 1000.0,
        };
        shapes.iter().map(move |shape| {
            let least = 4.0 + shape.records as f64 / 50.0;
            cell(contender, shape, least * times)
        })
    });
    Results {
        machine: "a machine".to_owned(),
        at: 0,
        load_before: None,
        load_after: None,
        request_latency_us: 2000,
        statement_latency_us: 0,
        rounds: 3,
        cells: cells.collect(),
        cold_ms: BTreeMap::from([(OURS, spread(12.0)), (LIMIT, spread(10.0))]),
        cold_cpu_ms: BTreeMap::new(),
        skipped: Vec::new(),
        failures: Vec::new(),
    }
}

#[test]
fn an_aim_that_is_missed_is_called_so() {
    let aim = |to_limit: f64| {
        let text = report::text(&results(to_limit));
        let line = text
            .lines()
            .find(|line| line.contains(" 100 new: latency to the limit's"));
        line.unwrap().to_owned()
    };
    assert!(aim(1.2).starts_with("holds"));
    assert!(aim(1.3).starts_with("MISSED"));
}

#[test]
fn a_contender_that_could_not_be_run_is_shown() {
    let mut results = results(1.0);
    results.missing(&Contender::all()[0], &std::io::Error::other("no network"));
    assert!(report::text(&results).contains("MISSING: limit: bare HTTP client: no network"));
}

#[test]
fn figures_go_between_the_markers_and_nowhere_else() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    let text =
        "before\n\n<!-- measured: begin -->\n\noutdated\n\n<!-- measured: end -->\n\nafter\n";
    fs::write(&page, text).unwrap();
    report::write_docs(&results(1.2), docs.path()).unwrap();
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("before\n\n<!-- measured: begin -->\n"));
    assert!(written.ends_with("<!-- measured: end -->\n\nafter\n"));
    assert!(written.contains("### 100 new") && !written.contains("outdated"));

    report::write_docs(&results(1.2), docs.path()).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), written);
    let svg = fs::read_to_string(docs.path().join("performance.svg")).unwrap();
    let plotted = Shape::all().into_iter().filter(Shape::is_plotted).count();
    assert_eq!(svg.matches("<polyline").count(), 2 * Contender::all().len());
    assert_eq!(
        svg.matches("<circle").count(),
        2 * Contender::all().len() * plotted
    );
}

#[test]
fn a_page_without_markers_is_left_alone() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    fs::write(&page, "by hand").unwrap();
    let error = report::write_docs(&results(1.2), docs.path()).unwrap_err();
    assert!(matches!(error, DocsError::Markers { .. }), "{error}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "by hand");
}
