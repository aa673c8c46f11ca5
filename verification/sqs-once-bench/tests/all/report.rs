//! The formats of the results.

use std::collections::BTreeMap;
use std::fs;

use anyhow::anyhow;
use sqs_once_bench::contender::{Contender, LIMIT, OURS};
use sqs_once_bench::measure::{Cell, ColdStart, Spread};
use sqs_once_bench::report::{self, Results, Skipped};
use sqs_once_bench::shape::{GROWING, Shape};
use sqs_once_bench::table::Units;
use tempfile::TempDir;

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

const PAGE: &str = "<!-- measured: begin --><!-- measured: end -->";

/// A directory with the page `performance.md`.
fn docs(page: &str) -> TempDir {
    let docs = tempfile::tempdir().unwrap();
    fs::write(docs.path().join("performance.md"), page).unwrap();
    docs
}

fn read(docs: &TempDir, name: &str) -> String {
    fs::read_to_string(docs.path().join(name)).unwrap()
}

/// The page with these results.
fn page(results: &Results) -> String {
    let docs = docs(PAGE);
    report::write_docs(results, docs.path()).unwrap();
    read(&docs, "performance.md")
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
fn figures_go_between_the_markers_and_nowhere_else() {
    let docs =
        docs("before\n\n<!-- measured: begin -->\n\noutdated\n\n<!-- measured: end -->\n\nafter\n");
    report::write_docs(&results(1.2), docs.path()).unwrap();
    let written = read(&docs, "performance.md");
    assert!(written.starts_with("before\n\n<!-- measured: begin -->\n"));
    assert!(written.ends_with("<!-- measured: end -->\n\nafter\n"));
    assert!(written.contains("### New keys: latency, ms") && !written.contains("outdated"));

    report::write_docs(&results(1.2), docs.path()).unwrap();
    assert_eq!(read(&docs, "performance.md"), written);
}

#[test]
fn a_plot_has_every_point_that_was_measured_and_every_line_s_name() {
    let docs = docs(PAGE);
    report::write_docs(&results(1.2), docs.path()).unwrap();
    let all = Contender::all();
    let mut growing = all.clone();
    growing.retain(|contender| GROWING.contains(&contender.name));
    for (name, shown) in [
        ("performance.svg", all),
        ("performance-growth.svg", growing),
    ] {
        let svg = read(&docs, name);
        let points: usize = shown
            .iter()
            .map(|contender| {
                let shapes = Shape::plotted().into_iter();
                shapes.filter(|shape| shape.is_for(contender)).count()
            })
            .sum();
        assert_eq!(svg.matches("<polyline").count(), 2 * shown.len());
        assert_eq!(svg.matches("<circle").count(), 2 * points);
        for contender in &shown {
            let text = format!(">{}</text>", contender.title);
            assert_eq!(svg.matches(&text).count(), 2, "{text}");
        }
    }
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
fn the_page_has_a_dash_for_a_batch_that_was_left_out() {
    let mut results = results(1.0);
    let is_left_out = |cell: &Cell| cell.contender == "python-1" && cell.shape == "10000 new";
    results.cells.retain(|cell| !is_left_out(cell));
    results.skipped.push(Skipped {
        contender: "python-1",
        shape: "10000 new",
        expected_s: 98.4,
    });
    let page = page(&results);
    let mut rows = page.lines();
    let row = rows.find(|row| row.starts_with("| Powertools Python, sequential |"));
    assert!(row.unwrap().ends_with(" – |"), "{page}");
}

#[test]
fn growth_is_the_line_through_what_was_measured() {
    let page = page(&results(1.5));
    // 1.5 × (4 + records ÷ 50) ms, and 30 µs of CPU per record.
    let line = "| sqs-once | 6.00 ms + 30.0 µs × records | ";
    assert!(page.contains(line), "{page}");
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
fn a_page_without_markers_or_of_which_not_everything_was_measured_is_left_alone() {
    let mut failed = results(1.0);
    failed.missing(&Contender::all()[0], &anyhow!("no network"));
    let mut chosen = results(1.0);
    chosen.cells.retain(|cell| cell.contender != "bare-8");
    for (text, results, why) in [
        ("by hand", results(1.2), "lacks the lines"),
        (PAGE, failed, "no network"),
        (PAGE, chosen, "not measured: bare-8, 1 new"),
    ] {
        let docs = docs(text);
        let error = report::write_docs(&results, docs.path()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(read(&docs, "performance.md"), text);
        let files = fs::read_dir(docs.path()).unwrap().count();
        assert!(text != PAGE || files == 1, "{why}");
    }
}

#[test]
fn the_page_says_when_it_was_measured_and_links_all_of_it() {
    let mut results = results(1.0);
    // 29 February 2024, one second before midnight.
    results.at = 1_709_251_199;
    let docs = docs(PAGE);
    report::write_docs(&results, docs.path()).unwrap();
    let page = read(&docs, "performance.md");
    let origin = "Measured on 2024-02-29 (UTC) on a machine";
    assert!(page.contains(origin), "{page}");
    assert!(page.contains("[All of it as JSON]."));
    let json = read(&docs, "performance.json");
    assert_eq!(json.trim_end(), report::json(&results).unwrap());
}
