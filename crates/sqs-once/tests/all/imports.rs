//! The modules of the library import in one direction.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::guides::files;

/// The modules with code, in order. Each imports only from the modules before it.
const ORDER: [&str; 27] = [
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
    "large_messages",
    "breaker",
    "failed",
    "router",
    "batch",
    "once",
    "consumer",
    "lambda",
    "producer",
    "testing",
    "conformance",
];

/// The modules that only re-export.
const EXPORTS: [&str; 4] = ["body", "extract", "hook", "policy"];

/// The modules that a file's code imports from `crate::`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut code: Vec<&str> = code.lines().collect();
    code.retain(|line| !line.trim_start().starts_with("//"));
    let code = code.join("\n");
    let names = code.split("crate::").skip(1).filter_map(|rest| {
        let name = rest
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
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
        let code = fs::read_to_string(&path).unwrap();
        let file = inside.display();
        // This test does not read such an import.
        assert!(
            !code.contains("use crate::{"),
            "{file} imports from several modules at once"
        );
        for import in imports(&code) {
            if import != module && !ORDER[..height].contains(&&*import) {
                wrong.push(format!("{file} imports from {import}"));
            }
        }
        modules.insert(module);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(modules.len(), ORDER.len(), "the order names only modules");
}
