//! The results in `docs/performance.md`, between its markers, and the plot beside it.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::goals::goals;
use super::{Results, plot, short};
use crate::contender::Contender;
use crate::shape::Shape;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// The page could not be written.
#[derive(Debug, Error)]
pub enum DocsError {
    /// A file could not be read or written.
    #[error("{path:?} can't be read or written")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The page has lost its markers.
    #[error("{path:?} lacks the lines {BEGIN:?} and {END:?}, between which the figures go")]
    Markers {
        /// Which.
        path: PathBuf,
    },
}

/// Writes the figures into `performance.md` and `performance.svg` in the directory `docs`.
///
/// # Errors
/// [`DocsError`].
pub fn write_docs(results: &Results, docs: &Path) -> Result<(), DocsError> {
    let file = |path: &Path, source| DocsError::File {
        path: path.to_owned(),
        source,
    };
    let svg = docs.join("performance.svg");
    fs::write(&svg, plot::svg(results)).map_err(|source| file(&svg, source))?;
    let path = docs.join("performance.md");
    let page = fs::read_to_string(&path).map_err(|source| file(&path, source))?;
    let begin = page.find(BEGIN).map(|at| at + BEGIN.len());
    let (Some(begin), Some(end)) = (begin, page.find(END)) else {
        return Err(DocsError::Markers { path });
    };
    let page = format!(
        "{}\n\n{}\n{}",
        &page[..begin],
        figures(results),
        &page[end..]
    );
    fs::write(&path, page).map_err(|source| file(&path, source))
}

fn figures(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write_figures(results, &mut text);
    text
}

fn write_figures(results: &Results, text: &mut String) -> std::fmt::Result {
    let load = results
        .load_before
        .map_or_else(|| "unknown".to_owned(), short);
    writeln!(
        text,
        "Measured on {} (load before: {load}), {} rounds; every request takes {} µs, every statement {} µs more.",
        results.machine, results.rounds, results.request_latency_us, results.statement_latency_us
    )?;
    for shape in Shape::all() {
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
    }
    writeln!(
        text,
        "\n![Latency of a batch, and CPU a record, against the size of the batch](performance.svg)"
    )?;
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
    writeln!(text, "\n### Aims\n\n| aim | measured | |\n|---|---|---|")?;
    for goal in goals(results) {
        let verdict = if goal.holds { "holds" } else { "missed" };
        writeln!(
            text,
            "| {} | {} | {verdict} |",
            goal.text,
            short(goal.measured)
        )?;
    }
    Ok(())
}
