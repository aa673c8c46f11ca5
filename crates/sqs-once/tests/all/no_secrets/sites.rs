//! The places in the source that log, with their text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::watch::SAID_AT;
use crate::guides::files;

/// A file under `src` and a line number.
pub(crate) type Site = (String, u32);

/// The places of this crate that the output of a process lists.
pub(crate) fn said(output: &str) -> impl Iterator<Item = Site> {
    let sites = output.lines().filter_map(|line| line.strip_prefix(SAID_AT));
    // Events of other crates have other paths, which do not matter.
    sites.filter_map(|site| {
        let site = site.replace('\\', "/");
        let (file, line) = site.split_once("sqs-once/src/")?.1.rsplit_once(':')?;
        Some((file.to_owned(), line.parse().unwrap()))
    })
}

/// The logging calls in the source, each with its text.
pub(crate) fn in_source() -> BTreeMap<Site, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sites = BTreeMap::new();
    for path in files(&source, "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let file = path.strip_prefix(&source).unwrap();
        let file = file.to_str().unwrap().replace('\\', "/");
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| logs(line)) {
            let text = lines[at..lines.len().min(at + 6)].join(" ");
            sites.insert((file.clone(), u32::try_from(at + 1).unwrap()), text);
        }
    }
    assert!(sites.len() > 20, "there are more places than {sites:?}");
    sites
}

/// Whether a line calls one of tracing's macros, or one of this crate's macros on top of them.
fn logs(line: &str) -> bool {
    const MACROS: &str = "error warn info debug trace event line error_span warn_span info_span debug_span trace_span span enabled";
    if line.trim_start().starts_with("//") {
        return false;
    }
    let calls = |name: &str| {
        line.match_indices(&format!("{name}!(")).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || "_$".contains(before))
        })
    };
    // A function with its own span.
    MACROS.split(' ').any(calls) || line.contains("#[instrument") || line.contains("::instrument]")
}
