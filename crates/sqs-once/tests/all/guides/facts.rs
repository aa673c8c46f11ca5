//! Checks the facts in the guides against tests, templates, prices and messages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::guides::markdown::Page;
use crate::guides::{files, for_contributors, guides, name, read, root};

/// The concatenated text of our files with this extension below a folder.
fn sources(folder: &Path, extension: &str) -> String {
    let files = files(folder, extension);
    files.iter().map(|path| read(path)).collect()
}

fn of_packages(packages: &[&str]) -> String {
    let src = |package| root().join("crates").join(package).join("src");
    let sources = packages.iter().map(|package| sources(&src(package), "rs"));
    sources.collect()
}

fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The names of the functions with a test attribute.
fn tests_in(code: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in code.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            names.extend(rest.split('(').next());
            is_test = false;
        }
    }
    names
}

#[test]
fn every_test_that_a_guide_names_exists() {
    let folders = ["crates", "examples", "verification", "tests"];
    let code = folders.map(|folder| sources(&root().join(folder), "rs"));
    let code = code.concat();
    let tests = tests_in(&code);
    let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_test = |word: &&str| word.chars().all(of_name) && word.matches('_').count() >= 4;
    let mut missing = Vec::new();
    let mut named = 0;
    for path in guides().into_iter().chain(for_contributors()) {
        let text = read(&path);
        for test in text.lines().flat_map(quoted).filter(is_test) {
            named += 1;
            if !tests.contains(test) {
                missing.push(format!("{}: {test}", name(&path)));
            }
        }
    }
    assert!(named > 50, "only {named} were found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn says(name: &str, page: &str, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        assert!(page.contains(&text), "{name} does not say: {text}");
    }
}

/// A template's lines without comments.
fn template(path: &str) -> Vec<String> {
    let text = read(&root().join(path));
    let is_told = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    text.lines().filter(is_told).map(str::to_owned).collect()
}

fn blocks(guide: &str, language: &str) -> Vec<String> {
    let text = read(&root().join("docs").join(guide));
    let opening = format!("```{language}\n");
    let parts = text.split(&opening).skip(1);
    let blocks = parts.map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.collect()
}

#[test]
fn the_template_is_quoted_as_it_is_and_nothing_of_it_goes_unexplained() {
    let template = template("template.yaml");
    let guide = read(&root().join("docs/template.md"));
    for block in blocks("template.md", "yaml") {
        let lines: Vec<_> = block.lines().collect();
        let is_there = template.windows(lines.len()).any(|window| window == lines);
        assert!(is_there, "template.yaml has nowhere:\n{block}");
    }
    let is_name =
        |line: &&String| line.starts_with("  ") && !line.starts_with("   ") && line.ends_with(':');
    for line in template.iter().filter(is_name) {
        let name = line.trim().trim_end_matches(':');
        says("docs/template.md", &guide, [name.to_owned()]);
    }
}

/// The IAM actions in a text, for example `sqs:SendMessage`.
fn actions(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':');
    let services = ["dynamodb:", "sqs:", "logs:", "xray:", "kms:"];
    let is_action = |word: &&str| {
        let mut actions = services
            .iter()
            .filter_map(|service| word.strip_prefix(service));
        actions.any(|action| action.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    words.filter(is_action).map(str::to_owned).collect()
}

#[test]
fn the_permissions_are_those_of_the_templates() {
    let orders = actions(&template("template.yaml").join("\n"));
    let inventory = actions(&template("examples/inventory/template.yaml").join("\n"));
    let guide = read(&root().join("docs/iam.md"));
    let granted = &orders | &inventory;
    let only_for_some =
        "dynamodb:DeleteItem dynamodb:ConditionCheckItem kms:Decrypt kms:GenerateDataKey";
    let explained = &actions(&guide) - &actions(only_for_some);
    assert_eq!(explained, granted);

    let policies = blocks("iam.md", "json");
    let policies: Vec<_> = policies.iter().map(|policy| actions(policy)).collect();
    let (mut of_orders, mut of_tables) = (orders, inventory);
    of_orders.retain(|action| !action.starts_with("xray:"));
    assert_eq!(policies[0], of_orders);
    of_tables.retain(|action| action.starts_with("dynamodb:"));
    assert_eq!(&policies[1] | &policies[2], of_tables);
}

/// An integer of the template. Its name must be unique there.
fn number(template: &[String], name: &str) -> u32 {
    let named = format!("{name}: ");
    let mut lines = template.iter().map(|line| line.trim());
    let value = lines.find_map(|line| line.strip_prefix(&named));
    let value = value.unwrap_or_else(|| panic!("{name} is not in the template"));
    value.parse().unwrap()
}

#[test]
fn the_times_are_those_of_the_template() {
    let template = template("template.yaml");
    let number = |name| number(&template, name);
    let window = number("MaximumBatchingWindowInSeconds");
    let timeout = number("Timeout");
    let visibility = number("VisibilityTimeout");
    let deliveries = number("maxReceiveCount");
    assert_eq!(visibility, 6 * timeout + window);
    let guide = read(&root().join("docs/timeouts.md"));
    let last = deliveries - 1;
    let outage = last * visibility;
    let minutes = outage / 60;
    let again = "the message is visible again | 6 × `Timeout` + window = 6 ×";
    let times = [
        format!("= {window} + {timeout} + 3 |"),
        format!("| {} s | the lease has lapsed", window + timeout + 3),
        format!("= {window} + {timeout} − 1 |"),
        format!("| {} s | handlers are cancelled", window + timeout - 1),
        format!("| {} s | the deadline", window + timeout),
        format!("| {visibility} s | {again} {timeout} + {window} |"),
        format!("| {outage} s | the fifth and last"),
        format!("| {} s | after the fifth delivery", deliveries * visibility),
        format!("| {deliveries} × {visibility} |"),
        format!("{last} × {visibility} s = {outage} s, {minutes} minutes"),
    ];
    says("docs/timeouts.md", &guide, times);
    let modes = plain(&read(&root().join("docs/failure-modes.md")));
    let buried = format!("after {last} × {visibility} s: an outage of less than {minutes} minutes");
    says("docs/failure-modes.md", &modes, [buried]);
    let drawing = read(&root().join("docs/diagrams/one-delivery.svg"));
    let end = window + timeout;
    let moments = [window, end - 1, end, end + 3].map(|moment| format!(">{moment}<"));
    says("one-delivery.svg", &drawing, moments);
    says("one-delivery.svg", &drawing, [format!(">{visibility} s<")]);
}

/// A text in one line, without the escapes of Rust literals.
fn plain(text: &str) -> String {
    let text = text.replace("\\\n", " ").replace("\\\"", "\"");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_message_is_one_that_the_sources_say() {
    let code = of_packages(&["sqs-once", "sqs-once-postgres", "sqs-once-operate"]);
    let ui = sources(&root().join("crates/sqs-once/tests/ui"), "stderr");
    let code = plain(&(code + &ui));
    let guide = read(&root().join("docs/troubleshooting.md"));
    let (listed, _) = guide.split_once("## No message at all").unwrap();
    let entries = entries(listed);
    let messages: Vec<_> = entries.iter().flat_map(|entry| messages(entry)).collect();
    assert!(messages.len() > 100, "only {} were found", messages.len());
    let unknown = messages.into_iter().filter(|words| !code.contains(words));
    let unknown: Vec<_> = unknown.collect();
    assert!(unknown.is_empty(), "no source has:\n{}", unknown.join("\n"));
}

/// The list entries of a page, each in one line.
fn entries(page: &str) -> Vec<String> {
    let entries = page.split("\n- ").skip(1).map(|entry| {
        let mut lines = entry.split_inclusive('\n');
        let first = lines.next().into_iter();
        let more = lines.take_while(|line| line.starts_with("  "));
        plain(&first.chain(more).collect::<String>())
    });
    entries.collect()
}

/// The messages in an entry: the code before the colon that starts its explanation.
fn messages(entry: &str) -> Vec<&str> {
    let mut messages = Vec::new();
    let mut rest = entry;
    while let Some((words, code)) = rest.split_once('`') {
        if words.contains(": ") {
            break;
        }
        let (code, after) = code.split_once('`').unwrap_or((code, ""));
        messages.push(code);
        rest = after;
    }
    messages
}

/// The codes of the reasons that the library logs.
fn codes(source: &str) -> BTreeSet<&str> {
    let (_, names) = source.split_once("fn as_str(").unwrap();
    let (names, _) = names.split_once("\n    }\n").unwrap();
    names.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_code_of_a_reason_is_a_heading_of_troubleshooting_and_a_test_reaches_it() {
    let source = read(&root().join("crates/sqs-once/src/report/code.rs"));
    let codes = codes(&source);
    assert!(codes.len() > 20, "only {} were found", codes.len());
    let guide = read(&root().join("docs/troubleshooting.md"));
    let heading = "\n## A message failed or is terminal\n";
    let (_, section) = guide.split_once(heading).unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let headings = section.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors = Page::read(&guide).anchors();
    let headings: Vec<_> = headings.collect();
    assert_eq!(headings.iter().copied().collect::<BTreeSet<_>>(), codes);
    for heading in headings {
        let is_second = |anchor: &String| *anchor == format!("{heading}-1");
        let is_unique = !anchors.iter().any(is_second);
        assert!(is_unique, "{heading} is a heading twice");
    }
    // A test compares outcomes with codes: `"failed: lease-lost"`.
    let tests = sources(&root().join("crates/sqs-once/tests/all"), "rs");
    let is_reached = |code: &&str| {
        let ends = ["\"", ","].map(|end| format!(": {code}{end}"));
        ends.iter().any(|end| tests.contains(end))
    };
    let missed: Vec<_> = codes.iter().filter(|code| !is_reached(code)).collect();
    assert!(missed.is_empty(), "no test reaches {missed:?}");
}

#[test]
fn every_error_of_the_library_is_in_troubleshooting() {
    let code = of_packages(&["sqs-once", "sqs-once-operate"]);
    let guide = plain(&read(&root().join("docs/troubleshooting.md")));
    let mut missing = Vec::new();
    // Examples in comments have errors of their own.
    let mut code: Vec<_> = code.lines().collect();
    code.retain(|line| !line.trim_start().starts_with("//"));
    let code = code.join("\n");
    for error in code.split("#[error(").skip(1) {
        let Some(text) = error.trim_start().strip_prefix('"') else {
            continue;
        };
        let ends = ["\"\n", "\",", "\")"];
        let ends = ends.iter().filter_map(|end| text.find(end));
        let text = plain(&text[..ends.min().unwrap()]);
        // Uses the longest constant part without back quotes. The start of it is enough.
        let parts = text.split('{').flat_map(|part| part.rsplit('}').next());
        let parts = parts.flat_map(|part| part.split('`'));
        let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
        let is_sign = |c: char| !c.is_alphanumeric();
        let words: Vec<_> = longest.trim_matches(is_sign).split(' ').take(5).collect();
        let start = words.join(" ");
        let start = start.trim_end_matches(is_sign);
        if start.len() > 8 && !guide.contains(start) {
            missing.push(start.to_owned());
        }
    }
    assert!(missing.is_empty(), "not in the guide: {missing:#?}");
}
