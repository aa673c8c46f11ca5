//! The figures of `docs/performance.md`, as Markdown.

use std::fmt::{Result, Write};

use super::cost::{self, message_costs, record_costs};
use super::goals::goals;
use super::growth::{self, growth};
use super::{Results, short, title};
use crate::contender::Contender;
use crate::measure::Cell;
use crate::shape::{Part, Shape, WITH_STATEMENTS};

/// The text between the page's markers.
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
            "\n**The machine did other things meanwhile: times are longer than they need be, ratios are rough.**"
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
    let shapes = Shape::all().into_iter();
    for shape in shapes.filter(|shape| shape.part == Part::Comparison) {
        let cells = results.cells_of(&shape);
        if cells.is_empty() {
            continue;
        }
        writeln!(text, "\n### {}\n", shape.name)?;
        writeln!(
            text,
            "| | latency, ms | to the limit's | CPU a record, µs | requests a record | peak memory, MB |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|")?;
        for (title, cell) in cells {
            writeln!(
                text,
                "| {title} | {} ({} – {}) | {} | {} | {} | {} |",
                short(cell.latency_ms.median),
                short(cell.latency_ms.min),
                short(cell.latency_ms.max),
                results.to_limit(cell).map_or_else(String::new, short),
                short(cell.cpu_us.median),
                short(cell.requests),
                cell.memory_mb.map_or_else(String::new, short),
            )?;
        }
        let skipped = results.skipped.iter();
        let skipped = skipped.filter(|skipped| skipped.shape == shape.name);
        let skipped: Vec<_> = skipped
            .map(|one| format!("{} ({:.0} s a batch)", title(one.contender), one.expected_s))
            .collect();
        if !skipped.is_empty() {
            writeln!(text, "\nLeft out for its time: {}.", skipped.join(", "))?;
        }
    }
    writeln!(
        text,
        "\n![Latency and CPU of a batch against its size, for all contenders][performance.svg]"
    )
}

fn write_cold_starts(results: &Results, text: &mut String) -> Result {
    writeln!(
        text,
        "\n### Cold start\n\nFrom the start of the process to its first answer, for 10 new keys.\n"
    )?;
    writeln!(text, "| | ms | CPU, ms |\n|---|---|---|")?;
    for contender in Contender::all() {
        if let Some(spread) = results.cold_ms.get(contender.name) {
            let (median, min, max) = (short(spread.median), short(spread.min), short(spread.max));
            let cpu = results.cold_cpu_ms.get(contender.name);
            let cpu = cpu.map_or_else(String::new, |cpu| short(cpu.median));
            writeln!(
                text,
                "| {} | {median} ({min} – {max}) | {cpu} |",
                contender.title
            )?;
        }
    }
    Ok(())
}

/// One row per contender. For every size, one column per latency of statements.
fn write_statements(results: &Results, text: &mut String) -> Result {
    let shapes = Shape::all();
    let slow = shapes.iter().filter(|shape| shape.part == Part::Statements);
    let sizes: Vec<_> = ["10 new", "100 new", "1000 new"]
        .into_iter()
        .filter_map(|name| shapes.iter().find(|shape| shape.name == name))
        .collect();
    let mut columns: Vec<_> = sizes.into_iter().chain(slow).collect();
    columns.sort_by_key(|shape| (shape.records, shape.statement));
    writeln!(
        text,
        "\n### When statements take time\n\nLatency of a batch of new keys, ms, when each statement of a request \
         takes so many milliseconds on top.\n"
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
        "\n### Growth\n\nA batch of new keys takes, by the line that fits its measured sizes best (least squares of the \
         relative errors):\n"
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
    )?;
    write!(text, "\n| records |")?;
    for one in &growth {
        write!(text, " {}: latency, ms | CPU, ms |", one.title)?;
    }
    writeln!(text, "\n|---|{}", "---|---|".repeat(growth.len()))?;
    for shape in Shape::plotted() {
        write!(text, "| {} |", shape.records)?;
        for one in &growth {
            let cell = results.cell(one.contender, shape.name);
            let value =
                |value: fn(&Cell) -> f64| cell.map_or_else(String::new, |cell| short(value(cell)));
            let (latency, cpu) = (value(growth::latency_ms), value(growth::cpu_ms));
            write!(text, " {latency} | {cpu} |")?;
        }
        writeln!(text)?;
    }
    Ok(())
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
        "\nA million messages with new keys, with Lambda's time as it was measured, on arm64 with {} MB, one whole virtual \
         CPU: ${} a GB-second, ${} for a million invocations.\n",
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
