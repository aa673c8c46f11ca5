//! The resources of a plan and their references.

use crate::model::Target;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Deeper than real module nesting.
const DEEPEST: usize = 50;

/// Attributes that the provider computes if the configuration omits them. A plan reports them as unknown.
const FILLED_IN: [&str; 5] = [
    "policy",
    "redrive_policy",
    "sqs_managed_sse_enabled",
    "managed_policy_arns",
    "inline_policy",
];

/// Attributes that identify a resource.
const NAMES: [&str; 7] = [
    "arn",
    "url",
    "id",
    "name",
    "function_name",
    "invoke_arn",
    "qualified_arn",
];

/// All resources of a plan.
pub(crate) struct Resources<'a> {
    pub(crate) all: Vec<Resource<'a>>,
    /// Configuration by address without index.
    configured: HashMap<String, &'a Value>,
}

/// A resource of a plan.
pub(crate) struct Resource<'a> {
    pub(crate) address: &'a str,
    /// The start of the address that all resources of its module share.
    module: String,
    pub(crate) kind: &'a str,
    name: &'a str,
    index: Option<&'a Value>,
    pub(crate) values: &'a Value,
    /// The values that are unknown until the apply.
    unknown: &'a Value,
    /// Whether the plan deletes it and then creates it anew.
    pub(crate) is_replaced: bool,
}

static NOTHING: Value = Value::Null;

/// The first of several blocks. Any other value as it is.
pub(crate) fn block(value: &Value) -> &Value {
    match value {
        Value::Array(blocks) => blocks.first().unwrap_or(&NOTHING),
        other => other,
    }
}

impl<'a> Resources<'a> {
    pub(crate) fn of(plan: &'a Value) -> Self {
        let changes: HashMap<&str, &Value> = list(plan, "resource_changes")
            .filter_map(|change| Some((change.get("address")?.as_str()?, change.get("change")?)))
            .collect();
        let mut resources = Self {
            all: Vec::new(),
            configured: HashMap::new(),
        };
        if let Some(root) = plan["planned_values"].get("root_module") {
            resources.add(root, &changes, 0);
        }
        if let Some(root) = plan["configuration"].get("root_module") {
            resources.configure(root, "", 0);
        }
        resources
    }

    fn add(&mut self, module: &'a Value, changes: &HashMap<&str, &'a Value>, depth: usize) {
        let prefix = module.get("address").and_then(Value::as_str);
        let prefix = prefix.map_or_else(String::new, |address| format!("{address}."));
        for resource in list(module, "resources") {
            let text = |name: &str| resource.get(name).and_then(Value::as_str);
            if let (Some(address), Some(kind), Some(name)) =
                (text("address"), text("type"), text("name"))
                && text("mode") == Some("managed")
            {
                let change = changes.get(address).copied().unwrap_or(&NOTHING);
                self.all.push(Resource {
                    address,
                    module: prefix.clone(),
                    kind,
                    name,
                    index: resource.get("index"),
                    values: resource.get("values").unwrap_or(&NOTHING),
                    unknown: &change["after_unknown"],
                    is_replaced: change["actions"] == json!(["delete", "create"]),
                });
            }
        }
        for child in list(module, "child_modules").filter(|_| depth < DEEPEST) {
            self.add(child, changes, depth + 1);
        }
    }

    fn configure(&mut self, module: &'a Value, prefix: &str, depth: usize) {
        for resource in list(module, "resources") {
            if let Some(address) = resource.get("address").and_then(Value::as_str) {
                self.configured
                    .insert(format!("{prefix}{address}"), resource);
            }
        }
        let calls = module.get("module_calls").and_then(Value::as_object);
        for (name, call) in calls.into_iter().flatten().filter(|_| depth < DEEPEST) {
            if let Some(module) = call.get("module") {
                self.configure(module, &format!("{prefix}module.{name}."), depth + 1);
            }
        }
    }

    fn kind(&self, address: &str) -> Option<&str> {
        let resource = self.all.iter().find(|it| it.address == address)?;
        Some(resource.kind)
    }

    /// The resource of this kind that a value refers to.
    pub(crate) fn of_kind(&self, target: &Target, kind: &str) -> Option<&Resource<'a>> {
        let mut all = self.all.iter();
        all.find(|it| it.kind == kind && target.is(it.address))
    }

    /// Whether the configuration omits this attribute, so that it is unknown only because the provider computes it.
    pub(crate) fn leaves_out(&self, resource: &Resource<'_>, name: &str) -> bool {
        let configured = self.configured.get(&without_indexes(resource.address));
        let expressions = configured.and_then(|it| it.get("expressions"));
        FILLED_IN.contains(&name)
            && expressions.is_some_and(|expressions| expressions.get(name).is_none())
    }

    /// The resource that has this name, ARN or URL.
    pub(crate) fn named(&self, text: &str) -> Target {
        let is_named = |resource: &&Resource<'_>| {
            let mut names = NAMES.iter();
            names.any(|name| resource.values.get(name).and_then(Value::as_str) == Some(text))
                || text == format!("${{{}.name}}", resource.address)
        };
        let is_relevant = |resource: &&Resource<'_>| {
            matches!(
                resource.kind,
                "aws_sqs_queue"
                    | "aws_lambda_function"
                    | "aws_lambda_alias"
                    | "aws_dynamodb_table"
                    | "aws_iam_role"
                    | "aws_iam_policy"
                    | "aws_kms_key"
                    | "aws_kms_alias"
                    | "awscc_eventsv2_event_bus"
            )
        };
        let named = self.all.iter().filter(is_relevant).filter(is_named);
        Target::one_of(named.map(|it| it.address.to_owned()).collect(), text)
    }

    /// Whether a text has a value that only AWS knows, and names no resource.
    pub(crate) fn is_unknown(&self, text: &str) -> bool {
        text.contains("${") && matches!(self.named(text), Target::Other(_))
    }

    /// The only resource that an attribute's expression refers to. Resources of other kinds than `kind` are ignored.
    pub(crate) fn referred(
        &self,
        from: &Resource<'_>,
        path: &[&str],
        kind: Option<&str>,
    ) -> Option<String> {
        let mut referred = self.all_referred(from, path);
        referred.retain(|address| kind.is_none() || self.kind(address) == kind);
        match referred.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    fn all_referred(&self, from: &Resource<'_>, path: &[&str]) -> Vec<String> {
        let configured = self.configured.get(&without_indexes(from.address));
        let Some(mut expression) = configured.and_then(|it| it.get("expressions")) else {
            return Vec::new();
        };
        for name in path {
            expression = block(expression);
            // All keys of a map share one expression.
            match expression.get(name) {
                Some(inner) => expression = inner,
                None => break,
            }
        }
        let mut references = Vec::new();
        collect(expression, &mut references, 0);
        let mut addresses: Vec<String> = Vec::new();
        for reference in references {
            // References list `aws_sqs_queue.dlq.arn` and then its resource, `aws_sqs_queue.dlq`.
            let mut parts = reference.split('.');
            let (Some(kind), Some(name)) = (parts.next(), parts.next()) else {
                continue;
            };
            let wanted = format!("{}{kind}.{name}", from.module);
            let name = name.split('[').next().unwrap_or(name);
            let is_named =
                |it: &&Resource<'_>| it.module == from.module && it.kind == kind && it.name == name;
            let named: Vec<_> = self.all.iter().filter(is_named).collect();
            let has_index = |it: &Resource<'_>| it.index.is_some() && it.index == from.index;
            let found = match named.as_slice() {
                [only] => Some(only),
                several => several
                    .iter()
                    .find(|it| it.address == wanted || has_index(it)),
            };
            match found {
                Some(found) => addresses.push(found.address.to_owned()),
                // A variable, a local or a module may refer to any resource.
                None => return Vec::new(),
            }
        }
        addresses.sort();
        addresses.dedup();
        addresses
    }
}

impl Resource<'_> {
    /// What is unknown of a value: `true` for all of it.
    fn unknown_at(&self, path: &[&str]) -> &Value {
        let mut unknown = self.unknown;
        for name in path {
            unknown = block(unknown);
            if unknown == &Value::Bool(true) {
                return unknown;
            }
            unknown = unknown.get(name).unwrap_or(&NOTHING);
        }
        unknown
    }

    /// Whether a value, or a value that contains it, is unknown until the apply.
    pub(crate) fn is_unknown(&self, path: &[&str]) -> bool {
        self.unknown_at(path) == &Value::Bool(true)
    }

    /// The keys of a map whose values are unknown until the apply.
    pub(crate) fn unknown_keys(&self, path: &[&str]) -> Vec<String> {
        let keys = self.unknown_at(path).as_object().into_iter().flatten();
        let unknown = keys.filter(|(_, is_unknown)| **is_unknown == Value::Bool(true));
        unknown.map(|(name, _)| name.clone()).collect()
    }
}

fn collect<'a>(expression: &'a Value, references: &mut Vec<&'a str>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    for (name, value) in expression.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("references", Value::Array(all)) => {
                references.extend(all.iter().filter_map(Value::as_str));
            }
            (_, value) => collect(value, references, depth + 1),
        }
    }
    for value in expression.as_array().into_iter().flatten() {
        collect(value, references, depth + 1);
    }
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = value.get(name).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// An address without indexes, which may contain dots.
fn without_indexes(address: &str) -> String {
    let mut depth = 0usize;
    let is_outside = |char: &char| {
        depth += usize::from(*char == '[');
        let is_outside = depth == 0;
        depth = depth.saturating_sub(usize::from(*char == ']'));
        is_outside
    };
    address.chars().filter(is_outside).collect()
}
