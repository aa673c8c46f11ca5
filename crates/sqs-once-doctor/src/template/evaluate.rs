//! Evaluates a template's values before deployment.
//!
//! Each value becomes its canonical text. References appear as `${Name}` or `${Name.Attribute}`, as in `Fn::Sub`.
//! A parameter has its default. Without one it appears the same way.

use super::conditions::Case;
use super::node::{Entry, Kind, Node};
use crate::field::{Field, Path, Place, Step, below};
use crate::model::{Form, Reference, Site, Target, literal};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

/// Context for evaluating a template's values.
pub(crate) struct Evaluator<'a> {
    /// The resources by logical ID.
    pub(crate) resources: BTreeMap<&'a str, &'a Node>,
    /// Physical names as canonical texts, with the logical IDs of the resources that have them.
    names: BTreeMap<String, Vec<String>>,
    /// The defaults of parameters, by the text that refers to them.
    defaults: BTreeMap<String, &'a str>,
    /// The conditions that are taken to hold, or not to hold.
    case: &'a Case,
    /// The resources that their conditions leave out.
    absent: BTreeSet<&'a str>,
}

/// A value in the template, which may be absent.
#[derive(Debug, Clone)]
pub(crate) enum View<'a> {
    Missing,
    Unknown,
    Node(&'a Node, Path),
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(root: &'a Node, case: &'a Case) -> Self {
        let resources = root.get("Resources").map_or(&[][..], Node::entries).iter();
        let parameters = root.get("Parameters").map_or(&[][..], Node::entries);
        let is_absent = |it: &&Entry| {
            let condition = it.value.get("Condition").and_then(Node::scalar);
            condition.is_some_and(|name| case.get(name) == Some(&false))
        };
        let (absent, present): (Vec<_>, Vec<_>) = resources.partition(is_absent);
        let mut evaluator = Self {
            resources: present
                .into_iter()
                .map(|it| (&*it.key, &it.value))
                .collect(),
            names: BTreeMap::new(),
            defaults: parameters.iter().filter_map(default).collect(),
            case,
            absent: absent.into_iter().map(|it| &*it.key).collect(),
        };
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, resource) in &evaluator.resources {
            for property in [
                "QueueName",
                "TableName",
                "FunctionName",
                "RoleName",
                "AliasName",
            ] {
                let name = resource.get("Properties").and_then(|it| it.get(property));
                if let Some(name) = name.and_then(|name| evaluator.text(name)) {
                    names.entry(name).or_default().push((*id).to_owned());
                }
            }
        }
        evaluator.names = names;
        evaluator
    }

    /// The resource of this type that a value refers to.
    pub(crate) fn of_type(&self, target: &Field<Target>, kind: &str) -> Option<&'a str> {
        let target = target.known()?;
        let mut resources = self.resources.iter();
        let (id, _) = resources.find(|(id, resource)| {
            target.is(id) && resource.get("Type").and_then(Node::scalar) == Some(kind)
        })?;
        Some(id)
    }

    /// The value of the entry `name`.
    pub(crate) fn get(&self, view: &View<'a>, name: &str) -> View<'a> {
        let View::Node(node, path) = view else {
            return view.clone();
        };
        if node.intrinsic().is_some() {
            return View::Unknown;
        }
        // A macro, an include or a merge key may add this entry.
        let is_open = |entry: &Entry| entry.key.starts_with("Fn::") || entry.key == "<<";
        match (node.get(name), &node.kind) {
            (Some(value), _) => self.resolve(value, below(path, &[name])),
            (None, Kind::Mapping { entries, .. }) if !entries.iter().any(is_open) => View::Missing,
            (None, _) => View::Unknown,
        }
    }

    /// The value at a path below `view`.
    pub(crate) fn dig(&self, view: &View<'a>, names: &[&str]) -> View<'a> {
        names
            .iter()
            .fold(view.clone(), |view, name| self.get(&view, name))
    }

    /// The values of a list. A scalar counts as a list of one. Unknown if the list or one of its values is unknown.
    pub(crate) fn list(&self, view: &View<'a>) -> Field<Vec<View<'a>>> {
        let (node, path) = match view {
            View::Missing => return Field::Missing,
            View::Unknown => return Field::Unknown,
            View::Node(node, path) => (node, path),
        };
        let Kind::Sequence { items, .. } = &node.kind else {
            return Field::Known(vec![view.clone()], place(node, path));
        };
        let items = items.iter().enumerate().map(|(index, item)| {
            let mut path = path.clone();
            path.push(Step::Index(index));
            self.resolve(item, path)
        });
        let items = items.filter(|item| !matches!(item, View::Missing));
        Field::Known(items.collect(), place(node, path))
    }

    /// The value after its conditions: that of two equal branches, or of the branch that the case decides for.
    pub(crate) fn resolve(&self, node: &'a Node, path: Path) -> View<'a> {
        if node.is_null() {
            return View::Missing;
        }
        let branches = |node: &'a Node| match &node.kind {
            Kind::Sequence { items, .. } => Some(items.as_slice()),
            _ => None,
        };
        match node.intrinsic() {
            Some(("Ref", to)) if to.scalar() == Some("AWS::NoValue") => View::Missing,
            Some(("Fn::If", arguments)) => match branches(arguments) {
                Some([condition, yes, no]) => {
                    let is_same = (yes.to_json() == no.to_json()).then_some(true);
                    let holds = || self.case.get(condition.scalar()?).copied();
                    let (index, branch) = match is_same.or_else(holds) {
                        Some(true) => (1, yes),
                        Some(false) => (2, no),
                        None => return View::Unknown,
                    };
                    let mut path = path;
                    path.extend(["Fn::If".into(), Step::Index(index)]);
                    self.resolve(branch, path)
                }
                _ => View::Unknown,
            },
            _ => View::Node(node, path),
        }
    }

    /// Whether a value is set, without its content.
    pub(crate) fn known(&self, view: &View<'a>) -> Field<()> {
        match view {
            View::Missing => Field::Missing,
            View::Unknown => Field::Unknown,
            View::Node(node, _) if node.intrinsic().is_some() => Field::Unknown,
            View::Node(node, path) => Field::Known((), place(node, path)),
        }
    }

    /// Parses a value's canonical text.
    pub(crate) fn field<T>(
        &self,
        view: &View<'a>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Field<T> {
        match view {
            View::Missing => Field::Missing,
            View::Unknown => Field::Unknown,
            View::Node(node, path) => match self.text(node).as_deref().and_then(parse) {
                Some(value) => Field::Known(value, place(node, path)),
                None => Field::Unknown,
            },
        }
    }

    /// A value as JSON, with texts as [`Evaluator::text`] returns them. A value that is unknown before the deployment is
    /// null.
    pub(crate) fn json(&self, view: &View<'a>) -> Value {
        let View::Node(node, path) = view else {
            return Value::Null;
        };
        let inner = |step: Step, value: &'a Node| {
            let mut path = path.clone();
            path.push(step);
            self.json(&self.resolve(value, path))
        };
        match &node.kind {
            Kind::Sequence { items, .. } => {
                let items = items.iter().enumerate();
                items
                    .map(|(at, item)| inner(Step::Index(at), item))
                    .collect()
            }
            Kind::Mapping { entries, .. } if node.intrinsic().is_none() => {
                let entries = entries.iter();
                let pairs = entries.map(|it| (it.key.clone(), inner((&*it.key).into(), &it.value)));
                Value::Object(pairs.collect())
            }
            _ => {
                let is_known =
                    |text: &String| !text.contains("${") || self.target_of(text).is_some();
                let text = self.text(node).filter(is_known);
                text.map_or(Value::Null, Value::String)
            }
        }
    }

    /// A text without references.
    pub(crate) fn literal(&self, view: &View<'a>) -> Field<String> {
        self.field(view, literal)
    }

    /// The resource that a value refers to.
    pub(crate) fn target(&self, view: &View<'a>) -> Field<Target> {
        self.field(view, |text| self.target_of(text))
    }

    /// The literal text of the entry `name`.
    pub(crate) fn literal_at(&self, view: &View<'a>, name: &str) -> Field<String> {
        self.literal(&self.get(view, name))
    }

    /// The resource that the entry `name` refers to.
    pub(crate) fn target_at(&self, view: &View<'a>, name: &str) -> Field<Target> {
        self.target(&self.get(view, name))
    }

    /// The canonical text of a value that is set and known.
    pub(crate) fn view_text(&self, view: &View<'a>) -> Option<String> {
        match view {
            View::Node(node, _) => self.text(node),
            _ => None,
        }
    }

    /// The resource that a name, an ARN or a URL refers to.
    pub(crate) fn target_of(&self, text: &str) -> Option<Target> {
        let own = |text: &str| {
            let (id, _) = referred(text)?;
            let is_known = self.resources.contains_key(id);
            is_known.then(|| Target::Own(id.to_owned()))
        };
        let text = without_alias(text);
        if let Some(target) = own(text) {
            return Some(target);
        }
        // ARNs and URLs end in the resource's name.
        let name = match text.starts_with("arn:") || text.starts_with("http") {
            true => name_at_the_end(text),
            false => text,
        };
        if let Some(target) = own(name) {
            return Some(target);
        }
        if let Some(ids) = self.names.get(name) {
            return Some(Target::one_of(ids.clone(), text));
        }
        // A text with references may be the name of any resource.
        (!name.contains("${")).then(|| Target::Other(text.to_owned()))
    }

    /// A text with the defaults of the parameters that it refers to.
    fn defaulted(&self, text: String) -> String {
        let parameters = self.defaults.iter();
        parameters.fold(text, |text, (name, default)| text.replace(name, default))
    }

    fn kind(&self, id: &str) -> Option<&str> {
        self.resources.get(id)?.get("Type")?.scalar()
    }

    /// Whether a text is an ARN, a URL or a name, as far as that is known.
    pub(crate) fn form(&self, text: &str) -> Option<Form> {
        match referred(text) {
            Some((_, "Arn")) => Some(Form::Arn),
            Some((_, "QueueName")) => Some(Form::Name),
            Some((id, "" | "QueueUrl")) => match self.kind(id)? {
                "AWS::SQS::Queue" => Some(Form::Url),
                "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" | "AWS::KMS::Key" => {
                    Some(Form::Name)
                }
                _ => None,
            },
            Some(_) => None,
            None => Form::of(text),
        }
    }

    /// A reference to a queue, which needs this form.
    pub(crate) fn reference(&self, site: &Site, view: &View<'a>, wanted: Form) -> Reference {
        let value = self.field(view, |text| Some(text.to_owned()));
        let text = value.known().map_or("", String::as_str);
        let other = referred(text).filter(|(id, _)| match self.kind(id) {
            Some(kind) => kind != "AWS::SQS::Queue",
            None => self.absent.contains(id),
        });
        Reference {
            site: site.clone(),
            wanted,
            found: self.form(text),
            other: other.map(|(id, _)| id.to_owned()),
            target: self.target(view),
            value,
        }
    }

    /// The canonical text of a scalar or an intrinsic function. `None` if it is unknown.
    pub(crate) fn text(&self, node: &Node) -> Option<String> {
        if let Some(text) = node.scalar() {
            return (!text.contains("{{resolve:")).then(|| text.replace("${", "${!"));
        }
        let (function, argument) = node.intrinsic()?;
        let list = match &argument.kind {
            Kind::Sequence { items, .. } => items.as_slice(),
            _ => &[],
        };
        match (function, list) {
            ("Fn::GetAtt", [resource, attribute]) => {
                let (resource, attribute) = (resource.scalar()?, attribute.scalar()?);
                Some(format!("${{{resource}.{attribute}}}"))
            }
            ("Ref" | "Fn::GetAtt", _) => {
                Some(self.defaulted(format!("${{{}}}", argument.scalar()?)))
            }
            ("Fn::Sub", [text, variables]) => {
                let mut text = text.scalar()?.to_owned();
                for variable in variables.entries() {
                    let value = self.text(&variable.value)?;
                    text = text.replace(&format!("${{{}}}", variable.key), &value);
                }
                Some(self.defaulted(text))
            }
            ("Fn::Sub", _) => Some(self.defaulted(argument.scalar()?.to_owned())),
            ("Fn::Join", [separator, parts]) => {
                let Kind::Sequence { items, .. } = &parts.kind else {
                    return None;
                };
                let parts = items.iter().map(|part| self.text(part));
                Some(parts.collect::<Option<Vec<_>>>()?.join(separator.scalar()?))
            }
            _ => None,
        }
    }
}

/// The reference to a parameter, and its default. The default of a parameter of the Systems Manager is another name, and
/// an empty one stands for no value.
fn default(parameter: &Entry) -> Option<(String, &str)> {
    let kind = parameter.value.get("Type").and_then(Node::scalar);
    let default = parameter.value.get("Default")?.scalar()?;
    let is_value = !default.is_empty() && !kind.is_some_and(|it| it.starts_with("AWS::SSM::"));
    is_value.then(|| (format!("${{{}}}", parameter.key), default))
}

/// The name or the reference of a function, without the alias or version that follows it.
fn without_alias(text: &str) -> &str {
    let function = text.rsplit_once(":function:").map_or(text, |(_, it)| it);
    match function.find("}:") {
        Some(end) if function.starts_with("${") => &function[..=end],
        _ if function.len() < text.len() => function.split(':').next().unwrap_or(function),
        _ => text,
    }
}

/// The resource of a text that is nothing but a reference, and the attribute.
fn referred(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    Some(inside.split_once('.').unwrap_or((inside, "")))
}

/// Returns `orders` for `arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:orders`. Skips `:` and `/` inside `${…}`.
fn name_at_the_end(text: &str) -> &str {
    let mut depth = 0usize;
    let mut start = 0;
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' | '/' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &text[start..]
}

pub(crate) fn place(node: &Node, path: &Path) -> Place {
    place_at(path, node.line, node.column)
}

pub(crate) fn place_at(path: &Path, line: usize, column: usize) -> Place {
    let resource = match path.get(1) {
        Some(Step::Key(id)) => id.clone(),
        _ => String::new(),
    };
    Place {
        resource,
        position: NonZeroUsize::new(line).zip(NonZeroUsize::new(column + 1)),
        path: path.clone(),
    }
}
