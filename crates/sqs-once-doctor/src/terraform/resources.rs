//! The resources of a plan and their references.

use crate::model::Target;
use serde_json::Value;
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

/// All resources of a plan.
pub(crate) struct Resources<'a> {
    pub(crate) all: Vec<Resource<'a>>,
    /// Configuration by address without index.
    configured: HashMap<String, &'a Value>,
}

/// A resource of a plan.
pub(crate) struct Resource<'a> {
    pub(crate) address: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) values: &'a Value,
    /// The values that are unknown until the apply.
    unknown: &'a Value,
}

static NOTHING: Value = Value::Null;

impl<'a> Resources<'a> {
    pub(crate) fn of(plan: &'a Value) -> Self {
        let unknown: HashMap<&str, &Value> = list(plan, "resource_changes")
            .filter_map(|change| {
                let unknown = change.get("change")?.get("after_unknown")?;
                Some((change.get("address")?.as_str()?, unknown))
            })
            .collect();
        let mut resources = Self {
            all: Vec::new(),
            configured: HashMap::new(),
        };
        if let Some(root) = plan["planned_values"].get("root_module") {
            resources.add(root, &unknown, 0);
        }
        if let Some(root) = plan["configuration"].get("root_module") {
            resources.configure(root, "", 0);
        }
        resources
    }

    fn add(&mut self, module: &'a Value, unknown: &HashMap<&str, &'a Value>, depth: usize) {
        for resource in list(module, "resources") {
            let text = |name: &str| resource.get(name).and_then(Value::as_str);
            let (Some(address), Some(kind)) = (text("address"), text("type")) else {
                continue;
            };
            if text("mode") == Some("managed") {
                self.all.push(Resource {
                    address,
                    kind,
                    values: resource.get("values").unwrap_or(&NOTHING),
                    unknown: unknown.get(address).copied().unwrap_or(&NOTHING),
                });
            }
        }
        for child in list(module, "child_modules").filter(|_| depth < DEEPEST) {
            self.add(child, unknown, depth + 1);
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

    pub(crate) fn kind(&self, address: &str) -> Option<&str> {
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
            ["arn", "url", "id", "name", "function_name", "invoke_arn"]
                .iter()
                .any(|name| {
                    let value = resource.values.get(name).and_then(Value::as_str);
                    value == Some(text)
                })
        };
        let is_relevant = |resource: &&Resource<'_>| {
            matches!(
                resource.kind,
                "aws_sqs_queue"
                    | "aws_lambda_function"
                    | "aws_dynamodb_table"
                    | "aws_iam_role"
                    | "aws_iam_policy"
            )
        };
        let named = self.all.iter().filter(is_relevant).filter(is_named);
        Target::one_of(named.map(|it| it.address.to_owned()).collect(), text)
    }

    /// The only resource that an attribute's expression refers to.
    pub(crate) fn referred(&self, from: &Resource<'_>, path: &[&str]) -> Option<String> {
        let mut referred = self.all_referred(from, path);
        referred.dedup();
        match referred.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// The only resource of a kind that an attribute's expression refers to. Resources of other kinds are ignored.
    pub(crate) fn only_referred(
        &self,
        from: &Resource<'_>,
        path: &[&str],
        kind: &str,
    ) -> Option<String> {
        let mut referred = self.all_referred(from, path);
        referred.retain(|address| self.kind(address) == Some(kind));
        referred.dedup();
        match referred.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    fn all_referred(&self, from: &Resource<'_>, path: &[&str]) -> Vec<String> {
        let (module, _) = split(from.address);
        let configured = self.configured.get(&without_indexes(from.address));
        let Some(mut expression) = configured.and_then(|it| it.get("expressions")) else {
            return Vec::new();
        };
        for name in path {
            if let Value::Array(blocks) = expression {
                expression = blocks.first().unwrap_or(&NOTHING);
            }
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
            let wanted = format!("{module}{kind}.{name}");
            let exact: Vec<&Resource<'_>> = self
                .all
                .iter()
                .filter(|it| {
                    it.address == wanted
                        || without_last_index(it.address) == without_last_index(&wanted)
                })
                .collect();
            let index = from.address.find('[').map(|at| &from.address[at..]);
            let found = match exact.as_slice() {
                [only] => Some(only),
                several => several.iter().find(|it| {
                    it.address == wanted
                        || (index.is_some()
                            && it.address.find('[').map(|at| &it.address[at..]) == index)
                }),
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
    /// Whether a value, or a value that contains it, is unknown until the apply.
    pub(crate) fn is_unknown(&self, path: &[&str]) -> bool {
        let mut unknown = self.unknown;
        for name in path {
            if let Value::Array(blocks) = unknown {
                unknown = blocks.first().unwrap_or(&NOTHING);
            }
            if unknown == &Value::Bool(true) {
                return true;
            }
            unknown = unknown.get(name).unwrap_or(&NOTHING);
        }
        unknown == &Value::Bool(true)
    }

    /// The keys of a map whose values are unknown until the apply.
    pub(crate) fn unknown_keys(&self, path: &[&str]) -> Vec<String> {
        let mut unknown = self.unknown;
        for name in path {
            if let Value::Array(blocks) = unknown {
                unknown = blocks.first().unwrap_or(&NOTHING);
            }
            unknown = unknown.get(name).unwrap_or(&NOTHING);
        }
        let keys = unknown.as_object().into_iter().flatten();
        keys.filter(|(_, is_unknown)| **is_unknown == Value::Bool(true))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

fn collect<'a>(expression: &'a Value, references: &mut Vec<&'a str>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    match expression {
        Value::Object(entries) => {
            for (name, value) in entries {
                match (name.as_str(), value) {
                    ("references", Value::Array(all)) => {
                        references.extend(all.iter().filter_map(Value::as_str));
                    }
                    (_, value) => collect(value, references, depth + 1),
                }
            }
        }
        Value::Array(all) => {
            for value in all {
                collect(value, references, depth + 1);
            }
        }
        _ => {}
    }
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Splits an address into its module prefix, with the final dot, and the rest.
fn split(address: &str) -> (&str, &str) {
    let mut at = 0;
    while let Some(rest) = address[at..].strip_prefix("module.") {
        let end = name_end(rest);
        at += "module.".len() + end + 1;
        if at >= address.len() {
            return ("", address);
        }
    }
    address.split_at(at)
}

/// The end of an address's first name and its index. An index may contain dots.
fn name_end(address: &str) -> usize {
    let mut is_quoted = false;
    for (at, char) in address.char_indices() {
        match char {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => return at,
            _ => {}
        }
    }
    address.len()
}

fn without_indexes(address: &str) -> String {
    let mut depth = 0usize;
    address
        .chars()
        .filter(|char| match char {
            '[' => {
                depth += 1;
                false
            }
            ']' => {
                depth = depth.saturating_sub(1);
                false
            }
            _ => depth == 0,
        })
        .collect()
}

fn without_last_index(address: &str) -> &str {
    match address.ends_with(']') {
        true => address.rfind('[').map_or(address, |at| &address[..at]),
        false => address,
    }
}
