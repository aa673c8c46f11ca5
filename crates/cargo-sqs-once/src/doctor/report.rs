//! Formats findings for people and as JSON.

use crate::print::{self, one_line};
use serde_json::{Value, json};
use sqs_once_doctor::{Finding, Severity};
use std::io::stdout;

pub(super) fn text(fixed: &[Finding], findings: &[Finding]) -> String {
    let mut lines = Vec::new();
    for finding in fixed {
        lines.push(headline(finding, "fixed", "32"));
    }
    for finding in findings {
        let colour = match finding.rule.severity {
            Severity::Error => "31",
            Severity::Warning => "33",
            _ => "36",
        };
        lines.push(headline(finding, finding.rule.severity.as_str(), colour));
        lines.push(format!("  why: {}", finding.rule.why));
        lines.push(match &finding.construct {
            Some(construct) => {
                let construct = one_line(construct);
                format!("  fix: in the CDK app, so that the construct {construct} makes this")
            }
            None if finding.is_fixable => "  fix: --fix writes it".to_owned(),
            None => "  fix: by hand".to_owned(),
        });
        let snippet = finding.snippet.lines();
        lines.extend(snippet.map(|line| format!("    {}", one_line(line)).trim_end().to_owned()));
        lines.push(format!("  see: {}", finding.rule.guide()));
        lines.push(format!("  source: {}", finding.rule.url));
    }
    lines.push(summary(fixed, findings));
    lines.join("\n")
}

/// Formats a finding's first line, such as `template.yaml:28:3: error: The queue Orders has no dead-letter queue.
/// [dead-letter-queue-missing]`.
fn headline(finding: &Finding, word: &str, colour: &str) -> String {
    let file = finding.file.display();
    let place = match finding.place.position {
        Some((line, column)) => format!("{file}:{line}:{column}"),
        None => format!("{file}: {}", finding.place.resource),
    };
    let word = match print::is_coloured(&stdout()) {
        true => format!("\x1b[{colour}m{word}\x1b[0m"),
        false => word.to_owned(),
    };
    let (place, message) = (one_line(&place), one_line(&finding.message));
    format!("{place}: {word}: {message} [{}]", finding.rule.id)
}

fn summary(fixed: &[Finding], findings: &[Finding]) -> String {
    let count = |severity, word: &str| {
        let of = findings.iter().filter(|it| it.rule.severity == severity);
        print::counted(of.count() as u64, word, &format!("{word}s"))
    };
    let found = match findings.len() {
        0 => "nothing found".to_owned(),
        all => format!(
            "{}: {}, {}, {}",
            print::counted(all as u64, "finding", "findings"),
            count(Severity::Error, "error"),
            count(Severity::Warning, "warning"),
            count(Severity::Note, "note")
        ),
    };
    match fixed.len() {
        0 => found,
        fixed => format!("{fixed} fixed, {found}"),
    }
}

pub(super) fn json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule.id,
        "level": finding.rule.severity.as_str(),
        "file": finding.file.to_string_lossy(),
        "resource": finding.place.resource,
        "construct": finding.construct,
        "line": finding.place.position.map(|(line, _)| line.get()),
        "column": finding.place.position.map(|(_, column)| column.get()),
        "message": finding.message,
        "why": finding.rule.why,
        "fix": finding.snippet,
        "is_fixable": finding.is_fixable,
        "guide": finding.rule.guide(),
        "url": finding.rule.url,
    })
}
