//! The permissions that IAM policies grant.

use crate::field::Place;
use crate::model::{Admitted, Permissions, Scope, Statement, Target};
use serde_json::Value;

/// Actions of a service by their names.
fn actions(service: &str, names: &str) -> Vec<String> {
    let names = names.split_whitespace();
    names.map(|name| format!("{service}:{name}")).collect()
}

/// The actions that an AWS managed policy allows on queues, tables, keys and objects. `name` is the policy's name or ARN;
/// `None` if this table does not list it.
fn managed_policy(name: &str) -> Option<Vec<String>> {
    Some(match name.rsplit('/').next().unwrap_or(name) {
        "AWSLambdaSQSQueueExecutionRole" => {
            actions("sqs", "ReceiveMessage DeleteMessage GetQueueAttributes")
        }
        "AmazonSQSFullAccess" => actions("sqs", "*"),
        "AmazonDynamoDBFullAccess" | "AmazonDynamoDBFullAccess_v2" => actions("dynamodb", "*"),
        "AdministratorAccess" => vec!["*".to_owned()],
        "PowerUserAccess" => ["sqs", "dynamodb", "kms", "s3"]
            .map(|it| format!("{it}:*"))
            .to_vec(),
        "AmazonSQSReadOnlyAccess" => actions("sqs", "GetQueueAttributes GetQueueUrl ListQueues"),
        "AmazonS3ReadOnlyAccess" => actions("s3", "GetObject ListBucket"),
        "AmazonS3FullAccess" => actions("s3", "*"),
        "AmazonDynamoDBReadOnlyAccess" => actions("dynamodb", "GetItem BatchGetItem Query"),
        "AWSLambdaBasicExecutionRole"
        | "AWSLambdaVPCAccessExecutionRole"
        | "AWSLambdaDynamoDBExecutionRole"
        | "AWSLambdaKinesisExecutionRole"
        | "AWSXRayDaemonWriteAccess"
        | "AWSXrayWriteOnlyAccess"
        | "CloudWatchLambdaInsightsExecutionRolePolicy"
        | "AmazonSNSFullAccess" => Vec::new(),
        _ => return None,
    })
}

/// The actions that a SAM policy template allows, and the parameter that names the queue, table, key or bucket.
pub(crate) fn sam_policy_template(name: &str) -> Option<(Vec<String>, &'static str)> {
    let names = match name {
        "SQSPollerPolicy" => {
            "ChangeMessageVisibility DeleteMessage GetQueueAttributes ReceiveMessage"
        }
        "SQSSendMessagePolicy" => "SendMessage",
        "DynamoDBCrudPolicy" => {
            "GetItem DeleteItem PutItem Scan Query UpdateItem BatchWriteItem BatchGetItem DescribeTable \
             ConditionCheckItem"
        }
        "DynamoDBWritePolicy" => "PutItem UpdateItem BatchWriteItem",
        "KMSDecryptPolicy" => "Decrypt",
        "KMSEncryptPolicy" => "Encrypt",
        "KMSEncryptPolicy_v2" => "Encrypt GenerateDataKey GenerateDataKeyWithoutPlaintext",
        "S3ReadPolicy" => "GetObject ListBucket",
        "S3CrudPolicy" | "S3FullAccessPolicy" => "GetObject ListBucket PutObject DeleteObject",
        "DynamoDBReadPolicy" => "GetItem Scan Query BatchGetItem DescribeTable",
        _ => return None,
    };
    Some(match &name[..3] {
        "SQS" => (actions("sqs", names), "QueueName"),
        "KMS" => (actions("kms", names), "KeyId"),
        "S3R" | "S3C" | "S3F" => (actions("s3", names), "BucketName"),
        _ => (actions("dynamodb", names), "TableName"),
    })
}

/// The scope of a statement's resource. `target` resolves a complete text to a resource.
pub(crate) fn scope(text: &str, target: impl Fn(&str) -> Option<Target>) -> Scope {
    let is_all = |service: &str, rest: &[&str]| {
        text.starts_with("arn:")
            && text.contains(service)
            && rest.iter().any(|rest| text.ends_with(rest))
    };
    if text == "*" || is_all(":sqs:", &[":*"]) || is_all(":dynamodb:", &[":*", ":table/*"]) {
        return Scope::Everything;
    }
    if text.contains('*') || text.contains('?') {
        // Indexes and streams are below a table but do not include the table.
        return match text.split_once('/') {
            Some((table, _)) if table.starts_with("${") => {
                Scope::One(Target::Other(text.to_owned()))
            }
            _ => Scope::Unknown,
        };
    }
    target(text).map_or(Scope::Unknown, Scope::One)
}

impl Permissions {
    /// No permissions yet, of which every one will be read.
    pub(crate) fn complete() -> Self {
        Self {
            is_complete: true,
            ..Self::default()
        }
    }

    /// Adds the AWS managed policy of this name or ARN. Returns whether the doctor knows it.
    pub(crate) fn add_managed(&mut self, name: &str, place: Place) -> bool {
        let Some(actions) = managed_policy(name) else {
            return false;
        };
        // The policy applies to any resource, but the doctor reports only wildcard actions.
        let scope = match actions.iter().any(|action| action.contains('*')) {
            true => Scope::Everything,
            false => Scope::Managed,
        };
        self.add(place, actions, scope);
        true
    }

    /// Adds the actions that a policy allows.
    pub(crate) fn add(&mut self, place: Place, actions: Vec<String>, resource: Scope) {
        if !actions.is_empty() {
            self.statements.push(Statement {
                place,
                allows: true,
                actions,
                resources: vec![resource],
            });
        }
    }

    /// Only the permissions that are known before the deployment.
    pub(crate) fn known(&self) -> Self {
        let mut known = self.clone();
        known.is_complete = true;
        for statement in &mut known.statements {
            statement.resources.retain(|it| *it != Scope::Unknown);
        }
        known
    }

    /// Whether the policies may allow the action on a resource of the deployment.
    pub(crate) fn may(&self, action: &str, resource: &str) -> bool {
        self.allow(|it| matches(it, action), |all| cover(all, resource))
    }

    fn allow(&self, is_action: impl Fn(&str) -> bool, is_on: impl Fn(&[Scope]) -> bool) -> bool {
        let allows = |statement: &Statement| {
            let mut actions = statement.actions.iter();
            statement.allows && actions.any(|it| is_action(it)) && is_on(&statement.resources)
        };
        !self.is_complete || self.statements.iter().any(allows)
    }

    /// Whether the policies may allow the action on any resource.
    pub(crate) fn may_somewhere(&self, action: &str) -> bool {
        self.allow(|it| matches(it, action), |_| true)
    }

    /// Whether the policies may allow any action of DynamoDB on a table of the deployment.
    pub(crate) fn may_use_table(&self, table: &str) -> bool {
        let is_action = |it: &str| it == "*" || it.starts_with("dynamodb:");
        self.allow(is_action, |all| cover(all, table))
    }

    /// The actions that the policies allow on this resource by name.
    pub(crate) fn on<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a str> {
        self.statements
            .iter()
            .filter(move |statement| {
                let of = |scope: &Scope| matches!(scope, Scope::One(target) if target.is(resource));
                statement.allows && statement.resources.iter().any(of)
            })
            .flat_map(|statement| statement.actions.iter().map(String::as_str))
    }
}

/// Whether one of these scopes may have the resource.
fn cover(scopes: &[Scope], resource: &str) -> bool {
    let covers = |scope: &Scope| !matches!(scope, Scope::One(target) if !target.is(resource));
    scopes.iter().any(covers)
}

/// What a service needs of a key to send to a queue that is encrypted with it.
pub(crate) const ENCRYPT: [&str; 2] = ["kms:GenerateDataKey", "kms:Decrypt"];

/// The services that can send to queues.
pub(crate) const SERVICES: [&str; 3] = [SNS, S3, EVENT_BRIDGE];
pub(crate) const SNS: &str = "sns.amazonaws.com";
pub(crate) const S3: &str = "s3.amazonaws.com";
pub(crate) const EVENT_BRIDGE: &str = "events.amazonaws.com";

impl Admitted {
    /// What a policy admits that only the deployment knows.
    pub(crate) fn unknown() -> Self {
        Self {
            surely: Vec::new(),
            perhaps: SERVICES.to_vec(),
        }
    }
}

/// Whether a value, or one of several, is of this kind. One that is unknown before the deployment counts.
fn any(value: Option<&Value>, is: &dyn Fn(&str) -> bool) -> bool {
    let mut all = value.into_iter().flat_map(one_or_many);
    all.any(|one| one.is_null() || one.as_str().is_some_and(is))
}

/// The statements of a policy. One that is null is unknown.
fn statements(policy: &Value) -> &[Value] {
    match policy {
        Value::Object(policy) => policy.get("Statement").map_or(&[], one_or_many),
        other => std::slice::from_ref(other),
    }
}

/// The policy with texts that match nothing in the place of what is unknown.
fn without_unknown(policy: &Value) -> Value {
    match policy {
        Value::Null => Value::String(String::new()),
        Value::Array(all) => all.iter().map(without_unknown).collect(),
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| (key.clone(), without_unknown(value)));
            Value::Object(entries.collect())
        }
        known => known.clone(),
    }
}

/// The services to which a policy allows these actions. `is_resource` returns whether a text names the resource.
///
/// A value that is unknown before the deployment is null in `policy`.
pub(crate) fn admits(
    policy: &Value,
    actions: &[&str],
    is_resource: impl Fn(&str) -> bool,
) -> Admitted {
    let admitted = |policy: &Value| {
        let mut services = SERVICES.to_vec();
        services.retain(|service| {
            let is_service = |it: &str| it == "*" || it == *service;
            let is_named = |principal: &Value| {
                let named = ["Service", "AWS"].into_iter();
                let mut named = named.filter_map(|it| principal.get(it)).peekable();
                match named.peek() {
                    Some(_) => named.any(|it| any(Some(it), &is_service)),
                    None => any(Some(principal), &is_service),
                }
            };
            let allows = |statement: &Value, action: &str| {
                any(statement.get("Effect"), &|it| it == "Allow")
                    && statement.get("Principal").is_some_and(is_named)
                    && any(statement.get("Action"), &|it| matches(it, action))
                    && any(statement.get("Resource"), &|it| {
                        it.contains('*') || is_resource(it)
                    })
            };
            let mut actions = actions.iter();
            actions.all(|action| {
                let mut statements = statements(policy).iter();
                statements.any(|it| it.is_null() || allows(it, action))
            })
        });
        services
    };
    Admitted {
        surely: admitted(&without_unknown(policy)),
        perhaps: admitted(policy),
    }
}

/// Whether a queue's policy denies every request without TLS. `None` if that depends on what is unknown. `is_queue` returns
/// whether a text names the queue.
///
/// A value that is unknown before the deployment is null in `policy`.
pub(crate) fn denies_plain_http(policy: &Value, is_queue: impl Fn(&str) -> bool) -> Option<bool> {
    let denies = |statement: &Value| {
        let principal = statement.get("Principal");
        let of_accounts = principal.and_then(|it| it.get("AWS"));
        any(statement.get("Effect"), &|effect| effect == "Deny")
            && statement.get("NotPrincipal").is_none()
            && any(of_accounts.or(principal), &|it| it == "*")
            && ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage"]
                .iter()
                .all(|name| any(statement.get("Action"), &|it| matches(it, name)))
            && any(statement.get("Resource"), &|it| {
                it.contains('*') || is_queue(it)
            })
            && is_without_tls(&statement["Condition"])
    };
    let is_denied = |policy: &Value| {
        let mut statements = statements(policy).iter();
        statements.any(|it| it.is_null() || denies(it))
    };
    let perhaps = is_denied(policy);
    (perhaps == is_denied(&without_unknown(policy))).then_some(perhaps)
}

/// Whether a key's policy leaves it to the account's IAM policies who uses the key: it admits the account, and by itself
/// no user and no role. `None` if that depends on what is unknown.
///
/// A value that is unknown before the deployment is null in `policy`.
pub(crate) fn delegates(policy: &Value) -> Option<bool> {
    let may_use = |statement: &&Value| {
        any(statement.get("Effect"), &|it| it == "Allow")
            && (statement.get("NotAction").is_some()
                || any(statement.get("Action"), &|it| matches(it, "kms:Decrypt")))
    };
    let all = statements(policy);
    if all.contains(&Value::Null) {
        return None;
    }
    let mut principals = Vec::new();
    for statement in all.iter().filter(may_use) {
        let parts = ["Effect", "Action", "Principal"].iter();
        if parts.filter_map(|it| statement.get(it)).any(has_unknown) {
            return None;
        }
        match &statement["Principal"] {
            Value::Object(principal) if principal.contains_key("Service") => {}
            Value::Object(principal) => {
                principals.extend(one_or_many(principal.get("AWS").unwrap_or(&Value::Null)));
            }
            other => principals.extend(one_or_many(other)),
        }
    }
    let is_account = |principal: &&Value| {
        let text = principal.as_str().unwrap_or_default();
        text.starts_with("arn:") && text.ends_with(":root")
    };
    Some(!principals.is_empty() && principals.iter().all(is_account))
}

fn has_unknown(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.iter().any(has_unknown),
        Value::Object(entries) => entries.values().any(has_unknown),
        other => other.is_null(),
    }
}

/// The values of a list. Any other value counts as a list of one.
pub(crate) fn one_or_many(value: &Value) -> &[Value] {
    match value {
        Value::Array(all) => all,
        one => std::slice::from_ref(one),
    }
}

/// Whether a condition requires only that `aws:SecureTransport` is false.
fn is_without_tls(condition: &Value) -> bool {
    let Some(operators) = condition.as_object() else {
        return condition.is_null();
    };
    operators.iter().all(|(operator, keys)| {
        let Some(keys) = keys.as_object() else {
            return keys.is_null();
        };
        matches!(&**operator, "Bool" | "BoolIfExists")
            && keys.iter().all(|(key, value)| {
                let is_tls = key.eq_ignore_ascii_case("aws:SecureTransport");
                is_tls && one_or_many(value).iter().all(is_false)
            })
    })
}

fn is_false(value: &Value) -> bool {
    match value {
        Value::String(text) => text.eq_ignore_ascii_case("false"),
        other => matches!(other, Value::Bool(false) | Value::Null),
    }
}

/// Whether an IAM pattern matches an action: `*` matches any text, `?` any character.
fn matches(pattern: &str, action: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let action: Vec<char> = action.to_lowercase().chars().collect();
    // `reached[at]`: the part of the pattern read so far can match the first `at` characters.
    let mut reached = vec![false; action.len() + 1];
    reached[0] = true;
    for part in pattern {
        let before = reached.clone();
        for at in 0..=action.len() {
            reached[at] = match part {
                '*' => before[..=at].contains(&true),
                part => at > 0 && before[at - 1] && (part == '?' || part == action[at - 1]),
            };
        }
    }
    reached[action.len()]
}
