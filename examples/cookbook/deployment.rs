//! Every recipe has a short function, a template without mistakes, a sample event, and a line in the guide.

use std::fs;
use std::path::PathBuf;

use sqs_once_doctor::Source;

const GUIDE: &str = include_str!("../../docs/cookbook.md");

/// The folders of the recipes. Some are packages of their own.
fn recipes() -> Vec<PathBuf> {
    let entries = fs::read_dir(".").unwrap().map(|entry| entry.unwrap());
    let mut recipes: Vec<_> = entries.map(|entry| entry.path()).collect();
    recipes.retain(|path| path.is_dir());
    recipes.extend(["../outage".into(), "../traced".into()]);
    assert!(recipes.len() >= 15, "{recipes:?}");
    recipes
}

#[test]
fn every_recipe_is_in_the_guide_and_has_less_than_60_lines() {
    for recipe in recipes() {
        let name = recipe.file_name().unwrap().to_str().unwrap();
        let listed = [
            format!(": `{name}`"),
            format!("`{name}` "),
            format!("examples/{name}`"),
        ];
        let is_listed = listed.iter().any(|words| GUIDE.contains(words));
        assert!(is_listed, "docs/cookbook.md does not list {name}");
        let function = ["main.rs", "src/main.rs"].map(|file| recipe.join(file));
        let function = function.iter().find(|file| file.exists()).unwrap();
        let lines = fs::read_to_string(function).unwrap().lines().count();
        assert!(lines < 60, "{name} has {lines} lines");
    }
}

#[test]
fn every_recipe_has_a_sample_event_and_a_template_in_which_the_doctor_finds_nothing() {
    for recipe in recipes() {
        let samples = ["event.json", "event.txt"].map(|sample| recipe.join(sample));
        let has_sample = samples.iter().any(|sample| sample.exists());
        assert!(has_sample, "{} has no sample event", recipe.display());
        let template = Source::read(&recipe.join("template.yaml")).unwrap();
        let findings = template.examine().unwrap();
        assert!(findings.is_empty(), "{}: {findings:#?}", recipe.display());
    }
}
