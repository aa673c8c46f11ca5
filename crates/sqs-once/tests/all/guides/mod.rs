//! The guides in `docs/`: their links lead somewhere, on GitHub and in rustdoc, and their diagrams are what their sources
//! say.
//!
//! `GUIDES=overwrite cargo test -p sqs-once --test all guides` writes what is generated of them: a diagram's SVG from the
//! Mermaid source beside it, and the destinations that links and images have in rustdoc.

mod drawing;
mod facts;
mod markdown;
mod sequence;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use markdown::Page;
use sequence::Diagram;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder that end so, in order.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Holds a generated file to what it is generated from.
fn hold(path: &Path, generated: &str) {
    if std::env::var("GUIDES").is_ok_and(|word| word == "overwrite") {
        fs::write(path, generated).unwrap();
    }
    let is = fs::read_to_string(path).unwrap_or_default();
    assert!(
        is == generated,
        "{} is out of date: GUIDES=overwrite cargo test -p sqs-once --test all guides",
        path.display()
    );
}

/// Holds the diagrams to their sources, before anybody looks at them.
fn draw() {
    static DRAWN: LazyLock<()> = LazyLock::new(|| {
        for source in files("docs/diagrams", "mmd") {
            let diagram = Diagram::parse(&read(&source))
                .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
            hold(&source.with_extension("svg"), &drawing::svg(&diagram));
        }
    });
    LazyLock::force(&DRAWN);
}

/// Whether a link leads to a file of the repository, or into one.
fn is_relative(to: &str) -> bool {
    !to.contains("://") && !to.starts_with("mailto:")
}

/// What is wrong with a relative link of the page at `path`, if anything is.
fn wrong(path: &Path, to: &str) -> Option<String> {
    let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
    let target = match file {
        "" => path.to_owned(),
        _ => path.parent().unwrap().join(file),
    };
    if !target.exists() {
        return Some(format!("{}: nothing is at `{to}`", name(path)));
    }
    let is_there = anchor.is_empty()
        || Page::read(&read(&target))
            .anchors()
            .iter()
            .any(|is| is == anchor);
    (!is_there).then(|| format!("{}: `{to}` has no such heading", name(path)))
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    draw();
    let mut pages = files("docs", "md");
    pages.push(root().join("README.md"));
    pages.push(root().join("CONTRIBUTING.md"));
    let mut problems = Vec::new();
    for path in pages {
        let page = Page::read(&read(&path));
        let definitions = page.definitions();
        let links = definitions.iter().map(|definition| definition.to);
        problems.extend(
            links
                .chain(page.inline())
                .filter(|to| is_relative(to))
                .filter_map(|to| wrong(&path, to)),
        );
        for label in page.references() {
            if !definitions
                .iter()
                .any(|definition| definition.label == label)
            {
                problems.push(format!("{}: `[{label}]` is not defined", name(&path)));
            }
        }
        for definition in definitions {
            if !page.mentions(definition.label) {
                problems.push(format!(
                    "{}: nothing refers to `[{}]`",
                    name(&path),
                    definition.label
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// In rustdoc a path means something else than on GitHub. A label's first definition counts, so the guides link by label,
/// and in rustdoc these definitions stand before theirs.
#[test]
fn links_and_images_have_a_destination_in_rustdoc() {
    draw();
    let mut problems = Vec::new();
    for path in files("docs", "md") {
        let page = Page::read(&read(&path));
        for to in page.inline() {
            if is_relative(to) && !to.starts_with('#') {
                problems.push(format!(
                    "{}: `({to})` leads nowhere in rustdoc: write `[words][label]`, and `[label]: {to}` at the end",
                    name(&path)
                ));
            }
        }
        let mut definitions = "[//]: # (Generated by the test `guides`.)\n".to_owned();
        for definition in page.definitions() {
            if !is_relative(definition.to) {
                continue;
            }
            match in_rustdoc(definition.to) {
                Ok(to) => _ = writeln!(definitions, "[{}]: {to}", definition.label),
                Err(why) => problems.push(format!("{}: `{}` {why}", name(&path), definition.to)),
            }
        }
        let generated = root().join("crates/sqs-once/src/guide").join(name(&path));
        hold(&generated, &definitions);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What stands for a path relative to `docs/`.
fn in_rustdoc(to: &str) -> Result<String, String> {
    let (file, anchor) = to
        .split_once('#')
        .map_or((to, String::new()), |(file, anchor)| {
            (file, format!("#{anchor}"))
        });
    if let Some(guide) = file
        .strip_suffix(".md")
        .filter(|guide| !guide.contains('/'))
    {
        return Ok(match guide {
            "README" => format!("crate::guide{anchor}"),
            _ => format!("crate::guide::{}{anchor}", guide.replace('-', "_")),
        });
    }
    if file.ends_with(".svg") {
        let svg = BASE64_STANDARD.encode(read(&root().join("docs").join(file)));
        return Ok(format!("data:image/svg+xml;base64,{svg}"));
    }
    match file {
        "../README.md" => return Ok("crate".to_owned()),
        "../template.yaml" => return Ok("crate::guide::template".to_owned()),
        "performance.json" => return Ok(packaged("sqs-once", "docs/performance.json")),
        _ => {}
    }
    let (package, rest) = file
        .strip_prefix("../crates/")
        .and_then(|path| path.split_once('/'))
        .ok_or("is in no package, so rustdoc can't lead there: name it without a link")?;
    let manifest = read(&root().join("crates").join(package).join("Cargo.toml"));
    match manifest.contains("publish = false") {
        true => Err(
            "is in no published package, so rustdoc can't lead there: name it without a link"
                .to_owned(),
        ),
        false => Ok(packaged(package, rest)),
    }
}

/// Where docs.rs shows a package's files.
fn packaged(package: &str, file: &str) -> String {
    format!("https://docs.rs/crate/{package}/latest/source/{file}")
}

#[test]
fn every_guide_is_in_rustdoc_and_in_the_index() {
    let modules = read(&root().join("crates/sqs-once/src/guide.rs"));
    let index = read(&root().join("docs/README.md"));
    for path in files("docs", "md") {
        let file = name(&path);
        if file == "README.md" {
            continue;
        }
        let module = file.trim_end_matches(".md").replace('-', "_");
        let line = format!("{module} = \"{file}\"");
        assert!(modules.contains(&line), "guide.rs lacks `{line}`");
        assert!(
            index.contains(&format!("]: {file}")),
            "docs/README.md does not link {file}"
        );
    }
}

#[test]
fn the_diagrams_are_drawn_from_their_sources_and_all_are_shown() {
    let shown: BTreeSet<_> = files("docs", "md")
        .iter()
        .flat_map(|path| {
            let page = Page::read(&read(path));
            let defined = page.definitions();
            defined
                .iter()
                .map(|definition| definition.to.to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    draw();
    for svg in files("docs/diagrams", "svg") {
        let link = format!("diagrams/{}", name(&svg));
        assert!(shown.contains(&link), "no guide shows {link}");
    }
}
