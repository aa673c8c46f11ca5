//! Each rule against a deployment that breaks it and a near miss that satisfies it.
//!
//! In a rule's `bad.yaml`, `# finding: ID` marks every line with a finding. The same templates are also examined as JSON,
//! which is what CDK writes. In `bad.tf`, a line `# finding: ID ADDRESS` names each finding. The same configurations are
//! also examined as a plan's JSON.

use crate::examples;
use saphyr::{LoadableYamlNode, ScalarOwned, YamlOwned};
use serde_json::{Value, json};
use sqs_once_doctor::{Finding, LIMITS, RULES, Source, evaluate_terraform};
use std::fs;
use std::path::{Path, PathBuf};

const UNREAD: &str = "part-not-examined";

/// A template in its own folder, with its manifest if it has one.
struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(rule: &str, name: &str) -> Self {
        let case = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        examples::write(rule, name, case.folder.path());
        case
    }

    fn template(&self) -> PathBuf {
        self.folder.path().join("template.yaml")
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("Cargo.toml")
    }

    fn source(&self) -> Source {
        Source::read(&self.template()).unwrap()
    }

    /// File, line and rule of all findings.
    fn findings(&self) -> Vec<(String, usize, String)> {
        let mut findings = self.source().examine().unwrap();
        // What only the deployment knows is in many examples.
        let is_about_it = self.marked().iter().any(|(_, _, id)| id == UNREAD);
        findings.retain(|it| is_about_it || it.rule.id != UNREAD);
        let mut found: Vec<_> = findings.iter().map(|finding| self.row(finding)).collect();
        found.sort();
        found
    }

    fn row(&self, finding: &Finding) -> (String, usize, String) {
        let file = finding.file.strip_prefix(self.folder.path()).unwrap();
        let (line, _) = finding.place.position.unwrap();
        let file = file.display().to_string();
        (file, line.get(), finding.rule.id.to_owned())
    }

    /// File, line and rule of all `# finding:` marks.
    fn marked(&self) -> Vec<(String, usize, String)> {
        let mut marked = Vec::new();
        for file in [self.template(), self.manifest()] {
            let text = fs::read_to_string(&file).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap();
            for (index, line) in text.lines().enumerate() {
                let ids = line.split_once("# finding: ").map_or("", |(_, ids)| ids);
                let row = |id: &str| (name.to_owned(), index + 1, id.to_owned());
                marked.extend(ids.split_whitespace().map(row));
            }
        }
        marked.sort();
        marked
    }

    fn fix(&self) -> Vec<&'static str> {
        let fixes = self.source().fix().unwrap();
        fixes.write().unwrap();
        fixes.fixed.iter().map(|finding| finding.rule.id).collect()
    }
}

#[test]
fn every_rule_finds_what_breaks_it_where_it_is_and_nothing_else() {
    for rule in examples::rules() {
        let case = Case::new(rule.id, "bad");
        assert_eq!(case.findings(), case.marked(), "{}", rule.id);
        let is_found = case.marked().iter().any(|(_, _, id)| id == rule.id);
        assert!(is_found, "{} has no finding in its own template", rule.id);
        let case = Case::new(rule.id, "good");
        assert_eq!(case.findings(), [], "{}", rule.id);
    }
}

/// The rules of the findings in a source.
fn rules(source: &Source) -> Vec<&'static str> {
    let findings = source.examine().unwrap();
    let mut rules: Vec<_> = findings.iter().map(|it| it.rule.id).collect();
    rules.sort_unstable();
    rules
}

/// A template's YAML as JSON, with the long forms of functions.
pub(crate) fn as_json(node: &saphyr::YamlOwned) -> Value {
    match node {
        YamlOwned::Value(ScalarOwned::String(text)) => json!(text),
        YamlOwned::Value(ScalarOwned::Integer(number)) => json!(number),
        YamlOwned::Value(ScalarOwned::FloatingPoint(number)) => json!(number.into_inner()),
        YamlOwned::Value(ScalarOwned::Boolean(flag)) => json!(flag),
        YamlOwned::Sequence(items) => items.iter().map(as_json).collect(),
        YamlOwned::Mapping(entries) => {
            let entry =
                |(name, value)| (as_json(name).as_str().unwrap().to_owned(), as_json(value));
            Value::Object(entries.iter().map(entry).collect())
        }
        YamlOwned::Tagged(tag, inner) => {
            let argument = as_json(inner);
            match &*tag.suffix {
                "Ref" => json!({ "Ref": argument }),
                "GetAtt" => {
                    let (resource, attribute) = argument.as_str().unwrap().split_once('.').unwrap();
                    json!({ "Fn::GetAtt": [resource, attribute] })
                }
                function => json!({ format!("Fn::{function}"): argument }),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_rule_finds_the_same_in_a_template_of_json() {
    for rule in examples::rules() {
        for name in ["bad", "good"] {
            let case = Case::new(rule.id, name);
            let text = fs::read_to_string(case.template()).unwrap();
            let yaml = YamlOwned::load_from_str(&text).unwrap().remove(0);
            let path = case.folder.path().join("Orders.template.json");
            let source = Source::new(&path, format!("{:#}", as_json(&yaml)));
            assert_eq!(rules(&source), rules(&case.source()), "{} {name}", rule.id);
        }
    }
}

#[test]
fn every_rule_finds_what_breaks_it_in_terraforms_language_and_in_a_plan() {
    for rule in examples::rules() {
        for name in ["bad", "good"] {
            let case = Case::new(rule.id, name);
            let folder = case.folder.path();
            fs::remove_file(case.template()).unwrap();
            fs::write(folder.join("main.tf"), examples::configuration()).unwrap();
            let text = examples::part(&format!("{}/{name}.tf", rule.id)).unwrap();
            fs::write(folder.join("override.tf"), text).unwrap();
            let marks = text.lines().filter_map(|it| it.strip_prefix("# finding: "));
            let mut marked: Vec<_> = marks.collect();
            marked.sort_unstable();
            assert_eq!(marked.is_empty(), name == "good", "{}", rule.id);
            let found = |source: &Source| {
                let mut findings = source.examine().unwrap();
                findings.retain(|it| text.contains(UNREAD) || it.rule.id != UNREAD);
                let row = |it: &Finding| format!("{} {}", it.rule.id, it.place.resource);
                let mut rows: Vec<_> = findings.iter().map(row).collect();
                rows.sort();
                rows
            };
            let source = Source::read(folder).unwrap();
            assert_eq!(found(&source), marked, "{} {name}", rule.id);
            let plan = evaluate_terraform(folder).unwrap();
            let plan = Source::new(&folder.join("plan.json"), plan.to_string());
            // A plan has every part.
            marked.retain(|it| !it.starts_with("part-not-examined "));
            assert_eq!(found(&plan), marked, "{} {name} as a plan", rule.id);
        }
    }
}

#[test]
fn no_example_is_of_a_rule_that_is_not_there() {
    for name in examples::names() {
        let (id, _) = name.split_once('/').unwrap();
        assert!(RULES.iter().any(|rule| rule.id == id), "{name}");
    }
}

#[test]
fn what_is_fixed_is_found_no_more_and_fixing_again_changes_nothing() {
    for rule in examples::rules() {
        let case = Case::new(rule.id, "bad");
        let before = case.source().examine().unwrap();
        let is_own = |it: &Finding| it.rule.id == rule.id;
        let is_fixable = before.iter().any(|it| is_own(it) && it.is_fixable);
        let fixed = case.fix();
        let texts = || {
            let read = |path| fs::read_to_string(path).unwrap();
            (read(case.template()), read(case.manifest()))
        };
        assert_eq!(fixed.contains(&rule.id), is_fixable, "{}", rule.id);
        let left = case.source().examine().unwrap();
        let is_wrong = |it: &Finding| it.is_fixable || is_fixable && is_own(it);
        assert!(!left.iter().any(is_wrong), "{}:\n{}", rule.id, texts().0);
        let once = texts();
        assert!(case.fix().is_empty(), "{}", rule.id);
        assert_eq!(texts(), once, "{}", rule.id);
    }
}

#[test]
fn a_fix_keeps_every_line_that_it_is_not_about() {
    for rule in examples::rules() {
        let case = Case::new(rule.id, "bad");
        let before = fs::read_to_string(case.template()).unwrap();
        case.fix();
        let after = fs::read_to_string(case.template()).unwrap();
        let mut rest = after.lines();
        let mut is_lost =
            |line: &&str| !rest.clone().any(|it| it == *line) || !rest.any(|it| it == *line);
        let lost: Vec<&str> = before.lines().filter(|line| is_lost(line)).collect();
        // Replacing a value changes its line.
        assert!(lost.len() <= 1, "{}: {lost:#?}\n{after}", rule.id);
    }
}

#[test]
fn every_finding_has_a_snippet_and_every_rule_its_words() {
    for rule in examples::rules() {
        assert!(rule.why.ends_with('.'), "{}", rule.why);
        assert!(rule.url.starts_with("https://"), "{}", rule.url);
        assert!(
            rule.guide().ends_with(&format!("#{}", rule.id)),
            "{}",
            rule.guide()
        );
        for finding in Case::new(rule.id, "bad").source().examine().unwrap() {
            assert!(!finding.snippet.is_empty(), "{}", finding.message);
            assert!(finding.message.ends_with('.'), "{}", finding.message);
        }
    }
}

#[test]
fn the_variables_are_those_of_the_library() {
    let [library, here] = [
        include_str!("../../../sqs-once/src/variables.rs"),
        include_str!("../../src/variables.rs"),
    ];
    assert_eq!(library, here);
}

#[test]
fn the_default_retention_is_that_of_the_library() {
    let library = include_str!("../../../sqs-once/src/idempotency/settings.rs");
    let days = "const DEFAULT_RETENTION: Duration = Duration::from_secs(28 * 24 * 60 * 60);";
    assert!(library.contains(days));
    let case = Case::new("deduplication-retention-too-short", "bad");
    let findings = case.source().examine().unwrap();
    let says = |text: &str| findings.iter().any(|it| it.message.contains(text));
    assert!(says(
        "The function Refund remembers keys for 28 days by default;"
    ));
}

#[test]
fn the_page_lists_every_rule() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    // Format of an entry: an anchor, `id` (level, whether it is fixed): title. Why it matters.
    let page = fs::read_to_string(page).unwrap().replace("\n  ", " ");
    let entries = page.lines();
    let entries = entries.filter_map(|line| {
        let (anchor, entry) = line.strip_prefix("- <a id=\"")?.split_once("\"></a>`")?;
        entry.split_once("` (").filter(|(id, _)| *id == anchor)
    });
    let entries = entries.filter(|(id, _)| RULES.iter().any(|rule| rule.id == *id));
    let listed = entries.map(|(_, rest)| {
        let (level, words) = rest.split_once("): ").unwrap();
        let level = level.split(',').next().unwrap();
        (level, words.split(". ").next().unwrap())
    });
    let rules = RULES
        .iter()
        .map(|rule| (rule.severity.as_str(), rule.title));
    assert_eq!(listed.collect::<Vec<_>>(), rules.collect::<Vec<_>>());
}

#[test]
fn the_page_lists_every_limit() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let page = fs::read_to_string(page).unwrap();
    for limit in LIMITS {
        let (name, rest) = limit.setting.split_once(' ').unwrap_or((limit.setting, ""));
        let name = [&format!("`{name}`"), rest].join(" ");
        let (least, most) = (limit.range.start(), limit.range.end());
        let row = format!("| {} | {least} to {most} | [", name.trim_end());
        let row = page.lines().find(|line| line.starts_with(&row));
        assert!(row.is_some_and(|it| it.contains(limit.source)), "{limit:?}");
    }
}
