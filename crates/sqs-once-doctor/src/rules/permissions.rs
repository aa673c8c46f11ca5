//! Permissions of the function's role.

use super::Problem;
use crate::field::below;
use crate::model::{Consumer, Deployment, Extend, Function, Scope, Statement};
use crate::remedy::Remedy;
use crate::template::Change;
use serde_json::json;
use std::collections::BTreeSet;

/// Lambda's poller uses the function's role.
const POLLER: [&str; 3] = [
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
];
/// Every consumer's requests to its table. A transactional consumer makes no others.
const TABLE: [&str; 2] = ["dynamodb:UpdateItem", "dynamodb:BatchGetItem"];
/// Further requests of batched claims and completions.
const BATCHES: [&str; 2] = ["dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"];

pub(super) fn missing(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let Some(function) = consumer.function else {
            continue;
        };
        for (resource, mut missing) in needed(deployment, &consumer, function) {
            missing.retain(|action| !function.permissions.may(action, &resource));
            if !missing.is_empty() {
                problems.push(problem(function, &resource, &missing));
            }
        }
    }
    problems
}

/// The resources that a consumer uses, and the actions that it needs on them.
fn needed(
    deployment: &Deployment,
    consumer: &Consumer<'_>,
    function: &Function,
) -> Vec<(String, Vec<&'static str>)> {
    let mut needed = Vec::new();
    let dead_letters = deployment.queue(function.reference("SQS_ONCE_DLQ_URL"));
    if let Some(queue) = consumer.queue {
        let mut actions = POLLER.to_vec();
        if function.environment.contains_key("SQS_ONCE_DLQ_URL") {
            // The feature `sqs` is on: it changes the visibility of records that another worker holds.
            actions.push("sqs:ChangeMessageVisibility");
        }
        needed.push((queue.site.id.clone(), actions));
    }
    if let Some(queue) = dead_letters {
        needed.push((queue.site.id.clone(), vec!["sqs:SendMessage"]));
    }
    let table = function.reference("SQS_ONCE_TABLE").known();
    let table = table.and_then(|it| deployment.tables.iter().find(|table| it.is(&table.site.id)));
    if let Some(table) = table {
        let mut actions = TABLE.to_vec();
        let granted: BTreeSet<&str> = function.permissions.on(&table.site.id).collect();
        let is_transactional = granted == BTreeSet::from(TABLE);
        if !is_transactional {
            actions.extend(BATCHES);
        }
        needed.push((table.site.id.clone(), actions));
    }
    needed
}

fn problem(function: &Function, resource: &str, missing: &[&str]) -> Problem {
    let statement = json!({
        "Effect": "Allow",
        "Action": missing,
        "Resource": { "Fn::GetAtt": [resource, "Arn"] },
    });
    let policy = json!({ "Version": "2012-10-17", "Statement": [statement] });
    let change = match &function.permissions.extend {
        Some(Extend::Statements(path)) => Change::Append(path.clone(), statement),
        Some(Extend::SamPolicies(path)) => Change::Append(path.clone(), policy),
        None => Change::Append(below(&function.site.properties, &["Policies"]), policy),
    };
    let hcl =
        format!("statement {{\n  actions   = {missing:?}\n  resources = [{resource}.arn]\n}}");
    let can_extend = function.permissions.extend.is_some();
    let message = format!(
        "The role of the function {} does not allow {} on {resource}.",
        function.site.id,
        missing.join(", ")
    );
    let remedy = Remedy::changes(vec![change], hcl).automatic_if(can_extend);
    Problem::at(&function.site.place, message, remedy)
}

pub(super) fn wildcard((function, statement): (&Function, &Statement)) -> Option<Problem> {
    let of_data = |action: &&String| {
        let action = action.to_ascii_lowercase();
        action == "*" || action.starts_with("sqs:") || action.starts_with("dynamodb:")
    };
    let actions: Vec<&String> = statement.actions.iter().filter(of_data).collect();
    let wide = actions.iter().find(|action| {
        ["*", "sqs:*", "dynamodb:*"].contains(&action.to_ascii_lowercase().as_str())
    });
    // These actions do not support resource-level permissions.
    let lists =
        |action: &String| action.starts_with("sqs:List") || action.starts_with("dynamodb:List");
    let on_everything = statement.resources.contains(&Scope::Everything)
        && actions.iter().any(|action| !lists(action));
    let what = match (wide, on_everything) {
        _ if !statement.allows => return None,
        (Some(action), true) => format!("{action} on every resource"),
        (Some(action), false) => action.to_string(),
        (None, true) => format!("{} on every resource", actions[0]),
        (None, false) => return None,
    };
    let of_table = [TABLE, BATCHES].concat();
    let path = below(&function.site.properties, &["Policies"]);
    let table = json!({ "Version": "2012-10-17", "Statement": [
        { "Effect": "Allow", "Action": POLLER, "Resource": "ARN of the queue" },
        { "Effect": "Allow", "Action": of_table, "Resource": "ARN of the table" },
    ] });
    let hcl = format!(
        "statement {{\n  actions   = {POLLER:?}\n  resources = [\"ARN of the queue\"]\n}}\nstatement {{\n  \
         actions   = {of_table:?}\n  resources = [\"ARN of the table\"]\n}}"
    );
    let message = format!(
        "The role of the function {} allows {what}.",
        function.site.id
    );
    // The function may need other actions too, so the user must decide.
    let remedy = Remedy::changes(vec![Change::Append(path, table)], hcl).automatic_if(false);
    Some(Problem::at(&statement.place, message, remedy))
}
