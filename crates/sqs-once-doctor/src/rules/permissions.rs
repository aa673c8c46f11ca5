//! Permissions of the function's role.

use super::{Problem, found};
use crate::consumers::Consumer;
use crate::field::below;
use crate::model::{Deployment, Extend, Function, Scope, Statement};
use crate::remedy::Remedy;
use crate::template::Change;
use serde_json::{Value, json};
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

/// The request for a body that is in S3.
const BODY: &str = "s3:GetObject";

/// A resource that a consumer uses.
pub(super) struct Need {
    pub(super) resource: String,
    pub(super) actions: Vec<&'static str>,
    /// Who needs the actions, and for what.
    pub(super) purpose: &'static str,
}

pub(super) fn missing(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let Some(function) = consumer.function else {
            continue;
        };
        let needed = needed(deployment, &consumer, function);
        problems.extend(needed.into_iter().filter_map(|it| lacking(function, it)));
        problems.extend(table_elsewhere(deployment, function));
        problems.extend(queue_elsewhere(&consumer, function));
    }
    problems
}

/// The queue may be any. No policy can cover it without an action of SQS.
fn queue_elsewhere(consumer: &Consumer<'_>, function: &Function) -> Option<Problem> {
    let mut actions = POLLER.to_vec();
    actions.retain(|action| !function.permissions.may_somewhere(action));
    let need = Need {
        resource: format!("the queue of {}", consumer.mapping.site.id),
        actions,
        purpose: "Lambda polls the queue with the role.",
    };
    let is_found = consumer.queue.is_none() && !need.actions.is_empty();
    let arn = json!("ARN of the queue");
    is_found.then(|| problem(function, &need, arn, "\"ARN of the queue\"").automatic_if(false))
}

/// Finds the tables of the deployment in a function's environment that its role may not use.
pub(super) fn own_tables(deployment: &Deployment) -> Vec<Problem> {
    let functions = deployment.consuming_functions();
    let named = functions.flat_map(|it| it.references.iter().map(move |named| (it, named)));
    found(named, |(function, (name, target))| {
        let id = &deployment.table(target)?.site.id;
        let message = format!(
            "The role of the function {} allows no action on the table {id}, which {name} names.",
            function.site.id
        );
        let remedy = Remedy::Advice(
            "Allow the role the actions that the function uses, such as dynamodb:PutItem.\n\
             Or accept it: --allow table-not-granted",
        );
        let is_fine = name == "SQS_ONCE_TABLE" || function.permissions.may_use_table(id);
        (!is_fine).then(|| Problem::at(&function.site.place, message, remedy))
    })
}

/// A problem if the function's role lacks some of the actions.
pub(super) fn lacking(function: &Function, mut need: Need) -> Option<Problem> {
    let may = |action: &&str| function.permissions.may(action, &need.resource);
    need.actions.retain(|action| !may(action));
    let arn = json!({ "Fn::GetAtt": [need.resource, "Arn"] });
    let hcl = format!("{}.arn", need.resource);
    (!need.actions.is_empty()).then(|| problem(function, &need, arn, &hcl))
}

/// The table's name may be that of a table elsewhere. No policy can cover it without an action of DynamoDB.
fn table_elsewhere(deployment: &Deployment, function: &Function) -> Option<Problem> {
    let variable = function.environment.get("SQS_ONCE_TABLE")?;
    let own = deployment.table(function.reference("SQS_ONCE_TABLE"));
    let mut actions = TABLE.iter();
    if own.is_some() || actions.any(|it| function.permissions.may_somewhere(it)) {
        return None;
    }
    let name = variable.known().map_or("NAME", String::as_str);
    let arn = format!(
        "arn:${{AWS::Partition}}:dynamodb:${{AWS::Region}}:${{AWS::AccountId}}:table/{name}"
    );
    let need = Need {
        resource: format!("the table {name}"),
        actions: [TABLE, BATCHES].concat(),
        purpose: "The function claims each message's key there.",
    };
    let hcl = format!("\"arn:aws:dynamodb:REGION:ACCOUNT:table/{name}\"");
    let problem = problem(function, &need, json!({ "Fn::Sub": arn }), &hcl);
    Some(problem.automatic_if(variable.known().is_some()))
}

/// A problem if the function's role can't fetch the bodies of large messages. The variable names them as a policy does,
/// `ARN=BUCKET/PREFIX/*`, but a policy may use other wildcards, so any object will do.
pub(super) fn bodies(function: &Function) -> Option<Problem> {
    let variable = function.environment.get("SQS_ONCE_LARGE_MESSAGES")?;
    if function.permissions.may_somewhere(BODY) {
        return None;
    }
    let text = variable.known().map_or("=NAME/*", String::as_str);
    let entries = text.split(|c: char| c == ',' || c.is_whitespace());
    let objects = entries.filter_map(|it| Some(it.split_once('=')?.1));
    let objects: Vec<&str> = objects.collect();
    let need = Need {
        resource: format!("the objects {}", objects.join(", ")),
        actions: vec![BODY],
        purpose: "The function fetches the bodies of large messages there.",
    };
    let arn = |it: &&str| json!({ "Fn::Sub": format!("arn:${{AWS::Partition}}:s3:::{it}") });
    let arns: Vec<Value> = objects.iter().map(arn).collect();
    let hcl = objects.iter().map(|it| format!("\"arn:aws:s3:::{it}\""));
    let hcl: Vec<String> = hcl.collect();
    let problem = problem(function, &need, json!(arns), &hcl.join(", "));
    // A policy names the objects of an access point in another way.
    let is_plain = !objects.is_empty() && !objects.iter().any(|it| it.starts_with("arn:"));
    Some(problem.automatic_if(variable.known().is_some() && is_plain))
}

/// The resources that a consumer uses, and the actions that it needs on them.
fn needed(deployment: &Deployment, consumer: &Consumer<'_>, function: &Function) -> Vec<Need> {
    let mut needed = Vec::new();
    let mut add = |resource: &str, actions, purpose| {
        needed.push(Need {
            resource: resource.to_owned(),
            actions,
            purpose,
        });
    };
    if let Some(queue) = consumer.queue {
        let purpose = "Lambda polls the queue with the role, and a breaker reads its settings.";
        add(&queue.site.id, POLLER.to_vec(), purpose);
        if function.environment.contains_key("SQS_ONCE_DLQ_URL") {
            // The feature `sqs` is on.
            let purpose = "The function delays the messages that another worker holds.";
            add(&queue.site.id, vec!["sqs:ChangeMessageVisibility"], purpose);
        }
    }
    if let Some(queue) = deployment.sent_to(consumer) {
        let purpose = "The function sends terminal messages there.";
        add(&queue.site.id, vec!["sqs:SendMessage"], purpose);
    }
    if let Some(table) = deployment.table(function.reference("SQS_ONCE_TABLE")) {
        let mut actions = TABLE.to_vec();
        let granted: BTreeSet<&str> = function.permissions.on(&table.site.id).collect();
        let is_transactional = granted == BTreeSet::from(TABLE);
        if !is_transactional {
            actions.extend(BATCHES);
        }
        let purpose = "The function claims each message's key there.";
        add(&table.site.id, actions, purpose);
    }
    needed
}

fn problem(function: &Function, need: &Need, arn: Value, hcl: &str) -> Problem {
    let missing = &need.actions;
    let statement = json!({ "Effect": "Allow", "Action": missing, "Resource": arn });
    let policy = json!({ "Version": "2012-10-17", "Statement": [statement] });
    let change = match &function.permissions.extend {
        Some(Extend::Statements(path)) => Change::Append(path.clone(), statement),
        Some(Extend::SamPolicies(path)) => Change::Append(path.clone(), policy),
        None => Change::Append(below(&function.site.properties, &["Policies"]), policy),
    };
    let hcl = format!("statement {{\n  actions   = {missing:?}\n  resources = [{hcl}]\n}}");
    let can_extend = function.permissions.extend.is_some();
    let message = format!(
        "The role of the function {} does not allow {} on {}. {}",
        function.site.id,
        missing.join(", "),
        need.resource,
        need.purpose
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
    let id = &function.site.id;
    let message = format!("The role of the function {id} allows {what}.");
    // The function may need other actions too, so the user must decide.
    let remedy = Remedy::changes(vec![Change::Append(path, table)], hcl).automatic_if(false);
    Some(Problem::at(&statement.place, message, remedy))
}
