//! Writes the results into `docs/performance.md`, between its markers, with the plots and the JSON file in the same
//! directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::figures::figures;
use super::{Results, json, plot};
use crate::contender::Contender;
use crate::shape::GROWING;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// The page could not be written.
#[derive(Debug, Error)]
pub enum DocsError {
    /// A file could not be read or written.
    #[error("{path:?} can't be read or written")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The page does not contain the markers.
    #[error("{path:?} lacks the lines {BEGIN:?} and {END:?}, between which the figures go")]
    Markers {
        /// The page.
        path: PathBuf,
    },
    /// A contender or a batch has no figures. No file was written.
    #[error(
        "the page shows all contenders and batches, and stays as it is: these were not measured: {}",
        missing.join("; ")
    )]
    Incomplete {
        /// The missing contenders and batches, with the reason if known.
        missing: Vec<String>,
    },
    /// A name or a number cannot be written as JSON.
    #[error("the results can't be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Writes the figures into `performance.md` in the directory `docs`. Also writes `performance.svg` with all contenders,
/// `performance-growth.svg` with the contenders that were measured at every size, and `performance.json` with all
/// results.
///
/// # Errors
/// [`DocsError`].
pub fn write_docs(results: &Results, docs: &Path) -> Result<(), DocsError> {
    let file = |path: &Path, source| DocsError::File {
        path: path.to_owned(),
        source,
    };
    let missing = results.gaps();
    if !missing.is_empty() {
        return Err(DocsError::Incomplete { missing });
    }
    for (name, is_shown) in [
        ("performance.svg", (|_| true) as fn(&Contender) -> bool),
        ("performance-growth.svg", |one| GROWING.contains(&one.name)),
    ] {
        let svg = docs.join(name);
        fs::write(&svg, plot::svg(results, is_shown)).map_err(|source| file(&svg, source))?;
    }
    let path = docs.join("performance.json");
    fs::write(&path, json(results)? + "\n").map_err(|source| file(&path, source))?;
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
