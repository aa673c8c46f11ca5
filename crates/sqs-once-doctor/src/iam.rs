//! The permissions that IAM policies grant.

use crate::model::{Permissions, Scope, Target};

const POLLER: &[&str] = &[
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
];

/// The actions that an AWS managed policy allows on queues and tables. `name` is the policy's name or ARN; `None` if
/// this table does not list it.
pub(crate) fn managed_policy(name: &str) -> Option<&'static [&'static str]> {
    match name.rsplit('/').next().unwrap_or(name) {
        "AWSLambdaSQSQueueExecutionRole" => Some(POLLER),
        "AmazonSQSFullAccess" => Some(&["sqs:*"]),
        "AmazonDynamoDBFullAccess" | "AmazonDynamoDBFullAccess_v2" => Some(&["dynamodb:*"]),
        "AdministratorAccess" => Some(&["*"]),
        "PowerUserAccess" => Some(&["sqs:*", "dynamodb:*"]),
        "AmazonSQSReadOnlyAccess" => Some(&[
            "sqs:GetQueueAttributes",
            "sqs:GetQueueUrl",
            "sqs:ListQueues",
        ]),
        "AmazonDynamoDBReadOnlyAccess" => Some(&[
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:Query",
        ]),
        "AWSLambdaBasicExecutionRole"
        | "AWSLambdaVPCAccessExecutionRole"
        | "AWSLambdaDynamoDBExecutionRole"
        | "AWSLambdaKinesisExecutionRole"
        | "AWSXRayDaemonWriteAccess"
        | "AWSXrayWriteOnlyAccess"
        | "CloudWatchLambdaInsightsExecutionRolePolicy"
        | "AmazonS3ReadOnlyAccess"
        | "AmazonS3FullAccess"
        | "AmazonSNSFullAccess" => Some(&[]),
        _ => None,
    }
}

/// The actions that a SAM policy template allows, and the parameter that names the queue or table.
pub(crate) fn sam_policy_template(name: &str) -> Option<(&'static [&'static str], &'static str)> {
    match name {
        "SQSPollerPolicy" => Some((
            &[
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
            ],
            "QueueName",
        )),
        "SQSSendMessagePolicy" => Some((&["sqs:SendMessage"], "QueueName")),
        "DynamoDBCrudPolicy" => Some((
            &[
                "dynamodb:GetItem",
                "dynamodb:DeleteItem",
                "dynamodb:PutItem",
                "dynamodb:Scan",
                "dynamodb:Query",
                "dynamodb:UpdateItem",
                "dynamodb:BatchWriteItem",
                "dynamodb:BatchGetItem",
                "dynamodb:DescribeTable",
                "dynamodb:ConditionCheckItem",
            ],
            "TableName",
        )),
        "DynamoDBWritePolicy" => Some((
            &[
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
                "dynamodb:BatchWriteItem",
            ],
            "TableName",
        )),
        "DynamoDBReadPolicy" => Some((
            &[
                "dynamodb:GetItem",
                "dynamodb:Scan",
                "dynamodb:Query",
                "dynamodb:BatchGetItem",
                "dynamodb:DescribeTable",
            ],
            "TableName",
        )),
        _ => None,
    }
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
    /// Whether the policies may allow the action on a resource of the deployment.
    pub(crate) fn may(&self, action: &str, resource: &str) -> bool {
        !self.is_complete
            || self.statements.iter().any(|statement| {
                statement.allows
                    && statement
                        .actions
                        .iter()
                        .any(|pattern| matches(pattern, action))
                    && statement.resources.iter().any(|scope| match scope {
                        Scope::Everything | Scope::Unknown => true,
                        Scope::One(target) => target.is(resource),
                    })
            })
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
