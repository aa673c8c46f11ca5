//! Checks the guides in `docs/`: their links lead somewhere, on GitHub and in rustdoc.
//!
//! `GUIDES=overwrite cargo test -p sqs-once --test all guides` writes the destinations that links and images have in rustdoc.

mod facts;
mod markdown;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use markdown::Page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Our files with this extension below a folder, in order.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let ours = paths.filter(|path| !path.is_symlink() && !path.ends_with("node_modules"));
    let found = ours.flat_map(|path| match path.extension() {
        _ if path.is_dir() => files(&path, extension),
        Some(found) if found == extension => vec![path],
        _ => Vec::new(),
    });
    let mut files: Vec<_> = found.collect();
    files.sort();
    files
}

fn guides() -> Vec<PathBuf> {
    files(&root().join("docs"), "md")
}

/// The pages that only the repository has.
fn for_contributors() -> Vec<PathBuf> {
    let pages = [
        "CONTRIBUTING.md",
        "verification/performance.md",
        "verification/reliability.md",
    ];
    pages.map(|page| root().join(page)).into()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Compares a generated file with its source, or writes it.
fn hold(path: &Path, generated: &str) {
    if std::env::var("GUIDES").is_ok_and(|word| word == "overwrite") {
        fs::write(path, generated).unwrap();
    }
    let is = fs::read_to_string(path).unwrap_or_default();
    let fix = "GUIDES=overwrite cargo test -p sqs-once --test all guides";
    assert!(is == generated, "{} is out of date: {fix}", path.display());
}

fn is_relative(to: &str) -> bool {
    !to.contains("://") && !to.starts_with("mailto:")
}

/// The error in a relative link of the page at `path`, if there is one.
fn wrong(path: &Path, to: &str) -> Option<String> {
    let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
    let target = match file {
        "" => path.to_owned(),
        _ => path.parent().unwrap().join(file),
    };
    if !target.exists() {
        return Some(format!("{}: nothing is at `{to}`", name(path)));
    }
    let has_it = |page: Page| page.anchors().iter().any(|is| is == anchor);
    let is_there = anchor.is_empty() || has_it(Page::read(&read(&target)));
    (!is_there).then(|| format!("{}: `{to}` has no such heading", name(path)))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let mut pages = guides();
    pages.extend(for_contributors());
    pages.push(root().join("README.md"));
    let mut problems = Vec::new();
    for path in pages {
        let page = Page::read(&read(&path));
        let definitions = page.definitions();
        let links = definitions.iter().map(|(_, to)| *to);
        let links = links.chain(page.inline()).filter(|to| is_relative(to));
        problems.extend(links.filter_map(|to| wrong(&path, to)));
        for definition in page.definitions_in_text() {
            problems.push(format!(
                "{}: an empty line is missing before {definition}",
                name(&path)
            ));
        }
        for label in page.references() {
            if !definitions.iter().any(|(defined, _)| *defined == label) {
                problems.push(format!("{}: `[{label}]` is not defined", name(&path)));
            }
        }
        for (label, _) in definitions {
            if !page.mentions(label) {
                problems.push(format!("{}: nothing refers to `[{label}]`", name(&path)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// In rustdoc, relative paths differ from GitHub's. Guides link by label, and the first definition of a label counts. So
/// rustdoc puts one file with all destinations before each guide, and a label means the same in all guides.
#[test]
fn links_and_images_have_a_destination_in_rustdoc() {
    let mut problems = Vec::new();
    let mut destinations = BTreeMap::new();
    for path in guides() {
        let page = Page::read(&read(&path));
        for to in page.inline() {
            if is_relative(to) && !to.starts_with('#') {
                problems.push(format!(
                    "{}: `({to})` leads nowhere in rustdoc: write `[words][label]`, and `[label]: {to}` at the end",
                    name(&path)
                ));
            }
        }
        for (label, to) in page.definitions() {
            let destination = match is_relative(to) {
                true => in_rustdoc(to),
                false => Ok(to.to_owned()),
            };
            let wrong = match destination {
                Ok(destination) => {
                    let known = destinations.entry(label.to_lowercase());
                    let known: &mut String = known.or_insert_with(|| destination.clone());
                    let is_another = *known != destination;
                    is_another.then(|| format!("is not where `[{label}]` leads in another guide"))
                }
                Err(why) => Some(why),
            };
            problems.extend(wrong.map(|why| format!("{}: `{to}` {why}", name(&path))));
        }
    }
    let mut generated = "[//]: # (Generated by the test `guides`.)\n".to_owned();
    for (label, destination) in destinations {
        _ = writeln!(generated, "[{label}]: {destination}");
    }
    hold(
        &root().join("crates/sqs-once/src/guide/links.md"),
        &generated,
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The destination in rustdoc of a path relative to `docs/`.
fn in_rustdoc(to: &str) -> Result<String, String> {
    let (file, anchor) = to.split_at(to.find('#').unwrap_or(to.len()));
    let guide = file.strip_suffix(".md");
    if let Some(guide) = guide.filter(|guide| !guide.contains('/')) {
        return Ok(match guide {
            "README" => format!("crate::guide{anchor}"),
            _ => format!("crate::guide::{}{anchor}", guide.replace('-', "_")),
        });
    }
    let kinds = [("svg", "svg+xml"), ("webp", "webp")];
    let kind = kinds
        .iter()
        .find(|(extension, _)| file.ends_with(extension));
    if let Some((_, kind)) = kind {
        let picture = fs::read(root().join("docs").join(file)).unwrap();
        let picture = BASE64_STANDARD.encode(picture);
        return Ok(format!("data:image/{kind};base64,{picture}"));
    }
    match file {
        "../README.md" => return Ok("crate".to_owned()),
        "../template.yaml" => return Ok("crate::guide::template".to_owned()),
        _ => {}
    }
    const WHY: &str =
        "is in no published package, so rustdoc can't lead there: name it without a link";
    let inside = file.strip_prefix("../crates/");
    let (package, rest) = inside.and_then(|path| path.split_once('/')).ok_or(WHY)?;
    let manifest = read(&root().join("crates").join(package).join("Cargo.toml"));
    match manifest.contains("publish = false") {
        true => Err(WHY.to_owned()),
        false => Ok(format!(
            "https://docs.rs/crate/{package}/latest/source/{rest}"
        )),
    }
}

#[test]
fn every_guide_is_in_rustdoc_and_in_the_index() {
    let modules = read(&root().join("crates/sqs-once/src/guide.rs"));
    let index = read(&root().join("docs/README.md"));
    for path in guides() {
        let file = name(&path);
        if file == "README.md" {
            continue;
        }
        let module = file.trim_end_matches(".md").replace('-', "_");
        let line = format!("{module} = \"{file}\"");
        assert!(modules.contains(&line), "guide.rs lacks `{line}`");
        let is_linked = index.contains(&format!("]: {file}"));
        assert!(is_linked, "docs/README.md does not link {file}");
    }
}
