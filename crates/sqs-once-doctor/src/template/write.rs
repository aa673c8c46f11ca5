//! Writes values as YAML and JSON in the usual style of templates.

use crate::field::{Path, Step};
use serde_json::{Map, Value, json};

/// The syntax around a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Yaml,
    Json,
}

impl Style {
    pub(crate) fn of(text: &str) -> Self {
        match text.trim_start().starts_with('{') {
            true => Self::Json,
            false => Self::Yaml,
        }
    }
}

/// A value with its enclosing keys, for the user to copy.
pub(crate) fn snippet(path: &Path, value: &Value, style: Style) -> String {
    // Start at the resource. For an event of a SAM function, the snippet includes the function.
    let from = usize::from(path.first() == Some(&"Resources".into()));
    let mut nested = value.clone();
    for step in path.iter().skip(from).rev() {
        nested = match step {
            Step::Key(key) => json!({ key.as_str(): nested }),
            Step::Index(_) => json!([nested]),
        };
    }
    match style {
        Style::Yaml => block(&nested, 0),
        Style::Json => serde_json::to_string_pretty(&nested).unwrap_or_default(),
    }
}

/// The lines of a value below its key. The first line is not indented.
pub(crate) fn block(value: &Value, indent: usize) -> String {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(entries) if !entries.is_empty() && short_form(value).is_none() => {
            // `Type` comes first in a resource.
            let (first, rest): (Vec<_>, Vec<_>) =
                entries.iter().partition(|(key, _)| *key == "Type");
            let lines = first.into_iter().chain(rest);
            let lines = lines.map(|(key, value)| entry(key, value, indent));
            lines.collect::<Vec<_>>().join(&format!("\n{margin}"))
        }
        Value::Array(items) if !is_short(value) => {
            let lines = items
                .iter()
                .map(|item| format!("- {}", block(item, indent + 2)));
            lines.collect::<Vec<_>>().join(&format!("\n{margin}"))
        }
        value => flow(value),
    }
}

/// `Key: value`, on one or several lines.
pub(crate) fn entry(key: &str, value: &Value, indent: usize) -> String {
    let deeper = indent + 2;
    let margin = " ".repeat(deeper);
    if is_short(value) {
        format!("{}: {}", scalar(key), flow(value))
    } else {
        format!("{}:\n{margin}{}", scalar(key), block(value, deeper))
    }
}

/// Whether a value fits on the line of its key.
fn is_short(value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty() || short_form(value).is_some(),
        Value::Array(items) => items
            .iter()
            .all(|item| !item.is_array() && is_short(item) && flow(item).len() < 40),
        _ => true,
    }
}

/// A value on one line of YAML.
pub(crate) fn flow(value: &Value) -> String {
    if let Some(short) = short_form(value) {
        return short;
    }
    match value {
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// The short form of an intrinsic function: `!Ref Queue` or `!GetAtt Queue.Arn`.
fn short_form(value: &Value) -> Option<String> {
    let entries: &Map<String, Value> = value.as_object().filter(|entries| entries.len() == 1)?;
    if let Some(id) = entries.get("Ref") {
        return Some(format!("!Ref {}", id.as_str()?));
    }
    let [id, attribute] = entries.get("Fn::GetAtt")?.as_array()?.as_slice() else {
        return None;
    };
    Some(format!("!GetAtt {}.{}", id.as_str()?, attribute.as_str()?))
}

/// A string scalar, quoted if YAML would read the plain text as something else.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "_-./:".contains(char))
        && !text.ends_with(':')
        && !matches!(
            &*text.to_ascii_lowercase(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
        );
    match is_plain {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}
