//! Single changes to a correct template.

use sqs_once_doctor::{Finding, Source};
use std::path::Path;

const TEMPLATE: &str = include_str!("../changes.yaml");

fn examine(text: &str) -> Vec<Finding> {
    let source = Source::new(Path::new("/nowhere/template.yaml"), text);
    source
        .examine()
        .unwrap_or_else(|it| panic!("{it}:\n{text}"))
}

/// The texts that take the place of a line: the value, in either case of a condition, and as a parameter's default.
fn texts(before: &str, right: &str, wrong: &str) -> Vec<String> {
    let set = |value: &str| format!("{before}: {value}");
    let either = |wrong: &str| {
        [(right, wrong), (wrong, right)].map(|(yes, no)| set(&format!("!If [Odd, {yes}, {no}]")))
    };
    let is_plain = !wrong.starts_with(['!', '{', '[', '"']);
    let mut texts = match wrong {
        _ if wrong.starts_with("absent") => return vec![format!("{before}:\n    Condition: Odd")],
        _ if wrong.starts_with("unknown") => {
            return ["!Ref Given", "!ImportValue Given"].map(set).to_vec();
        }
        "drop" => [vec![String::new()], either("!Ref AWS::NoValue").to_vec()].concat(),
        wrong => [vec![set(wrong)], either(wrong).to_vec()].concat(),
    };
    texts.extend((is_plain && wrong != "drop").then(|| set("!Ref Wrong")));
    texts
}

#[test]
fn each_change_of_a_correct_template_is_found_or_named_as_not_examined() {
    assert!(examine(TEMPLATE).is_empty(), "{:?}", examine(TEMPLATE));
    let is_unread = |it: &Finding| it.rule.is_unread_part();
    let (mut changes, mut unread, mut silent) = (0, 0, Vec::new());
    let lines: Vec<&str> = TEMPLATE.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((line, wrongs)) = line.split_once(" #! ") else {
            continue;
        };
        let whole = (line.trim_end_matches(':'), "");
        let (before, right) = line.split_once(": ").unwrap_or(whole);
        let (wrongs, equals) = wrongs.split_once(" #= ").unwrap_or((wrongs, ""));
        for equal in equals.split("; ").filter(|it| !it.is_empty()) {
            let text = TEMPLATE.replacen(lines[at], &format!("{before}: {equal}"), 1);
            assert!(examine(&text).iter().all(is_unread), "{before}: {equal}");
        }
        for wrong in wrongs.split("; ") {
            let own = before.trim_start_matches([' ', '-']);
            let is_named = wrong.starts_with("unknown ") || wrong.starts_with("absent ");
            let name = wrong
                .split_once(' ')
                .filter(|_| is_named)
                .map_or(own, |(_, name)| name);
            for changed in texts(before, right, wrong) {
                let mut lines = lines.clone();
                lines[at] = &changed;
                let parameter =
                    format!("Parameters:\n  Wrong: {{ Type: String, Default: {wrong} }}");
                let text = lines.join("\n").replacen("Parameters:", &parameter, 1);
                let findings = examine(&text);
                changes += 1;
                if findings.iter().all(is_unread) {
                    unread += 1;
                    if !findings.iter().any(|it| it.message.contains(name)) {
                        silent.push(format!("{} => {}", line.trim(), changed.trim()));
                    }
                }
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(
        unread * 20 <= changes,
        "{unread} of {changes} were not examined"
    );
}
