//! What every recipe has: a short function, a template without mistakes, a sample event, and a line in the guide.

use std::fs;
use std::path::{Path, PathBuf};

use sqs_once_doctor::Source;

/// The folders of the recipes.
fn recipes() -> Vec<PathBuf> {
    let entries = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    let recipes: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    assert!(recipes.len() >= 15, "{recipes:?}");
    recipes
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_function_is_shorter_than_60_lines() {
    for recipe in recipes() {
        let (main, tests) = (
            read(&recipe.join("main.rs")),
            read(&recipe.join("tests.rs")),
        );
        let lines = main.lines().count();
        assert!(lines < 60, "{} has {lines} lines", recipe.display());
        assert!(
            tests.matches("::test]").count() >= 1,
            "{}",
            recipe.display()
        );
    }
}

#[test]
fn the_doctor_finds_nothing_in_any_template() {
    for recipe in recipes() {
        let template = Source::read(&recipe.join("template.yaml")).unwrap();
        let findings = template.examine().unwrap();
        assert!(findings.is_empty(), "{}: {findings:#?}", recipe.display());
    }
}

#[test]
fn the_guide_lists_every_recipe() {
    let guide = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cookbook.md"));
    for recipe in recipes() {
        let name = recipe.file_name().unwrap().to_str().unwrap();
        let link = format!("../examples/cookbook/{name}/main.rs");
        assert!(
            guide.contains(&link),
            "docs/cookbook.md has no link to {link}"
        );
    }
}
