//! Creates everything that a run needs, with its tag, and notes it before each request.

use super::Architecture;
use super::account::{Account, incomplete, text};
use super::delete::POLICY;
use super::error::VerifyError;
use super::names::{Prefix, ROLE_PATH, Resource, TAG};
use super::wait::Waits;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};
use sqs_once::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    Tag,
};
use std::cell::RefCell;
use std::time::Duration;

type Result<T> = std::result::Result<T, VerifyError>;

const LIMIT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_secs(1);
/// Of the function. Short, because it decides how long SQS waits before it delivers a message again.
const TIMEOUT: u32 = 10;
pub(super) const MEMORY_MB: u32 = 256;
/// As in the template of `cargo sqs-once new`.
pub(super) const DELIVERIES: u32 = 5;
const BATCH_SIZE: u32 = 25;
const WINDOW: u32 = 1;
/// The least that AWS recommends: six times the function's timeout, and the window.
pub(super) const VISIBILITY: Duration = Duration::from_secs((6 * TIMEOUT + WINDOW) as u64);

/// The tables and their keys: three of the function, and one for the conformance suite.
pub(super) const TABLES: [(&str, &str); 4] = [
    ("keys", "id"),
    ("orders", "order_id"),
    ("stock", "article"),
    ("suite", "id"),
];

/// Creates resources for one run.
pub(super) struct Deployer<'a> {
    pub(super) account: &'a Account,
    pub(super) waits: &'a Waits<'a>,
    pub(super) prefix: &'a Prefix,
    /// Everything whose creation was requested, whatever the answer.
    pub(super) created: &'a RefCell<Vec<Resource>>,
}

/// Where messages go in and effects come out.
pub(super) struct Deployment {
    pub(super) queue_url: String,
    pub(super) dead_letters_url: String,
    /// The function's environment variables.
    pub(super) environment: Value,
}

struct Queue {
    url: String,
    arn: String,
}

impl Deployer<'_> {
    /// Notes that a resource is about to exist.
    fn note(&self, resource: &Resource) -> Result<()> {
        self.waits.go_on()?;
        self.created.borrow_mut().push(resource.clone());
        Ok(())
    }

    /// Creates a table, and returns its ARN without waiting for it.
    async fn table(&self, what: &str, key: &str) -> Result<String> {
        const ACTION: &str = "dynamodb:CreateTable";
        let table = self.prefix.table(what);
        self.note(&table)?;
        let built = |_| incomplete(ACTION, "a complete request");
        let attribute = AttributeDefinition::builder().attribute_name(key);
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build();
        let schema = KeySchemaElement::builder()
            .attribute_name(key)
            .key_type(KeyType::Hash);
        let tag = Tag::builder().key(TAG).value(self.prefix.as_str()).build();
        let create = self
            .account
            .dynamodb
            .create_table()
            .table_name(&table.name)
            .attribute_definitions(attribute.map_err(built)?)
            .key_schema(schema.build().map_err(built)?)
            .billing_mode(BillingMode::PayPerRequest)
            .tags(tag.map_err(built)?);
        let created = create
            .send()
            .await
            .map_err(|error| VerifyError::of_sdk(ACTION, error))?;
        let arn = created.table_description.and_then(|table| table.table_arn);
        arn.ok_or_else(|| incomplete(ACTION, "the table's ARN"))
    }

    async fn until_active(&self, what: &str) -> Result<()> {
        let Resource { name, .. } = self.prefix.table(what);
        let active = async || {
            let described = self
                .account
                .dynamodb
                .describe_table()
                .table_name(&name)
                .send()
                .await;
            match described.map_err(|error| VerifyError::of_sdk("dynamodb:DescribeTable", error)) {
                // It may not be visible yet.
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
                Ok(described) => {
                    let status = described.table.and_then(|table| table.table_status);
                    Ok((status == Some(TableStatus::Active)).then_some(()))
                }
            }
        };
        self.waits
            .until(&format!("the table {name} is active"), LIMIT, PAUSE, active)
            .await
    }

    async fn queue(&self, queue: &Resource, attributes: &[(&str, String)]) -> Result<Queue> {
        self.note(queue)?;
        let mut create = self.account.sqs.create_queue().queue_name(&queue.name);
        create = create.tags(TAG, self.prefix.as_str());
        for (name, value) in attributes {
            create = create.attributes((*name).into(), value);
        }
        let created = create.send().await;
        let created = created.map_err(|error| VerifyError::of_sdk("sqs:CreateQueue", error))?;
        let url = created
            .queue_url
            .ok_or_else(|| incomplete("sqs:CreateQueue", "the URL"))?;
        let action = "sqs:GetQueueAttributes";
        let name = aws_sdk_sqs::types::QueueAttributeName::QueueArn;
        let attributes = self.account.sqs.get_queue_attributes().queue_url(&url);
        let attributes = attributes.attribute_names(name.clone()).send().await;
        let attributes = attributes.map_err(|error| VerifyError::of_sdk(action, error))?;
        let arn = attributes.attributes.and_then(|mut all| all.remove(&name));
        let arn = arn.ok_or_else(|| incomplete(action, "the queue's ARN"))?;
        Ok(Queue { url, arn })
    }

    /// Creates the function with its queues and tables, and a table for the suite. Waits until the function polls.
    pub(super) async fn all(&self, zip: &[u8], architecture: Architecture) -> Result<Deployment> {
        let mut tables = Vec::new();
        for (what, key) in TABLES {
            tables.push(self.table(what, key).await?);
        }
        let dead = self.queue(&self.prefix.dead_letters(), &[]).await?;
        let redrive = json!({ "deadLetterTargetArn": dead.arn, "maxReceiveCount": DELIVERIES });
        let visibility = VISIBILITY.as_secs().to_string();
        let attributes = [
            ("RedrivePolicy", redrive.to_string()),
            ("VisibilityTimeout", visibility),
        ];
        let queue = self.queue(&self.prefix.queue(), &attributes).await?;
        let role = self.role(&tables, &queue, &dead).await?;
        self.log_group().await?;
        for (what, _) in TABLES {
            self.until_active(what).await?;
        }
        let environment = json!({
            "SQS_ONCE_TABLE": self.prefix.table("keys").name,
            "SQS_ONCE_SERVICE": self.prefix.as_str(),
            "SQS_ONCE_DLQ_URL": dead.url,
            "ORDERS_TABLE": self.prefix.table("orders").name,
            "STOCK_TABLE": self.prefix.table("stock").name,
        });
        self.function(&role, zip, architecture, &environment)
            .await?;
        self.mapping(&queue.arn).await?;
        Ok(Deployment {
            queue_url: queue.url,
            dead_letters_url: dead.url,
            environment,
        })
    }

    /// Creates the role with the permissions of the template, and returns its ARN.
    async fn role(&self, tables: &[String], queue: &Queue, dead: &Queue) -> Result<String> {
        let role = self.prefix.role();
        self.note(&role)?;
        let trust = policy(&[json!({
            "Effect": "Allow",
            "Principal": { "Service": "lambda.amazonaws.com" },
            "Action": "sts:AssumeRole",
        })]);
        let parameters = [
            ("RoleName", &*role.name),
            ("Path", ROLE_PATH),
            ("AssumeRolePolicyDocument", &trust),
            ("Tags.member.1.Key", TAG),
            ("Tags.member.1.Value", self.prefix.as_str()),
        ];
        let (requests, action) = (&self.account.requests, "iam:CreateRole");
        let created = requests.query(self.waits, action, &parameters);
        let created = created.await?;
        let arn = created.elements("Arn").first().map(|arn| (*arn).to_owned());
        let arn = arn.ok_or_else(|| incomplete("iam:CreateRole", "the role's ARN"))?;
        let allow = |actions: &[&str], on: &str| json!({ "Effect": "Allow", "Action": actions, "Resource": on });
        let logs = format!(
            "arn:aws:logs:*:*:log-group:{}:*",
            self.prefix.log_group().name
        );
        let receive = [
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ChangeMessageVisibility",
        ];
        let mut statements = vec![
            allow(&receive, &queue.arn),
            allow(&["sqs:SendMessage"], &dead.arn),
            allow(&["logs:CreateLogStream", "logs:PutLogEvents"], &logs),
        ];
        let own: [&[&str]; 3] = [
            &["dynamodb:UpdateItem", "dynamodb:BatchGetItem"],
            &["dynamodb:PutItem"],
            &["dynamodb:UpdateItem"],
        ];
        statements.extend(
            own.iter()
                .zip(tables)
                .map(|(actions, table)| allow(actions, table)),
        );
        let document = policy(&statements);
        let put = [
            ("RoleName", &*role.name),
            ("PolicyName", POLICY),
            ("PolicyDocument", &document),
        ];
        self.account
            .requests
            .query(self.waits, "iam:PutRolePolicy", &put)
            .await?;
        Ok(arn)
    }

    async fn log_group(&self) -> Result<()> {
        let group = self.prefix.log_group();
        self.note(&group)?;
        let tags = json!({ TAG: self.prefix.as_str() });
        let create = json!({ "logGroupName": group.name, "tags": tags });
        self.account
            .requests
            .logs(self.waits, "logs:CreateLogGroup", &create)
            .await?;
        Ok(())
    }

    async fn function(
        &self,
        role: &str,
        zip: &[u8],
        architecture: Architecture,
        environment: &Value,
    ) -> Result<()> {
        let function = self.prefix.function();
        self.note(&function)?;
        let create = json!({
            "FunctionName": function.name,
            "Runtime": "provided.al2023",
            "Handler": "bootstrap",
            "Architectures": [architecture.name()],
            "MemorySize": MEMORY_MB,
            "Timeout": TIMEOUT,
            "Role": role,
            "Code": { "ZipFile": STANDARD.encode(zip) },
            "Environment": { "Variables": environment },
            "Tags": { TAG: self.prefix.as_str() },
        });
        let (action, path) = ("lambda:CreateFunction", "/2015-03-31/functions");
        self.unless_too_early("Lambda can assume the role", action, path, &create)
            .await?;
        self.until_function_is("Active", "State").await
    }

    /// Waits until a field of the function's configuration has this value.
    pub(super) async fn until_function_is(&self, value: &str, field: &str) -> Result<()> {
        let path = format!("/2015-03-31/functions/{}/configuration", self.prefix);
        let what = format!("the function's {field} is {value}");
        let is = async || {
            let action = "lambda:GetFunctionConfiguration";
            let get = self
                .account
                .requests
                .lambda(self.waits, action, Method::GET, &path, None);
            Ok((get.await?.json()[field] == value).then_some(()))
        };
        self.waits.until(&what, LIMIT, PAUSE, is).await
    }

    async fn mapping(&self, queue_arn: &str) -> Result<()> {
        const PATH: &str = "/2015-03-31/event-source-mappings";
        let create = json!({
            "FunctionName": self.prefix.as_str(),
            "EventSourceArn": queue_arn,
            "BatchSize": BATCH_SIZE,
            "MaximumBatchingWindowInSeconds": WINDOW,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": { "MaximumConcurrency": 10 },
            "Tags": { TAG: self.prefix.as_str() },
        });
        let action = "lambda:CreateEventSourceMapping";
        let created = self.unless_too_early("the role may receive messages", action, PATH, &create);
        let id = text(&created.await?["UUID"]).ok_or_else(|| incomplete(action, "the UUID"))?;
        let path = format!("{PATH}/{id}");
        let enabled = async || {
            let action = "lambda:GetEventSourceMapping";
            let get = self
                .account
                .requests
                .lambda(self.waits, action, Method::GET, &path, None);
            Ok((get.await?.json()["State"] == "Enabled").then_some(()))
        };
        self.waits
            .until("the event source mapping is enabled", LIMIT, PAUSE, enabled)
            .await
    }

    /// Creates something that uses the new role, which reaches Lambda only after some seconds.
    async fn unless_too_early(
        &self,
        what: &str,
        action: &str,
        path: &str,
        create: &Value,
    ) -> Result<Value> {
        let attempt = async || {
            let lambda = &self.account.requests;
            match lambda
                .lambda(self.waits, action, Method::POST, path, Some(create))
                .await
            {
                Err(error) if is_about_the_role(&error) => Ok(None),
                created => Ok(Some(created?.json())),
            }
        };
        self.waits.until(what, LIMIT, 2 * PAUSE, attempt).await
    }
}

fn is_about_the_role(error: &VerifyError) -> bool {
    match error {
        VerifyError::Refused { said, .. } => {
            said.code == "InvalidParameterValueException" && said.message.contains(" role ")
        }
        _ => false,
    }
}

fn policy(statements: &[Value]) -> String {
    json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_role_that_is_not_ready_is_a_reason_to_try_again() {
        let said = |code: &str, message: &str| {
            is_about_the_role(&VerifyError::said("lambda:CreateFunction", code, message))
        };
        let invalid = "InvalidParameterValueException";
        assert!(said(
            invalid,
            "The role defined for the function cannot be assumed by Lambda."
        ));
        assert!(said(
            invalid,
            "The provided execution role does not have permissions to call ReceiveMessage on SQS"
        ));
        assert!(!said(
            invalid,
            "Unzipped size must be smaller than 262144000 bytes"
        ));
        assert!(!said(
            "AccessDeniedException",
            "may not perform iam:PassRole on the role x"
        ));
    }
}
