//! The modules of the library import in one direction, and so do the files of the tools.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::guides::files;

/// The modules with code, in order. Each imports only from the modules before it.
const ORDER: [&str; 28] = [
    "variables",
    "guarded",
    "time",
    "random",
    "error",
    "env",
    "aws",
    "record",
    "key",
    "report",
    "telemetry",
    "config",
    "secrets",
    "store",
    "idempotency",
    "handler",
    "executions",
    "large_messages",
    "breaker",
    "failed",
    "router",
    "batch",
    "consumer",
    "once",
    "lambda",
    "producer",
    "testing",
    "conformance",
];

/// The modules that only re-export.
const EXPORTS: [&str; 6] = ["body", "extract", "hook", "policy", "sdk", "unstable"];

/// A file's code without its comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let mut code: Vec<&str> = text.lines().collect();
    code.retain(|line| !line.trim_start().starts_with("//"));
    code.join("\n")
}

#[test]
fn every_module_imports_only_from_those_below_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut modules = BTreeSet::new();
    for path in files(&src, "rs") {
        let inside = path.strip_prefix(&src).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        if ["lib", "guide"].contains(&&*module) || EXPORTS.contains(&&*module) {
            continue;
        }
        let Some(height) = ORDER.iter().position(|known| *known == module) else {
            wrong.push(format!("{module} has no place in the order"));
            continue;
        };
        let code = code(&path);
        for path in paths(&code, "crate::") {
            let import = path.split("::").next().unwrap();
            let is_known = import.is_empty() || import == module;
            if !is_known && !ORDER[..height].contains(&import) {
                wrong.push(format!("{} imports from {path}", inside.display()));
            }
        }
        modules.insert(module);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(modules.len(), ORDER.len(), "the order names only modules");
}

/// The paths after `prefix` in a file's code, also those in a list without another list in it.
fn paths<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    code.split(prefix).skip(1).flat_map(|rest| {
        let list = rest
            .strip_prefix('{')
            .and_then(|list| list.split('}').next());
        let paths: Vec<&str> = match list {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => vec![rest],
        };
        let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != ':';
        paths
            .into_iter()
            .filter_map(move |path| path.split(is_end).next())
    })
}

/// The modules of a crate in a circle of imports, and the modules that import one of them.
fn circles(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let module = |path: &PathBuf| {
        let inside = path.strip_prefix(src).unwrap().with_extension("");
        let inside = inside.to_str().unwrap().replace('/', "::");
        inside.trim_end_matches("::mod").to_owned()
    };
    let all = files(src, "rs");
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    imports.extend(all.iter().map(|path| (module(path), BTreeSet::new())));
    for path in &all {
        let (name, code) = (module(path), code(path));
        let parent = name.rsplit_once("::").map_or("", |(parent, _)| parent);
        let of_crate = paths(&code, "crate::").map(str::to_owned);
        let of_parent = paths(&code, "super::").map(|path| format!("{parent}::{path}"));
        for path in of_crate.chain(of_parent) {
            let mut path = path.trim_matches(':');
            while !imports.contains_key(path) && !path.is_empty() {
                path = path.rsplit_once("::").map_or("", |(path, _)| path);
            }
            // A module may import from the one around it.
            if !path.is_empty() && !format!("{name}::").starts_with(&format!("{path}::")) {
                imports.get_mut(&name).unwrap().insert(path.to_owned());
            }
        }
        if let Some(outer) = imports.get_mut(parent) {
            outer.insert(name);
        }
    }
    // Take away the modules that import no other.
    while let Some((name, _)) = imports.iter().find(|(_, of)| of.is_empty()) {
        let name = name.clone();
        imports.remove(&name);
        for of in imports.values_mut() {
            of.remove(&name);
        }
    }
    imports
}

#[test]
fn no_file_of_the_tools_imports_itself_through_others() {
    for name in ["sqs-once-local", "sqs-once-doctor"] {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let circles = circles(&crates.join(name).join("src"));
        assert!(circles.is_empty(), "{name}: {circles:#?}");
    }
}
