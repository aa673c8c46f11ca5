//! The contents of a block: arguments, nested blocks, and the number of its instances.

use super::expression::resolve;
use hcl::eval::{Context, Evaluate};
use hcl::{Block, Body, Expression, Map, Value};
use serde_json::{Value as Json, json};

/// More instances than a real module has.
const MOST_INSTANCES: usize = 1000;
/// Arguments for Terraform, not for the provider.
const META: [&str; 8] = [
    "count",
    "for_each",
    "provider",
    "depends_on",
    "lifecycle",
    "provisioner",
    "connection",
    "timeouts",
];

/// An instance of a resource or module: its index in an address, and what expressions in it can refer to.
pub(super) struct Instance {
    /// Empty for a block without `count` and `for_each`.
    pub(super) index: String,
    pub(super) key: Option<Value>,
    /// `count` or `each`, and its value.
    variable: Option<(&'static str, Value)>,
}

impl Instance {
    /// The context of the instance's expressions, which can refer to `count` or `each`.
    pub(super) fn context<'a>(&self, context: &Context<'a>) -> Context<'a> {
        let name = self.variable.as_ref().map_or("", |(name, _)| name);
        self.context_with(context, name)
    }

    /// The context in a dynamic block, which names its iterator.
    fn context_with<'a>(&self, context: &Context<'a>, iterator: &str) -> Context<'a> {
        let mut context = context.clone();
        if let Some((_, value)) = &self.variable {
            context.declare_var(hcl::Identifier::sanitized(iterator), value.clone());
        }
        context
    }
}

/// The instances of a block. `None` if their number is unknown.
pub(super) fn instances(body: &Body, context: &Context<'_>) -> Option<Vec<Instance>> {
    if let Some(count) = attribute(body, "count") {
        let count = usize::try_from(value(count, context)?.as_u64()?).ok();
        let count = count.filter(|it| *it <= MOST_INSTANCES)?;
        let instance = |number: usize| Instance {
            index: format!("[{number}]"),
            key: Some(number.into()),
            variable: Some(("count", Value::from_iter([("index", number)]))),
        };
        return Some((0..count).map(instance).collect());
    }
    let Some(each) = attribute(body, "for_each") else {
        return Some(vec![Instance {
            index: String::new(),
            key: None,
            variable: None,
        }]);
    };
    // Terraform takes lists in dynamic blocks only, and their keys are numbers.
    let is_dynamic = content(body).is_some();
    let entries: Vec<(String, Value)> = match value(each, context)? {
        Value::Object(entries) => entries.into_iter().collect(),
        Value::Array(values) if is_dynamic => {
            let values = values.into_iter().enumerate();
            values.map(|(at, value)| (at.to_string(), value)).collect()
        }
        Value::Array(keys) => {
            let keys = keys.into_iter();
            let entry = |key: Value| Some((key.as_str()?.to_owned(), key));
            keys.map(entry).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let instance = |(key, value): (String, Value)| {
        let each = Value::from_iter([("key", key.clone().into()), ("value", value)]);
        Instance {
            index: format!("[{}]", Json::from(&*key)),
            variable: Some(("each", each)),
            key: Some(key.into()),
        }
    };
    Some(entries.into_iter().map(instance).collect())
}

/// What a dynamic block repeats.
fn content(body: &Body) -> Option<&Body> {
    let mut blocks = body.blocks();
    let content = blocks.find(|it| it.identifier() == "content");
    content.map(Block::body)
}

pub(super) fn attribute<'a>(body: &'a Body, name: &str) -> Option<&'a Expression> {
    let mut attributes = body.attributes();
    let found = attributes.find(|it| it.key.as_str() == name);
    found.map(|it| &it.expr)
}

/// Evaluates an expression. `None` if it refers to something unknown.
pub(super) fn value(expression: &Expression, context: &Context<'_>) -> Option<Value> {
    let mut expression = expression.clone();
    resolve(&mut expression, context);
    expression.evaluate(context).ok()
}

/// A value, and what is unknown of it, as a plan's `after_unknown` has it.
fn partly(expression: &Expression, context: &Context<'_>) -> (Option<Value>, Json) {
    match (value(expression, context), expression) {
        (Some(known), _) => (Some(known), Json::Null),
        (None, Expression::Parenthesis(inner)) => partly(inner, context),
        (None, Expression::Object(object)) => {
            let mut known = Map::new();
            let mut unknown = serde_json::Map::new();
            for (key, expression) in object {
                let key = match key {
                    hcl::expr::ObjectKey::Expression(key) => {
                        value(key, context).and_then(|it| it.as_str().map(str::to_owned))
                    }
                    name => Some(name.to_string()),
                };
                let Some(key) = key else {
                    return (None, true.into());
                };
                let (value, inner) = partly(expression, context);
                known.extend(value.map(|value| (key.clone(), value)));
                if !inner.is_null() {
                    unknown.insert(key, inner);
                }
            }
            (Some(known.into()), unknown.into())
        }
        (None, _) => (None, true.into()),
    }
}

/// Values, and what is unknown of them.
type Arguments = (Map<String, Value>, serde_json::Map<String, Json>);

/// The arguments and blocks of a resource, and what is unknown of them.
pub(super) fn arguments(body: &Body, context: &Context<'_>) -> Arguments {
    let mut known = Map::new();
    let mut unknown = serde_json::Map::new();
    let mut add = |name: &str, (values, unknown_values): Arguments| {
        let none = || Value::Array(Vec::new());
        if let Value::Array(all) = known.entry(name.to_owned()).or_insert_with(none) {
            all.push(values.into());
        }
        if let Json::Array(all) = unknown.entry(name).or_insert(json!([])) {
            all.push(unknown_values.into());
        }
    };
    let mut unknown_blocks = Vec::new();
    for block in body.blocks().filter(|it| !META.contains(&it.identifier())) {
        if block.identifier() != "dynamic" {
            add(block.identifier(), arguments(block.body(), context));
            continue;
        }
        let Some(name) = block.labels().first().map(|it| it.as_str()) else {
            continue;
        };
        let iterator = match attribute(block.body(), "iterator") {
            Some(Expression::Variable(iterator)) => iterator.to_string(),
            _ => name.to_owned(),
        };
        let both = content(block.body()).zip(instances(block.body(), context));
        let Some((content, instances)) = both else {
            unknown_blocks.push(name.to_owned());
            continue;
        };
        for instance in instances {
            let context = instance.context_with(context, &iterator);
            add(name, arguments(content, &context));
        }
    }
    unknown.extend(unknown_blocks.into_iter().map(|name| (name, true.into())));
    for attribute in body.attributes() {
        let name = attribute.key.as_str();
        if META.contains(&name) {
            continue;
        }
        let (value, inner) = partly(&attribute.expr, context);
        known.extend(value.map(|value| (name.to_owned(), value)));
        if !inner.is_null() {
            unknown.insert(name.to_owned(), inner);
        }
    }
    (known, unknown)
}

/// Collects the values of instances: one value, a list by number, or a map by key.
#[derive(Default)]
pub(super) struct Values(Option<Value>);

impl Values {
    pub(super) fn add(&mut self, key: Option<&Value>, value: Value) {
        match (&mut self.0, key) {
            (all, None) => *all = Some(value),
            (Some(Value::Array(all)), Some(Value::Number(_))) => all.push(value),
            (all, Some(Value::Number(_))) => *all = Some(Value::Array(vec![value])),
            (Some(Value::Object(all)), Some(key)) => {
                all.insert(key.as_str().unwrap_or_default().to_owned(), value);
            }
            (all, Some(key)) => {
                let key = key.as_str().unwrap_or_default().to_owned();
                *all = Some(Map::from_iter([(key, value)]).into());
            }
        }
    }

    pub(super) fn done(self) -> Value {
        self.0.unwrap_or_else(|| Value::Array(Vec::new()))
    }
}
