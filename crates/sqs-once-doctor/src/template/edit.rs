//! Edits to a template's text that keep comments, order and layout.

use super::node::{Kind, Node};
use super::write::{Style, block, entry, flow};
use crate::field::{Path, Step};
use serde_json::{Value, json};

/// A change to a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Replaces the value at the path; missing mappings on the path are created.
    Set(Path, Value),
    /// Appends to the list at the path; a missing list is created.
    Append(Path, Value),
}

/// Applies the changes. `None` if a change is impossible, would alter any other value, or refers to a resource that a
/// condition may leave out.
pub(crate) fn apply(text: &str, changes: &[Change]) -> Option<String> {
    changes.iter().try_fold(text.to_owned(), |text, change| {
        let root = Node::parse(&text).ok()?;
        let edited = edit(&text, &root, change)?;
        let expected = expected(root.to_json(), change)?;
        let root = Node::parse(&edited).ok()?;
        (root.to_json() == expected && has_targets(&root, change)).then_some(edited)
    })
}

/// Whether each resource that the change refers to exists whenever the changed resource does: it has no condition, or the
/// same.
fn has_targets(root: &Node, change: &Change) -> bool {
    let (Change::Set(path, value) | Change::Append(path, value)) = change;
    let condition = |path: &[Step]| {
        let resource = path.iter().try_fold(root, Node::step)?;
        resource.get("Condition")?.scalar()
    };
    let own = condition(path.get(..2).unwrap_or_default());
    referred(value).into_iter().all(|id| {
        let of = condition(&["Resources".into(), id.into()]);
        of.is_none() || of == own
    })
}

/// The names to which a value refers.
fn referred(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(entries) => {
            let names = entries.iter().map(|(key, value)| match (&**key, value) {
                ("Ref", Value::String(name)) => vec![&**name],
                ("Fn::GetAtt", Value::Array(parts)) => {
                    parts.first().and_then(Value::as_str).into_iter().collect()
                }
                (_, value) => referred(value),
            });
            names.flatten().collect()
        }
        Value::Array(items) => items.iter().flat_map(referred).collect(),
        _ => Vec::new(),
    }
}

/// The document's expected value after the change.
fn expected(mut document: Value, change: &Change) -> Option<Value> {
    let (Change::Set(path, value) | Change::Append(path, value)) = change;
    let value = texts(value);
    let mut at = &mut document;
    for step in path {
        at = match step {
            Step::Key(key) => at
                .as_object_mut()?
                .entry(key.as_str())
                .or_insert_with(|| json!({})),
            Step::Index(index) => at.as_array_mut()?.get_mut(*index)?,
        };
    }
    match change {
        Change::Set(..) => *at = value,
        Change::Append(..) => match at {
            Value::Array(items) => items.push(value),
            // The value was just created.
            at => *at = json!([value]),
        },
    }
    Some(document)
}

/// The value in the form of `Node::to_json`.
fn texts(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| (key.clone(), texts(value)));
            Value::Object(entries.collect())
        }
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::String(text) => Value::String(text.clone()),
        other => Value::String(other.to_string()),
    }
}

fn edit(text: &str, root: &Node, change: &Change) -> Option<String> {
    let (Change::Set(path, value) | Change::Append(path, value)) = change;
    let style = Style::of(text);
    let mut node = root;
    let mut depth = 0;
    while let Some(next) = path.get(depth).and_then(|step| node.step(step)) {
        node = next;
        depth += 1;
    }
    let editor = Editor { text, style };
    if depth == path.len() {
        return match change {
            Change::Set(..) => editor.replace(node, value),
            Change::Append(..) => editor.append(node, value),
        };
    }
    let mut value = match change {
        Change::Set(..) => value.clone(),
        Change::Append(..) => json!([value]),
    };
    for step in path[depth + 1..].iter().rev() {
        let Step::Key(key) = step else { return None };
        value = json!({ key.as_str(): value });
    }
    let Step::Key(key) = &path[depth] else {
        return None;
    };
    editor.insert(node, key, &value, path.len() == 2)
}

struct Editor<'a> {
    text: &'a str,
    style: Style,
}

impl Editor<'_> {
    /// Replaces a value that is on one line.
    fn replace(&self, node: &Node, value: &Value) -> Option<String> {
        let is_block = match &node.kind {
            Kind::Scalar { .. } => false,
            Kind::Sequence { is_flow, .. } | Kind::Mapping { is_flow, .. } => !is_flow,
        };
        let old = &self.text[node.span.clone()];
        // A number in the place of a parameter or a condition would remove the choice.
        let is_choice = node
            .intrinsic()
            .is_some_and(|(name, _)| name == "Fn::If" || !value.is_object());
        if is_block || is_choice || old.contains('\n') || old.is_empty() {
            return None;
        }
        let value = self.write(value, "");
        // A tag precedes the span of its value.
        let mut start = node.span.start;
        if node.intrinsic().is_some() && !old.starts_with(['{', '!']) {
            start = self.text[..start].trim_end().rfind('!')?;
        }
        Some(self.splice(start, node.span.end, &value))
    }

    /// Adds an entry to a mapping.
    fn insert(&self, node: &Node, key: &str, value: &Value, is_resource: bool) -> Option<String> {
        let Kind::Mapping { entries, is_flow } = &node.kind else {
            return None;
        };
        if node.intrinsic().is_some() {
            return None;
        }
        if !is_flow {
            let last = entries.last()?;
            let indent = entries.first()?.column;
            let margin = " ".repeat(indent);
            let gap = if is_resource { "\n\n" } else { "\n" };
            let lines = format!("{gap}{margin}{}", entry(key, value, indent));
            let end = self.end_of_line(self.end(&last.value).max(last.key_span.end));
            return Some(self.splice(end, end, &lines));
        }
        let open = node.span.start + 1;
        // New entries repeat the spacing between the brace and the first entry.
        let gap = match entries.first() {
            Some(first) => &self.text[open..first.key_span.start],
            None => "",
        };
        if !gap.trim().is_empty() {
            return None;
        }
        let value = self.write(value, gap);
        let key = match self.style {
            Style::Yaml => key.to_owned(),
            Style::Json => Value::from(key).to_string(),
        };
        let added = match entries.is_empty() {
            true => format!("{key}: {value}"),
            false if gap.is_empty() => format!("{key}: {value}, "),
            false => format!("{key}: {value},{gap}"),
        };
        let at = open + gap.len();
        Some(self.splice(at, at, &added))
    }

    /// Adds an item to a list.
    fn append(&self, node: &Node, value: &Value) -> Option<String> {
        let Kind::Sequence { items, is_flow } = &node.kind else {
            return None;
        };
        let last = items.last()?;
        if *is_flow {
            let end = self.end(last);
            let first = items.first()?;
            let gap = self.text.get(node.span.start + 1..first.span.start)?;
            if !gap.trim().is_empty() {
                return None;
            }
            let value = self.write(value, gap);
            let gap = if gap.is_empty() { " " } else { gap };
            return Some(self.splice(end, end, &format!(",{gap}{value}")));
        }
        let line = self.text[..last.span.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let dash = self.text[line..last.span.start].rfind('-')?;
        let margin = &self.text[line..line + dash];
        if !margin.trim().is_empty() {
            return None;
        }
        let lines = format!("\n{margin}- {}", block(value, margin.len() + 2));
        let end = self.end_of_line(self.end(last));
        Some(self.splice(end, end, &lines))
    }

    /// A value in flow style. JSON is on several lines where the surrounding entries are on separate lines.
    fn write(&self, value: &Value, gap: &str) -> String {
        match (self.style, gap.rfind('\n')) {
            (Style::Yaml, _) => flow(value),
            (Style::Json, Some(at)) => serde_json::to_string_pretty(value)
                .unwrap_or_default()
                .replace('\n', &format!("\n{}", &gap[at + 1..])),
            (Style::Json, None) => value.to_string(),
        }
    }

    /// The end of a value's text, without trailing whitespace.
    fn end(&self, node: &Node) -> usize {
        let last = match &node.kind {
            Kind::Sequence { items, is_flow } if !is_flow => items.last(),
            Kind::Mapping { entries, is_flow } if !is_flow => entries.last().map(|it| &it.value),
            _ => None,
        };
        match last {
            Some(last) => self.end(last),
            None => self.text[..node.span.end].trim_end().len(),
        }
    }

    fn end_of_line(&self, at: usize) -> usize {
        let line = self.text[at..].split('\n').next().unwrap_or_default();
        at + line.trim_end_matches('\r').len()
    }

    fn splice(&self, start: usize, end: usize, new: &str) -> String {
        let new = match self.text.contains("\r\n") {
            true => new.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => new.to_owned(),
        };
        [&self.text[..start], &new, &self.text[end..]].concat()
    }
}
