//! Evaluates a template's values before deployment.
//!
//! Each value becomes its canonical text. References appear as `${Name}` or `${Name.Attribute}`, as in `Fn::Sub`.
//! A parameter has its default. Without one it appears the same way.

use super::conditions::Case;
use super::node::{Entry, Kind, Node};
use crate::field::{Field, Path, Place, Step};
use crate::model::{Form, Target, segments};
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
    pub(super) case: &'a Case,
    /// The resources that their conditions leave out.
    pub(super) absent: BTreeSet<&'a str>,
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
        let mut ids = self.resources.keys().copied();
        ids.find(|id| target.is(id) && self.kind(id) == Some(kind))
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
            true => segments(text, &[':', '/']).pop().unwrap_or(text),
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

    pub(super) fn kind(&self, id: &str) -> Option<&str> {
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

    /// The canonical text of a scalar or an intrinsic function. `None` if it is unknown.
    pub(crate) fn text(&self, node: &Node) -> Option<String> {
        if let Some(text) = node.scalar() {
            return (!text.contains("{{resolve:")).then(|| text.replace("${", "${!"));
        }
        let (function, argument) = node.intrinsic()?;
        match (function, argument.items()) {
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
pub(super) fn referred(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    Some(inside.split_once('.').unwrap_or((inside, "")))
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
