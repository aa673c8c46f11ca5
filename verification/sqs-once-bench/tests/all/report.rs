//! The formats of the results.

use std::collections::BTreeMap;
use std::fs;

use sqs_once_bench::contender::{Contender, LIMIT, OURS};
use sqs_once_bench::measure::{Cell, Spread};
use sqs_once_bench::report::{self, DocsError, Results, Skipped};
use sqs_once_bench::shape::{GROWING, Shape};
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
        at: 0,
        load_before: None,
        load_after: None,
        request_latency_us: 2000,
        statement_latency_us: 0,
        rounds: 3,
        cells: cells.collect(),
        cold_ms: BTreeMap::from([(OURS, spread(12.0)), (LIMIT, spread(10.0))]),
        cold_cpu_ms: BTreeMap::new(),
        consumptions: Vec::new(),
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
fn an_aim_just_missed_shows_by_how_much() {
    let text = report::text(&results(1.252));
    let aim = "MISSED 100 new: latency to the limit's ≤ 1.25: 1.252";
    assert!(text.lines().any(|line| line == aim), "{text}");
    let text = report::text(&results(1.248));
    let aim = "holds  100 new: latency to the limit's ≤ 1.25: 1.25";
    assert!(text.lines().any(|line| line == aim), "{text}");
}

#[test]
fn an_aim_without_a_figure_is_not_measured() {
    let mut results = results(1.0);
    results.cells.retain(|cell| cell.shape != "1000 new");
    results.cold_ms.clear();
    let text = report::text(&results);
    for aim in [
        "1000 new: latency to the limit's ≤ 1.25",
        "1000 new: CPU to the prototype's ≤ 1.5",
        "cold start to the limit's ≤ 1.3",
    ] {
        let line = format!("–      {aim}: not measured");
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
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
    assert!(written.contains("### New keys: latency, ms") && !written.contains("outdated"));

    report::write_docs(&results(1.2), docs.path()).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), written);
}

#[test]
fn a_plot_has_every_point_that_was_measured_and_every_line_s_name() {
    let docs = tempfile::tempdir().unwrap();
    let page = "<!-- measured: begin --><!-- measured: end -->";
    fs::write(docs.path().join("performance.md"), page).unwrap();
    report::write_docs(&results(1.2), docs.path()).unwrap();
    let all = Contender::all();
    let growing: Vec<_> = all
        .iter()
        .filter(|contender| GROWING.contains(&contender.name))
        .cloned()
        .collect();
    for (name, shown) in [
        ("performance.svg", all),
        ("performance-growth.svg", growing),
    ] {
        let svg = fs::read_to_string(docs.path().join(name)).unwrap();
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
fn the_page_says_who_was_left_out() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    fs::write(&page, "<!-- measured: begin --><!-- measured: end -->").unwrap();
    let mut results = results(1.0);
    results.skipped.push(Skipped {
        contender: "python-1",
        shape: "10000 new",
        expected_s: 98.4,
    });
    report::write_docs(&results, docs.path()).unwrap();
    let page = fs::read_to_string(&page).unwrap();
    let left_out = "Left out for its time: Powertools Python, sequential (98 s a batch).";
    assert_eq!(page.matches(left_out).count(), 1, "{page}");
}

#[test]
fn growth_is_the_line_through_what_was_measured() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    fs::write(&page, "<!-- measured: begin --><!-- measured: end -->").unwrap();
    report::write_docs(&results(1.5), docs.path()).unwrap();
    let page = fs::read_to_string(&page).unwrap();
    // 1.5 × (4 + records ÷ 50) ms, and 30 µs of CPU per record.
    assert!(
        page.contains("| sqs-once | 6.00 ms + 30.0 µs × records | "),
        "{page}"
    );
}

#[test]
fn a_busy_machine_is_told() {
    let mut results = results(1.0);
    assert!(!report::text(&results).contains("WARNING"));
    results.load_before = Some(0.5);
    assert!(!report::text(&results).contains("WARNING"));
    results.load_before = Some(0.7);
    assert!(report::text(&results).contains("WARNING"));
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

#[test]
fn a_page_is_left_alone_unless_everything_was_measured() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    let text = "<!-- measured: begin --><!-- measured: end -->";
    fs::write(&page, text).unwrap();
    let mut failed = results(1.0);
    failed.missing(&Contender::all()[0], &std::io::Error::other("no network"));
    let mut chosen = results(1.0);
    chosen.cells.retain(|cell| cell.contender != "bare-8");
    for (results, gap) in [(failed, "no network"), (chosen, "bare-8, 1 new")] {
        let error = report::write_docs(&results, docs.path()).unwrap_err();
        assert!(error.to_string().contains(gap), "{error}");
        assert!(matches!(error, DocsError::Incomplete { .. }), "{error}");
        assert_eq!(fs::read_to_string(&page).unwrap(), text);
        assert_eq!(fs::read_dir(docs.path()).unwrap().count(), 1);
    }
}

#[test]
fn the_page_says_when_it_was_measured_and_links_all_of_it() {
    let docs = tempfile::tempdir().unwrap();
    let page = docs.path().join("performance.md");
    fs::write(&page, "<!-- measured: begin --><!-- measured: end -->").unwrap();
    let mut results = results(1.0);
    // 29 February 2024, one second before midnight.
    results.at = 1_709_251_199;
    report::write_docs(&results, docs.path()).unwrap();
    let page = fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("Measured on 2024-02-29 (UTC) on a machine"),
        "{page}"
    );
    assert!(page.contains("[All of it as JSON]."));
    let json = fs::read_to_string(docs.path().join("performance.json")).unwrap();
    assert_eq!(json.trim_end(), report::json(&results).unwrap());
}
