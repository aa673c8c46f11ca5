//! Expressions of Terraform's language: what they can refer to, and functions that need more than their arguments.

use super::functions;
use hcl::eval::{Context, Evaluate};
use hcl::expr::{FuncCall, ObjectKey, Operation, TraversalOperator};
use hcl::{Expression, Map, Value};
use serde_json::json;

/// A context in which expressions can refer to the values of `scope`, and call Terraform's functions.
pub(super) fn context(scope: &Map<String, Value>) -> Context<'static> {
    let mut context = Context::new();
    functions::declare(&mut context);
    for (name, value) in scope {
        context.declare_var(hcl::Identifier::sanitized(name), value.clone());
    }
    context
}

/// Replaces calls of `try` and `can` by their values. They accept an argument that has no value, unlike other functions.
pub(super) fn resolve(expression: &mut Expression, context: &Context<'_>) {
    match expression {
        Expression::Array(all) => all.iter_mut().for_each(|it| resolve(it, context)),
        Expression::Object(entries) => {
            entries.values_mut().for_each(|it| resolve(it, context));
        }
        Expression::Parenthesis(inner) => resolve(inner, context),
        Expression::Conditional(conditional) => {
            resolve(&mut conditional.cond_expr, context);
            resolve(&mut conditional.true_expr, context);
            resolve(&mut conditional.false_expr, context);
        }
        Expression::Operation(operation) => match &mut **operation {
            Operation::Unary(unary) => resolve(&mut unary.expr, context),
            Operation::Binary(binary) => {
                resolve(&mut binary.lhs_expr, context);
                resolve(&mut binary.rhs_expr, context);
            }
        },
        Expression::Traversal(traversal) => {
            resolve(&mut traversal.expr, context);
            for operator in &mut traversal.operators {
                if let TraversalOperator::Index(index) = operator {
                    resolve(index, context);
                }
            }
        }
        Expression::FuncCall(call) => {
            call.args.iter_mut().for_each(|it| resolve(it, context));
            let name = call.name.name.as_str();
            let mut known = call.args.iter().filter_map(|it| it.evaluate(context).ok());
            let value = match name {
                "try" => known.next(),
                "can" => Some(known.next().is_some().into()),
                _ => None,
            };
            if let Some(value) = value {
                *expression = value.into();
            }
        }
        _ => {}
    }
}

/// A variable's value, with the optional attributes of its type that the caller left out.
pub(super) fn complete(kind: &Expression, value: Value) -> Value {
    let Expression::FuncCall(call) = kind else {
        return value;
    };
    let FuncCall { name, args, .. } = &**call;
    match (name.name.as_str(), args.as_slice(), value) {
        ("object", [Expression::Object(attributes)], Value::Object(mut value)) => {
            for (name, kind) in attributes {
                let name = match name {
                    ObjectKey::Expression(Expression::String(name)) => name.clone(),
                    name => name.to_string(),
                };
                let given = value.swap_remove(&name).filter(|it| !it.is_null());
                let (kind, default) = optional(kind);
                let default = || default?.evaluate(&context(&Map::new())).ok();
                let given = given.or_else(default).unwrap_or(Value::Null);
                value.insert(name, complete(kind, given));
            }
            Value::Object(value)
        }
        ("list" | "set", [kind], Value::Array(all)) => {
            all.into_iter().map(|value| complete(kind, value)).collect()
        }
        ("map", [kind], Value::Object(all)) => {
            let entry = |(name, value)| (name, complete(kind, value));
            Value::Object(all.into_iter().map(entry).collect())
        }
        (_, _, value) => value,
    }
}

/// The type and the default in `optional(type, default)`.
fn optional(kind: &Expression) -> (&Expression, Option<&Expression>) {
    match kind {
        Expression::FuncCall(call) if call.name.name.as_str() == "optional" => {
            (call.args.first().unwrap_or(kind), call.args.get(1))
        }
        other => (other, None),
    }
}

/// The JSON of the data source `aws_iam_policy_document`. `None` if it builds on other documents.
pub(super) fn policy_document(arguments: &Map<String, Value>) -> Option<String> {
    if arguments.keys().any(|it| it.ends_with("_documents")) {
        return None;
    }
    let blocks = |of: &Map<String, Value>, name: &str| -> Vec<Map<String, Value>> {
        let blocks = of.get(name).and_then(Value::as_array);
        let blocks = blocks.into_iter().flatten();
        blocks.filter_map(Value::as_object).cloned().collect()
    };
    let mut statements = Vec::new();
    for block in blocks(arguments, "statement") {
        let mut statement = serde_json::Map::new();
        let effect = block.get("effect").and_then(Value::as_str);
        statement.insert("Effect".into(), effect.unwrap_or("Allow").into());
        for (name, element) in [
            ("sid", "Sid"),
            ("actions", "Action"),
            ("not_actions", "NotAction"),
            ("resources", "Resource"),
            ("not_resources", "NotResource"),
        ] {
            if let Some(value) = block.get(name) {
                statement.insert(element.into(), json!(value));
            }
        }
        for principal in blocks(&block, "principals") {
            let kind = principal.get("type").and_then(Value::as_str)?;
            let value = match kind {
                "*" => json!("*"),
                kind => json!({ kind: principal.get("identifiers") }),
            };
            statement.insert("Principal".into(), value);
        }
        let mut conditions = serde_json::Map::new();
        for condition in blocks(&block, "condition") {
            let text = |name: &str| condition.get(name).and_then(Value::as_str);
            let test = conditions.entry(text("test")?).or_insert(json!({}));
            test[text("variable")?] = match condition.get("values")?.as_array()?.as_slice() {
                [only] => json!(only),
                several => json!(several),
            };
        }
        if !conditions.is_empty() {
            statement.insert("Condition".into(), conditions.into());
        }
        statements.push(serde_json::Value::Object(statement));
    }
    Some(json!({ "Version": "2012-10-17", "Statement": statements }).to_string())
}
