//! The results as text.

use std::fmt::Write;

use super::goals::goals;
use super::{Results, short};
use crate::contender::{Contender, LIMIT, OURS};
use crate::shape::Shape;

/// The results as a table for each shape.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write_all(results, &mut text);
    text
}

fn write_all(results: &Results, text: &mut String) -> std::fmt::Result {
    for shape in Shape::all() {
        let cells = results.cells_of(&shape);
        if cells.is_empty() {
            continue;
        }
        let head = [
            "p50 ms",
            "(min – max)",
            "CPU µs/r",
            "requ./r",
            "MB",
            "× limit",
            "× sqs-once",
        ];
        writeln!(text)?;
        row(text, shape.name, head.map(str::to_owned))?;
        for (title, cell) in cells {
            let spread = cell.latency_ms;
            let times = |ratio: Option<f64>| ratio.map_or_else(|| "–".to_owned(), short);
            let cells = [
                short(spread.median),
                format!("({} – {})", short(spread.min), short(spread.max)),
                short(cell.cpu_us.median),
                short(cell.requests),
                times(cell.memory_mb),
                times(results.latency_ratio(cell, LIMIT)),
                times(results.latency_ratio(cell, OURS)),
            ];
            row(text, title, cells)?;
        }
    }
    for shape in Shape::cold_starts() {
        let share = shape.share.map(|share| share.name);
        let mut starts = results.cold_starts.iter().filter(|one| one.share == share);
        if starts.next().is_some() {
            let on = share.unwrap_or("whole cores");
            writeln!(
                text,
                "\ncold start, 10 new, {on}: process start to first answer"
            )?;
        }
        for contender in Contender::all() {
            let Some(start) = results.cold_start(contender.name, share) else {
                continue;
            };
            let (spread, cpu) = (start.latency_ms, start.cpu_ms);
            writeln!(
                text,
                "{:<36} {:>9} ({} – {}) ms, {} ms CPU",
                contender.title,
                short(spread.median),
                short(spread.min),
                short(spread.max),
                cpu.map_or_else(|| "–".to_owned(), |cpu| short(cpu.median)),
            )?;
        }
    }
    writeln!(text, "\naims")?;
    for goal in goals(results) {
        let verdict = match goal.holds {
            Some(true) => "holds ",
            Some(false) => "MISSED",
            None => "–     ",
        };
        let measured = goal.figure().unwrap_or_else(|| "not measured".to_owned());
        let aim = goal.text;
        let note = if goal.note.is_empty() {
            String::new()
        } else {
            format!(" ({})", goal.note)
        };
        writeln!(text, "{verdict} {aim}: {measured}{note}")?;
    }
    write_stand_in(results, text)?;
    for skipped in &results.skipped {
        let seconds = skipped.expected_s;
        writeln!(
            text,
            "left out: {}, {}: {seconds:.0} s a batch",
            skipped.contender, skipped.shape
        )?;
    }
    for failure in &results.failures {
        writeln!(text, "{failure}")?;
    }
    Ok(())
}

fn row(text: &mut String, title: &str, cells: [String; 7]) -> std::fmt::Result {
    let [latency, spread, cpu, requests, memory, limit, ours] = cells;
    writeln!(
        text,
        "{title:<36} {latency:>9} {spread:>19} {cpu:>9} {requests:>9} {memory:>7} {limit:>9} {ours:>9}"
    )
}

/// The stand-in's actual latency and cost.
fn write_stand_in(results: &Results, text: &mut String) -> std::fmt::Result {
    let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), short);
    writeln!(
        text,
        "\n{}; load before {}, at the end {}; {} rounds",
        results.machine,
        load(results.load_before),
        load(results.load_after),
        results.rounds
    )?;
    if results.is_busy() {
        writeln!(
            text,
            "WARNING: the machine did other things: times are longer than they need be, ratios are rough"
        )?;
    }
    writeln!(
        text,
        "table: {} µs a request, {} µs a statement",
        results.request_latency_us, results.statement_latency_us
    )?;
    for shape in Shape::all() {
        if let Some(cell) = results.cell(OURS, shape.name) {
            writeln!(
                text,
                "  {}: answered {} µs later than that, its own CPU {} µs a record ({} µs a request)",
                shape.name,
                short(cell.table_late_us),
                short(cell.table_cpu_us),
                short(cell.table_cpu_us / cell.requests.max(f64::MIN_POSITIVE))
            )?;
        }
    }
    Ok(())
}
