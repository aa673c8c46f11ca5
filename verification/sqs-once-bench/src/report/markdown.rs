//! Writes the results into `docs/performance.md`, between its markers, with the plots and the JSON file in the same
//! directory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::figures::figures;
use super::{Results, json, plot};
use crate::contender::Contender;
use crate::shape::GROWING;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Writes the figures into `performance.md` in the directory `docs`. Also writes `performance.svg` with all contenders,
/// `performance-growth.svg` with the contenders that were measured at every size, and `performance.json` with all
/// results. Writes nothing if a contender or a batch has no figures.
pub fn write_docs(results: &Results, docs: &Path) -> Result<()> {
    let write = |name: &str, text: String| {
        let path = docs.join(name);
        fs::write(&path, text).with_context(|| format!("{path:?} can't be written"))
    };
    let missing = results.gaps();
    ensure!(
        missing.is_empty(),
        "the page shows all contenders and batches, and stays as it is: these were not measured: {}",
        missing.join("; ")
    );
    write("performance.svg", plot::svg(results, |_| true))?;
    let is_growing = |one: &Contender| GROWING.contains(&one.name);
    write("performance-growth.svg", plot::svg(results, is_growing))?;
    write("performance.json", json(results)? + "\n")?;
    let path = docs.join("performance.md");
    let page = fs::read_to_string(&path).with_context(|| format!("{path:?} can't be read"))?;
    let begin = page.find(BEGIN).map(|at| at + BEGIN.len());
    let (Some(begin), Some(end)) = (begin, page.find(END)) else {
        bail!("{path:?} lacks the lines {BEGIN:?} and {END:?}, between which the figures go");
    };
    let (before, after) = (&page[..begin], &page[end..]);
    let page = format!("{before}\n\n{}\n{after}", figures(results));
    write("performance.md", page)
}
