//! Reads the values of a template.

use super::evaluate::{Evaluator, place, referred};
use super::node::{Entry, Kind, Node};
use crate::field::{Field, Path, Step, below};
use crate::model::{Form, Reference, Site, Target, literal};
use serde_json::Value;
use std::time::Duration;

/// A value in the template, which may be absent.
#[derive(Clone)]
pub(crate) struct View<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(crate) node: Field<&'a Node>,
}

impl<'a> Evaluator<'a> {
    /// A resource, as it is written.
    pub(crate) fn resource(&'a self, id: &str) -> View<'a> {
        let path = vec!["Resources".into(), id.into()];
        self.view(self.resources[id], path)
    }

    /// A value as it is written.
    pub(crate) fn view(&'a self, node: &'a Node, path: Path) -> View<'a> {
        self.with(Field::Known(node, place(node, &path)))
    }

    pub(super) fn with(&'a self, node: Field<&'a Node>) -> View<'a> {
        View {
            evaluator: self,
            node,
        }
    }

    /// The value after its conditions: that of two equal branches, or of the branch that the case decides for.
    pub(super) fn resolve(&'a self, node: &'a Node, mut path: Path) -> View<'a> {
        if node.is_null() {
            return self.with(Field::Missing);
        }
        match node.intrinsic() {
            Some(("Ref", to)) if to.scalar() == Some("AWS::NoValue") => self.with(Field::Missing),
            Some(("Fn::If", arguments)) => {
                let [condition, yes, no] = arguments.items() else {
                    return self.with(Field::Unknown);
                };
                let is_same = (yes.to_json() == no.to_json()).then_some(true);
                let holds = || self.case.get(condition.scalar()?).copied();
                let (index, branch) = match is_same.or_else(holds) {
                    Some(true) => (1, yes),
                    Some(false) => (2, no),
                    None => return self.with(Field::Unknown),
                };
                path.extend(["Fn::If".into(), Step::Index(index)]);
                self.resolve(branch, path)
            }
            _ => self.view(node, path),
        }
    }
}

impl<'a> View<'a> {
    /// The value of the entry `name`.
    pub(crate) fn get(&self, name: &str) -> Self {
        let Field::Known(node, place) = &self.node else {
            return self.clone();
        };
        // A macro, an include or a merge key may add this entry.
        let is_open = |entry: &Entry| entry.key.starts_with("Fn::") || entry.key == "<<";
        let none = match (node.get(name), &node.kind) {
            _ if node.intrinsic().is_some() => Field::Unknown,
            (Some(value), _) => {
                return self.evaluator.resolve(value, below(&place.path, &[name]));
            }
            (None, Kind::Mapping { entries, .. }) if !entries.iter().any(is_open) => Field::Missing,
            (None, _) => Field::Unknown,
        };
        self.evaluator.with(none)
    }

    /// The value at a path below this one.
    pub(crate) fn dig(&self, names: &[&str]) -> Self {
        let names = names.iter();
        names.fold(self.clone(), |view, name| view.get(name))
    }

    /// The values of a list. A scalar counts as a list of one. Unknown if the list or one of its values is unknown.
    pub(crate) fn list(&self) -> Field<Vec<Self>> {
        self.node.clone().and_then(|node| {
            let Kind::Sequence { items, .. } = &node.kind else {
                return Some(vec![self.clone()]);
            };
            let items = items.iter().enumerate();
            let items = items.map(|(index, item)| self.inner(Step::Index(index), item));
            Some(items.filter(|item| !item.node.is_missing()).collect())
        })
    }

    /// The value after a step from this one.
    fn inner(&self, step: Step, value: &'a Node) -> Self {
        let path = self.node.place().map(|place| place.path.clone());
        let mut path = path.unwrap_or_default();
        path.push(step);
        self.evaluator.resolve(value, path)
    }

    /// The values of a list that is known.
    pub(crate) fn items(&self) -> Vec<Self> {
        self.list().known().cloned().unwrap_or_default()
    }

    /// Whether a value is set, without its content.
    pub(crate) fn is_set(&self) -> Field<()> {
        let node = self.node.clone();
        node.and_then(|node| node.intrinsic().is_none().then_some(()))
    }

    /// Parses the canonical text.
    pub(crate) fn field<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Field<T> {
        let node = self.node.clone();
        node.and_then(|node| parse(&self.evaluator.text(node)?))
    }

    /// The canonical text.
    pub(crate) fn text(&self) -> Field<String> {
        self.field(|text| Some(text.to_owned()))
    }

    /// A text without references.
    pub(crate) fn literal(&self) -> Field<String> {
        self.field(literal)
    }

    pub(crate) fn number(&self) -> Field<u64> {
        self.field(|text| text.parse().ok())
    }

    pub(crate) fn seconds(&self) -> Field<Duration> {
        let seconds = self.number();
        seconds.and_then(|seconds| Some(Duration::from_secs(seconds)))
    }

    /// A boolean of YAML 1.1, which SAM reads.
    pub(crate) fn flag(&self) -> Field<bool> {
        self.field(|text| match &*text.to_ascii_lowercase() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        })
    }

    /// The resource that the value refers to.
    pub(crate) fn target(&self) -> Field<Target> {
        self.field(|text| self.evaluator.target_of(text))
    }

    /// The value as JSON, with canonical texts. A value that is unknown before the deployment is null.
    pub(crate) fn json(&self) -> Value {
        let Some(node) = self.node.known() else {
            return Value::Null;
        };
        match &node.kind {
            Kind::Sequence { items, .. } => {
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| self.inner(Step::Index(at), item));
                let items = items.filter(|item| !item.node.is_missing());
                items.map(|item| item.json()).collect()
            }
            Kind::Mapping { entries, .. } if node.intrinsic().is_none() => {
                let pairs = entries.iter().filter_map(|it| {
                    let value = self.inner((&*it.key).into(), &it.value);
                    let value = (!value.node.is_missing()).then(|| value.json())?;
                    Some((it.key.clone(), value))
                });
                Value::Object(pairs.collect())
            }
            _ => {
                let is_known = |text: &String| {
                    !text.contains("${") || self.evaluator.target_of(text).is_some()
                };
                let text = self.evaluator.text(node).filter(is_known);
                text.map_or(Value::Null, Value::String)
            }
        }
    }

    /// The value as a reference to a queue, which needs this form.
    pub(crate) fn reference(&self, site: &Site, wanted: Form) -> Reference {
        let value = self.text();
        let text = value.known().map_or("", String::as_str);
        let other = referred(text).filter(|(id, _)| match self.evaluator.kind(id) {
            Some(kind) => kind != "AWS::SQS::Queue",
            None => self.evaluator.absent.contains(id),
        });
        Reference {
            site: site.clone(),
            wanted,
            found: self.evaluator.form(text),
            other: other.map(|(id, _)| id.to_owned()),
            target: self.target(),
            value,
        }
    }
}
