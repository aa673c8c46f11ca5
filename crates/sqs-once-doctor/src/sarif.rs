//! Findings in SARIF 2.1.0, which code scanning reads.

use crate::rules::RULES;
use crate::source::Finding;
use serde_json::{Value, json};

/// The findings as a SARIF log. The log describes every rule, including rules without findings.
pub fn sarif(findings: &[Finding]) -> Value {
    let rules = RULES.iter().map(|rule| {
        json!({
            "id": rule.id,
            "shortDescription": { "text": rule.title },
            "fullDescription": { "text": rule.why },
            "helpUri": rule.guide(),
            "help": { "text": format!("{} {}", rule.why, rule.url) },
            "defaultConfiguration": { "level": rule.severity.as_str() },
        })
    });
    let rules: Vec<Value> = rules.collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "sqs-once doctor",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                }
            },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(finding: &Finding) -> Value {
    let resource = finding.construct.as_ref();
    let resource = resource.unwrap_or(&finding.place.resource);
    let mut location = json!({
        "physicalLocation": { "artifactLocation": { "uri": uri(finding) } },
        "logicalLocations": [{ "fullyQualifiedName": resource }],
    });
    if let Some((line, column)) = finding.place.position {
        location["physicalLocation"]["region"] =
            json!({ "startLine": line.get(), "startColumn": column.get() });
    }
    let text = format!(
        "{} {} Instead:\n{}",
        finding.message, finding.rule.why, finding.snippet
    );
    json!({
        "ruleId": finding.rule.id,
        "ruleIndex": RULES.iter().position(|rule| rule.id == finding.rule.id),
        "level": finding.rule.severity.as_str(),
        "message": { "text": text },
        "locations": [location],
    })
}

/// The file as a relative URI, percent-encoded.
fn uri(finding: &Finding) -> String {
    let path = finding.file.to_string_lossy().replace('\\', "/");
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
