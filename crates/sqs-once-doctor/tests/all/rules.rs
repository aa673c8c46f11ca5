//! Each rule against a template that breaks it and one that satisfies it: `tests/rules/ID/bad.yaml` and `good.yaml`.
//!
//! In `bad.yaml`, `# finding: ID` marks every line with a finding. `good.yaml` is a near miss without findings.

use sqs_once_doctor::{Finding, RULES, Source};
use std::fs;
use std::path::{Path, PathBuf};

/// A template in its own folder, with its manifest if it has one.
struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(rule: &str, name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/rules")
            .join(rule);
        let case = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let template = from.join(format!("{name}.yaml"));
        assert!(template.exists(), "the rule {rule} has no {name}.yaml");
        fs::copy(template, case.template()).unwrap();
        // Keeps the search from reaching a manifest in a parent folder.
        let manifest = from.join(format!("{name}.toml"));
        if manifest.exists() {
            fs::copy(manifest, case.manifest()).unwrap();
        } else {
            fs::write(case.manifest(), "[workspace]\n").unwrap();
        }
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
        let findings = self.source().examine().unwrap();
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
    for rule in RULES {
        let case = Case::new(rule.id, "bad");
        assert_eq!(case.findings(), case.marked(), "{}", rule.id);
        let is_found = case.marked().iter().any(|(_, _, id)| id == rule.id);
        assert!(is_found, "{} has no finding in its own template", rule.id);
        let case = Case::new(rule.id, "good");
        assert_eq!(case.findings(), [], "{}", rule.id);
    }
}

#[test]
fn no_template_is_of_a_rule_that_is_not_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(RULES.iter().any(|rule| rule.id == name), "{name}");
    }
}

#[test]
fn what_is_fixed_is_found_no_more_and_fixing_again_changes_nothing() {
    for rule in RULES {
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
    for rule in RULES {
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
    for rule in RULES {
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
