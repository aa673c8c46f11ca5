//! The rules' examples, each an override of one deployment.
//!
//! `tests/rules` has that deployment twice: as a template and in Terraform's language. Each other file lists parts of
//! examples, each below its name: `-- RULE/bad.yaml --` or `-- RULE/good.tf --`.

use sqs_once_doctor::{RULES, Rule};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static PARTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut parts = BTreeMap::new();
    for file in fs::read_dir(folder()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|it| it != "txtar") {
            continue;
        }
        for (name, text) in parts_of(&fs::read_to_string(&path).unwrap()) {
            let earlier = parts.insert(name.clone(), text);
            assert_eq!(earlier, None, "{name} is there twice");
        }
    }
    parts
});

fn parts_of(text: &str) -> Vec<(String, String)> {
    let text = format!("\n{text}");
    let parts = text.split("\n-- ").skip(1);
    let parts = parts.map(|part| part.split_once(" --").unwrap());
    let part = |(name, text): (&str, &str)| (name.to_owned(), format!("{}\n", text.trim()));
    parts.map(part).collect()
}

/// The cases of templates: a description and the rules that it breaks, the override, and the template.
pub(crate) fn cases() -> Vec<(String, String, String)> {
    let base = fs::read_to_string(folder().join("template.yaml")).unwrap();
    let cases = parts_of(include_str!("../cases.txtar")).into_iter();
    let case = |(name, over): (String, String)| {
        let template = merge(&base, &over);
        (name, over, template)
    };
    cases.map(case).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules")
}

/// The rules that a template or a configuration can break, and those that only a plan can.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(|rule| rule.id != OF_PLANS)
}

/// The rule about a change, which only a plan has.
pub(crate) const OF_PLANS: &str = "bus-subscriber-replaced";

/// The names of all parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.keys().map(String::as_str)
}

/// The part of this name, if there is one.
pub(crate) fn part(name: &str) -> Option<&'static str> {
    PARTS.get(name).map(String::as_str)
}

/// The configuration that the parts `*.tf` override.
pub(crate) fn configuration() -> String {
    fs::read_to_string(folder().join("main.tf")).unwrap()
}

/// The template with an example's part `*.yaml`.
pub(crate) fn template(rule: &str, name: &str) -> String {
    let base = fs::read_to_string(folder().join("template.yaml")).unwrap();
    let name = format!("{rule}/{name}.yaml");
    let over = part(&name);
    merge(&base, over.unwrap_or_else(|| panic!("there is no {name}")))
}

/// A template with four groups of resources, each with its own condition.
pub(crate) fn conditional() -> String {
    let numbered = |text: &str| -> String {
        let numbers = (1..=4).map(|n| text.replace('%', &n.to_string()));
        numbers.collect()
    };
    let parameters = numbered("  P%: { Type: String }\n");
    let conditions = numbered("  C%: !Equals [!Ref P%, on]\n");
    let groups = numbered(include_str!("../conditional.yaml"));
    format!(
        "Transform: AWS::Serverless-2016-10-31\nParameters:\n{parameters}Conditions:\n{conditions}Resources:\n{groups}"
    )
}

/// Writes an example's template and manifest into a folder.
pub(crate) fn write(rule: &str, name: &str, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("template.yaml"), template(rule, name)).unwrap();
    // Keeps the search from reaching a manifest in a parent folder.
    let manifest = part(&format!("{rule}/{name}.toml"));
    let manifest = manifest.unwrap_or("[workspace]\n");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
}

/// Overrides a block of YAML: mappings entry by entry, any other value as a whole. `null` removes an entry.
fn merge(base: &str, over: &str) -> String {
    // The empty lines after the block stay there.
    let (base, blank) = base.split_at(base.trim_end().len());
    let mut merged = entries(base);
    for (line, below) in entries(over) {
        let same = merged.iter().position(|(it, _)| key(it) == key(line));
        match same {
            Some(at) if line.ends_with(": null") => drop(merged.remove(at)),
            Some(at) if is_mapping(line, &below) => {
                merged[at] = (line, merge(&merged[at].1, &below));
            }
            Some(at) => merged[at] = (line, below),
            None => merged.push((line, below)),
        }
    }
    let lines = merged
        .iter()
        .map(|(line, below)| format!("{line}\n{below}"));
    lines.collect::<String>() + blank.strip_prefix('\n').unwrap_or_default()
}

/// The entries of a mapping: the line of each, and the deeper and empty lines below it.
fn entries(block: &str) -> Vec<(&str, String)> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match entries.last_mut() {
            Some((first, below)) if line.is_empty() || depth(line) > depth(first) => {
                *below += &format!("{line}\n");
            }
            _ => entries.push((line, String::new())),
        }
    }
    entries
}

fn key(line: &str) -> &str {
    line.split(": ").next().unwrap().trim_end_matches(':')
}

fn is_mapping(line: &str, below: &str) -> bool {
    let (value, _) = line.split_once(" #").unwrap_or((line, ""));
    value.ends_with(':') && !below.trim_start().starts_with("- ")
}
