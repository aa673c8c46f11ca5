//! Single changes to a correct template.

use crate::rules::as_json;
use saphyr::{LoadableYamlNode, YamlOwned};
use serde_json::{Value, json};
use sqs_once_doctor::{Finding, Source};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TEMPLATE: &str = include_str!("../changes.yaml");

fn examine(text: &str) -> Vec<Finding> {
    let source = Source::new(Path::new("/nowhere/template.yaml"), text);
    source
        .examine()
        .unwrap_or_else(|it| panic!("{it}:\n{text}"))
}

fn is_unread(finding: &Finding) -> bool {
    finding.rule.is_unread_part()
}

/// The texts that take the place of a line: the value, in either case of a condition, and as a parameter's default.
fn texts(before: &str, right: &str, wrong: &str) -> Vec<String> {
    let set = |value: &str| format!("{before}: {value}");
    let either = [(right, wrong), (wrong, right)];
    let either = either.map(|(yes, no)| set(&format!("!If [Odd, {yes}, {no}]")));
    let is_plain = !wrong.starts_with(['!', '{', '[', '"']);
    let default = is_plain.then(|| set("!Ref Wrong"));
    [set(wrong)]
        .into_iter()
        .chain(either)
        .chain(default)
        .collect()
}

#[test]
fn each_wrong_value_in_a_correct_template_is_found_and_each_right_one_is_not() {
    assert!(examine(TEMPLATE).is_empty(), "{:?}", examine(TEMPLATE));
    let mut silent = Vec::new();
    let lines: Vec<&str> = TEMPLATE.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((line, wrongs)) = line.split_once(" #! ") else {
            continue;
        };
        let (before, right) = line.split_once(": ").unwrap();
        let (wrongs, equals) = wrongs.split_once(" #= ").unwrap_or((wrongs, ""));
        for equal in equals.split("; ").filter(|it| !it.is_empty()) {
            let text = TEMPLATE.replacen(lines[at], &format!("{before}: {equal}"), 1);
            assert!(examine(&text).iter().all(is_unread), "{before}: {equal}");
        }
        for wrong in wrongs.split("; ") {
            for changed in texts(before, right, wrong) {
                let mut lines = lines.clone();
                lines[at] = &changed;
                let parameter =
                    format!("Parameters:\n  Wrong: {{ Type: String, Default: {wrong} }}");
                let text = lines.join("\n").replacen("Parameters:", &parameter, 1);
                if examine(&text).iter().all(is_unread) {
                    silent.push(format!("{} => {}", line.trim(), changed.trim()));
                }
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The paths of the values in a value. A function, such as `Ref`, is one value.
fn paths(value: &Value, at: &str) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(entries) if !is_function(value) => {
            let entries = entries.iter();
            entries
                .map(|(key, it)| (format!("{at}/{key}"), it))
                .collect()
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(index, it)| (format!("{at}/{index}"), it))
                .collect()
        }
        _ => Vec::new(),
    };
    let below = inner.into_iter().map(|(path, value)| {
        let below = paths(value, &path);
        [vec![path], below].concat()
    });
    below.flatten().collect()
}

fn is_function(value: &Value) -> bool {
    let mut keys = value.as_object().into_iter().flat_map(|it| it.keys());
    keys.any(|key| key == "Ref" || key.starts_with("Fn::"))
}

/// The value without what is at the path.
fn without(value: &Value, path: &str) -> Value {
    let mut rest = value.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    match rest.pointer_mut(parent).unwrap() {
        Value::Array(items) => drop(items.remove(key.parse().unwrap())),
        parent => drop(parent.as_object_mut().unwrap().remove(key)),
    }
    rest
}

/// The changes of the value at a path of the resources, each with its name in `harmless.txt`.
fn changed(resources: &Value, path: &str) -> Vec<(&'static str, Value)> {
    let set = |path: &str, value: Value| {
        let mut changed = resources.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
            parent => parent[key] = value,
        }
        changed
    };
    let value = resources.pointer(path).unwrap();
    let none = json!({ "Ref": "AWS::NoValue" });
    let left_out = ("left out", without(resources, path));
    if path.matches('/').count() == 1 {
        let condition = set(&format!("{path}/Condition"), json!("Odd"));
        return vec![("left out", condition)];
    }
    let either = json!({ "Fn::If": ["Odd", value, none] });
    let unknown = [
        json!({ "Ref": "Given" }),
        json!({ "Fn::ImportValue": "Given" }),
    ];
    let unknown = unknown.map(|it| ("unknown", set(path, it)));
    let absent = match *value == none {
        true => Vec::new(),
        false => vec![left_out, ("left out", set(path, either))],
    };
    absent.into_iter().chain(unknown).collect()
}

#[test]
fn what_is_left_out_or_unknown_is_found_or_named_as_not_examined_unless_it_is_harmless() {
    let template = as_json(&YamlOwned::load_from_str(TEMPLATE).unwrap().remove(0));
    assert!(examine(&template.to_string()).is_empty());
    let resources = &template["Resources"];
    let (mut silent, mut left_out, mut not_examined) = (BTreeSet::new(), 0, Vec::new());
    // AWS accepts no function in the place of a resource's type, or of all its properties.
    let paths = paths(resources, "").into_iter();
    for path in paths.filter(|it| it.matches('/').count() != 2) {
        for (what, changed) in changed(resources, &path) {
            let mut template = template.clone();
            template["Resources"] = changed;
            let findings = examine(&template.to_string());
            let is_silent = findings.is_empty();
            if is_silent {
                silent.insert(format!("{what}: {path}"));
            }
            if what == "left out" {
                left_out += 1;
                if !is_silent && findings.iter().all(is_unread) {
                    not_examined.push(path.clone());
                }
            }
        }
    }
    let harmless =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harmless.txt"))
            .unwrap();
    let harmless = harmless
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'));
    let harmless: BTreeSet<String> = harmless.map(str::to_owned).collect();
    let new: Vec<&String> = silent.difference(&harmless).collect();
    let gone: Vec<&String> = harmless.difference(&silent).collect();
    let count = not_examined.len();
    assert!(
        new.is_empty() && gone.is_empty() && count * 20 <= left_out,
        "silent: {new:#?}\nnot silent any more: {gone:#?}\n{count} of {left_out} only not examined: {not_examined:#?}"
    );
}
