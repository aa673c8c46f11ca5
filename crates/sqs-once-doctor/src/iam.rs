//! The permissions that IAM policies grant.

use crate::field::Place;
use crate::model::{Permissions, Scope, Statement, Target};
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
            false => Scope::Unknown,
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

/// Whether a value, or one of several, is of this kind. One that is unknown before the deployment counts.
fn any(value: &Value, is: &dyn Fn(&str) -> bool) -> bool {
    let mut all = one_or_many(value).iter();
    all.any(|one| one.is_null() || one.as_str().is_some_and(is))
}

/// The services to which a policy may allow these actions. `is_resource` returns whether a text names the resource.
///
/// A value that is unknown before the deployment is null in `policy`, and counts as a match.
pub(crate) fn admits(
    policy: &Value,
    actions: &[&str],
    is_resource: impl Fn(&str) -> bool,
) -> Vec<&'static str> {
    let mut services = SERVICES.to_vec();
    services.retain(|service| {
        let admits = |statement: &&Value| {
            let principal = &statement["Principal"];
            let is_service = |it: &str| it == "*" || it == *service;
            let named = ["Service", "AWS"].into_iter();
            let mut named = named.filter_map(|it| principal.get(it)).peekable();
            let is_named = match named.peek() {
                Some(_) => named.any(|it| any(it, &is_service)),
                None => any(principal, &is_service),
            };
            any(&statement["Effect"], &|it| it == "Allow")
                && is_named
                && any(&statement["Resource"], &|it| {
                    it.contains('*') || is_resource(it)
                })
        };
        let statements = one_or_many(&policy["Statement"]).iter().filter(admits);
        let granted: Vec<&Value> = statements.map(|it| &it["Action"]).collect();
        let may = |action: &&str| granted.iter().any(|it| any(it, &|of| matches(of, action)));
        policy.is_null() || actions.iter().all(may)
    });
    services
}

/// Whether a queue's policy denies every request without TLS. `is_queue` returns whether a text names the queue.
///
/// A value that is unknown before the deployment is null in `policy`, and counts as a match.
pub(crate) fn denies_plain_http(policy: &Value, is_queue: impl Fn(&str) -> bool) -> bool {
    let denies = |statement: &Value| {
        let principal = &statement["Principal"];
        let action = &statement["Action"];
        any(&statement["Effect"], &|effect| effect == "Deny")
            && statement.get("NotPrincipal").is_none()
            && any(principal.get("AWS").unwrap_or(principal), &|it| it == "*")
            && ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage"]
                .iter()
                .all(|name| any(action, &|pattern| matches(pattern, name)))
            && any(&statement["Resource"], &|it| {
                it.contains('*') || is_queue(it)
            })
            && is_without_tls(&statement["Condition"])
    };
    one_or_many(&policy["Statement"]).iter().any(denies)
}

/// Whether a key's policy leaves it to the account's IAM policies who uses the key: it admits the account, and by itself
/// no user and no role.
///
/// A value that is unknown before the deployment is null in `policy`, and may admit a role.
pub(crate) fn delegates(policy: &Value) -> bool {
    let may_use = |statement: &&Value| {
        let may = |action: &Value| action.as_str().is_none_or(|it| matches(it, "kms:Decrypt"));
        statement["Effect"] != "Deny" && one_or_many(&statement["Action"]).iter().any(may)
    };
    let statements = one_or_many(&policy["Statement"]).iter().filter(may_use);
    let principals: Vec<&Value> = statements
        .filter(|statement| statement["Principal"]["Service"].is_null())
        .flat_map(|statement| match &statement["Principal"] {
            Value::Object(principal) => one_or_many(principal.get("AWS").unwrap_or(&Value::Null)),
            other => one_or_many(other),
        })
        .collect();
    let is_account = |principal: &&Value| {
        let text = principal.as_str().unwrap_or_default();
        text.starts_with("arn:") && text.ends_with(":root")
    };
    !principals.is_empty() && principals.iter().all(is_account)
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
