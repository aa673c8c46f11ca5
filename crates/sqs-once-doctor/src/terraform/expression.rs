//! Expressions of Terraform's language: what they can refer to, and functions that need more than their arguments.

use super::functions;
use super::resources::list;
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
    let arguments = json!(arguments);
    let mut statements = Vec::new();
    for block in list(&arguments, "statement") {
        let mut statement = json!({ "Effect": block["effect"].as_str().unwrap_or("Allow") });
        for (name, element) in [
            ("sid", "Sid"),
            ("actions", "Action"),
            ("not_actions", "NotAction"),
            ("resources", "Resource"),
            ("not_resources", "NotResource"),
        ] {
            if let Some(value) = block.get(name) {
                statement[element] = value.clone();
            }
        }
        for principal in list(block, "principals") {
            statement["Principal"] = match principal["type"].as_str()? {
                "*" => json!("*"),
                kind => json!({ kind: principal.get("identifiers") }),
            };
        }
        for condition in list(block, "condition") {
            let test = condition["test"].as_str()?;
            let variable = condition["variable"].as_str()?;
            let values = condition["values"].as_array()?;
            statement["Condition"][test][variable] = match values.as_slice() {
                [only] => only.clone(),
                several => json!(several),
            };
        }
        statements.push(statement);
    }
    Some(json!({ "Version": "2012-10-17", "Statement": statements }).to_string())
}
