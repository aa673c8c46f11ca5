//! The figures of `docs/performance.md`, as Markdown.

use std::fmt::{Result, Write};

use super::cost::{self, message_costs, record_costs};
use super::goals::goals;
use super::growth::{self, growth};
use super::{Results, short, title};
use crate::contender::{BY_HAND_10, Contender, LIMIT, OURS, OURS_SINGLE};
use crate::measure::{Cell, Spread};
use crate::shape::{Part, Shape, WITH_STATEMENTS};

/// Batches of new keys.
const NEW: [&str; 5] = ["1 new", "10 new", "100 new", "1000 new", "10000 new"];
/// Batches whose memory is shown.
const MEMORY: [&str; 3] = ["1 new", "1000 new", "10000 new"];
/// Batches whose requests are shown.
const REQUESTS: [&str; 4] = ["1 new", "10 new", "100, half duplicates", "100 duplicates"];
/// The contenders whose requests are shown. The others send as many as one of these.
const REQUESTING: [&str; 4] = [LIMIT, OURS, OURS_SINGLE, BY_HAND_10];
/// The other batches that the page shows.
const OTHERS: [&str; 5] = [
    "100, half duplicates",
    "1000, half duplicates",
    "100 duplicates",
    "100 duplicates, cached",
    "100 new, 20 ms each",
];

/// All that goes between the page's markers.
pub(super) fn figures(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_figures(results, &mut text);
    text
}

fn write_figures(results: &Results, text: &mut String) -> Result {
    let load = results
        .load_before
        .map_or_else(|| "unknown".to_owned(), short);
    writeln!(
        text,
        "Measured on {} (UTC) on {} (load before: {load}), {} rounds; every request takes {} µs, every statement {} µs \
         more. [All of it as JSON].",
        results.day(),
        results.machine,
        results.rounds,
        results.request_latency_us,
        results.statement_latency_us
    )?;
    if results.is_busy() {
        writeln!(
            text,
            "\n**Other work ran on the machine: times are too long, ratios are rough.**"
        )?;
    }
    write_aims(results, text)?;
    write_comparison(results, text)?;
    write_cold_starts(results, text)?;
    write_statements(results, text)?;
    write_growth(results, text)?;
    write_costs(results, text)
}

fn write_aims(results: &Results, text: &mut String) -> Result {
    writeln!(
        text,
        "\n### Aims\n\n| aim | measured | verdict | note |\n|---|---|---|---|"
    )?;
    for goal in goals(results) {
        let verdict = match goal.holds {
            Some(true) => "holds",
            Some(false) => "missed",
            None => "not measured",
        };
        let measured = goal.figure().unwrap_or_else(|| "–".to_owned());
        let (aim, note) = (goal.text, goal.note);
        writeln!(text, "| {aim} | {measured} | {verdict} | {note} |")?;
    }
    Ok(())
}

fn write_comparison(results: &Results, text: &mut String) -> Result {
    let all = |_: &Contender| true;
    let latency = |cell: &Cell| spread(cell.latency_ms);
    writeln!(text, "\n### New keys: latency, ms\n")?;
    write_table(results, text, &NEW, all, latency)?;
    let shown = |shape: &str| NEW.contains(&shape) || OTHERS.contains(&shape);
    let skipped = results.skipped.iter();
    let skipped: Vec<_> = skipped
        .filter(|skipped| shown(skipped.shape))
        .map(|one| format!("{} ({:.0} s a batch)", title(one.contender), one.expected_s))
        .collect();
    if !skipped.is_empty() {
        writeln!(text, "\nLeft out for its time: {}.", skipped.join(", "))?;
    }
    writeln!(
        text,
        "\n![Latency and CPU of a batch against its size, for all contenders][performance.svg]"
    )?;
    writeln!(text, "\n### New keys: CPU a record, µs\n")?;
    write_table(results, text, &NEW, all, |cell| short(cell.cpu_us.median))?;
    writeln!(text, "\n### Other batches: latency, ms\n")?;
    write_table(results, text, &OTHERS, all, latency)?;
    writeln!(text, "\n### Peak memory, MB\n")?;
    write_table(results, text, &MEMORY, all, |cell| {
        cell.memory_mb.map_or_else(String::new, short)
    })?;
    writeln!(text, "\n### Requests a record\n")?;
    let requesting = |contender: &Contender| REQUESTING.contains(&contender.name);
    write_table(results, text, &REQUESTS, requesting, |cell| {
        short(cell.requests)
    })
}

/// A row for each contender that is shown, and a column for each batch.
fn write_table(
    results: &Results,
    text: &mut String,
    shapes: &[&str],
    is_shown: fn(&Contender) -> bool,
    value: fn(&Cell) -> String,
) -> Result {
    let marks = "---|".repeat(shapes.len());
    writeln!(text, "| | {} |\n|---|{marks}", shapes.join(" | "))?;
    for contender in Contender::all().iter().filter(|one| is_shown(one)) {
        write!(text, "| {} |", contender.title)?;
        for shape in shapes {
            let cell = results.cell(contender.name, shape);
            let shown = cell.map_or_else(|| "–".to_owned(), value);
            write!(text, " {shown} |")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// The median, and between brackets the least and the largest.
fn spread(spread: Spread) -> String {
    let (median, min, max) = (short(spread.median), short(spread.min), short(spread.max));
    format!("{median} ({min}–{max})")
}

fn write_cold_starts(results: &Results, text: &mut String) -> Result {
    writeln!(
        text,
        "\n### Cold start\n\nFrom the start of the process to its first answer, for 10 new keys.\n"
    )?;
    writeln!(text, "| | ms | CPU, ms |\n|---|---|---|")?;
    for contender in Contender::all() {
        if let Some(latency) = results.cold_ms.get(contender.name) {
            let cpu = results.cold_cpu_ms.get(contender.name);
            let cpu = cpu.map_or_else(String::new, |cpu| short(cpu.median));
            writeln!(
                text,
                "| {} | {} | {cpu} |",
                contender.title,
                spread(*latency)
            )?;
        }
    }
    Ok(())
}

/// A row for each contender; for each size, a column for each latency of statements.
fn write_statements(results: &Results, text: &mut String) -> Result {
    let shapes = Shape::all();
    let slow = shapes.iter().filter(|shape| shape.part == Part::Statements);
    let mut columns: Vec<_> = slow.filter(|shape| shape.records >= 100).collect();
    columns.sort_by_key(|shape| (shape.records, shape.statement));
    writeln!(
        text,
        "\n### When statements take time\n\nLatency of a batch of new keys, ms, when each statement of a request \
         takes 0.2 or 1 ms more.\n"
    )?;
    write!(text, "| |")?;
    for shape in &columns {
        let millis = shape.statement.as_secs_f64() * 1000.0;
        write!(text, " {} keys, {millis} ms |", shape.records)?;
    }
    writeln!(text, "\n|---|{}", "---|".repeat(columns.len()))?;
    let contenders = Contender::all().into_iter();
    for contender in contenders.filter(|one| WITH_STATEMENTS.contains(&one.name)) {
        write!(text, "| {} |", contender.title)?;
        for shape in &columns {
            let cell = results.cell(contender.name, shape.name);
            let latency = cell.map_or_else(String::new, |cell| short(cell.latency_ms.median));
            write!(text, " {latency} |")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_growth(results: &Results, text: &mut String) -> Result {
    let growth = growth(results);
    writeln!(
        text,
        "\n### Growth\n\nThe line that fits the batches of new keys best (least squares of the relative errors):\n"
    )?;
    writeln!(
        text,
        "| | latency | off by at most | CPU | off by at most |"
    )?;
    writeln!(text, "|---|---|---|---|---|")?;
    for one in &growth {
        let line = |line: growth::Line| {
            let (base, each) = (short(line.base), short(line.each * 1000.0));
            let off = short(line.off * 100.0);
            format!("{base} ms + {each} µs × records | {off} %")
        };
        let (latency, cpu) = (line(one.latency_ms), line(one.cpu_ms));
        writeln!(text, "| {} | {latency} | {cpu} |", one.title)?;
    }
    writeln!(
        text,
        "\n![Latency and CPU of a batch against its size][performance-growth.svg]"
    )
}

fn write_costs(results: &Results, text: &mut String) -> Result {
    writeln!(
        text,
        "\n### Cost\n\nDollars at the prices of us-east-1, {}: ${} for a million write request units, ${} for a million \
         read request units.\n",
        cost::PRICES_OF,
        cost::WRITES,
        cost::READS
    )?;
    writeln!(
        text,
        "| a record | write units | read units | dollars a million | Powertools: write units | dollars a million |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|")?;
    for cost in record_costs(results) {
        let theirs = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), short);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            cost.record,
            short(cost.ours.write),
            short(cost.ours.read),
            short(cost.ours_dollars),
            theirs(cost.powertools_writes),
            theirs(cost.powertools_dollars),
        )?;
    }
    writeln!(
        text,
        "\nA million messages with new keys, with the measured Lambda time on arm64 with {} MB (one virtual CPU): ${} a \
         GB-second, ${} for a million invocations.\n",
        cost::MEMORY_MB,
        cost::GB_SECOND,
        cost::INVOCATIONS
    )?;
    write!(text, "| | DynamoDB, $ |")?;
    for shape in cost::BATCHES {
        let records = shape.trim_end_matches(" new");
        write!(text, " Lambda, batches of {records}, $ |")?;
    }
    writeln!(text, "\n|---|---|{}", "---|".repeat(cost::BATCHES.len()))?;
    for cost in message_costs(results) {
        write!(text, "| {} | {} |", cost.title, short(cost.table))?;
        for lambda in cost.lambda {
            write!(text, " {} |", lambda.map_or_else(String::new, short))?;
        }
        writeln!(text)?;
    }
    Ok(())
}
