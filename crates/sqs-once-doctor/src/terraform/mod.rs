//! Reads a Terraform plan from the JSON of `terraform show -json`, or a configuration.
//!
//! Known values come from the plan. A value known only after the apply is looked up in the plan's configuration: a
//! reference there must name a resource of the same module. [`configuration`] evaluates a configuration into a plan.

mod block;
mod configuration;
mod expression;
mod functions;
mod policies;
mod resources;

use crate::error::ReadError;
use crate::field::{Field, Place};
use crate::iam;
use crate::model::{
    Alarm, Deployment, Format, Function, Key, Mapping, Metric, Pollers, Queue, Sender, Site, Table,
    Target, Unread,
};
pub(crate) use configuration::{Spot, is_configuration};
use resources::{Resource, Resources};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Reads a plan. `None` if the text is not a plan.
pub(crate) fn read(text: &str) -> Option<Deployment> {
    let plan: Value = serde_json::from_str(text).ok()?;
    plan.get("planned_values")?;
    Some(deployment(&plan))
}

/// Reads the configuration in a folder. Also returns the position of each resource and module, by address.
pub(crate) fn read_configuration(
    folder: &Path,
) -> Result<(Deployment, HashMap<String, Spot>), ReadError> {
    let configuration = configuration::evaluate(folder)?;
    let mut deployment = deployment(&configuration.plan);
    // A part that was not examined may have any resources.
    deployment.has_more = !configuration.unread.is_empty();
    for name in configuration.unread {
        let place = Place {
            resource: name.clone(),
            position: None,
            path: Vec::new(),
        };
        deployment.unread.push(Unread { place, name });
    }
    Ok((deployment, configuration.spots))
}

/// Evaluates the Terraform configuration in `folder`, without Terraform and without AWS.
///
/// The result has the shape of `terraform show -json` for a plan, as far as the doctor reads it: `planned_values` and
/// `resource_changes`. A value that only AWS knows is a text such as `${aws_sqs_queue.orders.arn}`. Variables have the values
/// of `terraform.tfvars` and `*.auto.tfvars`, or their defaults.
///
/// # Errors
/// [`ReadError::Io`] for a file that cannot be read, and [`ReadError::Hcl`] for one that is not valid.
pub fn evaluate_terraform(folder: &Path) -> Result<Value, ReadError> {
    Ok(configuration::evaluate(folder)?.plan)
}

fn deployment(plan: &Value) -> Deployment {
    let resources = Resources::of(plan);
    let mut deployment = Deployment {
        format: Format::Terraform,
        ..Deployment::default()
    };
    let reader = |resource| Reader {
        resources: &resources,
        resource,
    };
    for of in resources.all.iter().map(reader) {
        match of.resource.kind {
            "aws_lambda_function" => deployment.functions.push(of.function()),
            "aws_lambda_event_source_mapping" => deployment.mappings.extend(of.mapping()),
            "aws_sqs_queue" => deployment.queues.push(of.queue()),
            "aws_dynamodb_table" => deployment.tables.push(of.table()),
            "aws_kms_key" => deployment.keys.push(of.kms_key()),
            "aws_cloudwatch_metric_alarm" => deployment.alarms.push(of.alarm()),
            "aws_sns_topic_subscription" => deployment.senders.extend(of.sender()),
            _ => {}
        }
    }
    // Some configurations set the redrive policy in a separate resource.
    for of in resources.all.iter().map(reader) {
        let is_redrive = of.resource.kind == "aws_sqs_queue_redrive_policy";
        if !is_redrive && of.resource.kind != "aws_sqs_queue_policy" {
            continue;
        }
        let queue = of.target(&["queue_url"]);
        for it in &mut deployment.queues {
            match queue.known() {
                Some(queue) if queue.is(&it.site.id) && is_redrive => {
                    (it.dead_letter_queue, it.max_receive_count) = of.redrive();
                }
                Some(queue) if queue.is(&it.site.id) => {
                    it.has_policy(of.denies_plain_http(&it.site.id));
                }
                // The policy may be for this queue.
                None if !is_redrive => it.has_policy(Field::Unknown),
                None if it.dead_letter_queue.is_missing() => it.dead_letter_queue = Field::Unknown,
                _ => {}
            }
        }
    }
    deployment
}

/// Reads one resource.
pub(crate) struct Reader<'a> {
    pub(crate) resources: &'a Resources<'a>,
    pub(crate) resource: &'a Resource<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn other(&self, resource: &'a Resource<'a>) -> Self {
        Self { resource, ..*self }
    }

    fn site(&self) -> Site {
        Site {
            id: self.resource.address.to_owned(),
            place: self.place(),
            properties: Vec::new(),
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            resource: self.resource.address.to_owned(),
            position: None,
            path: Vec::new(),
        }
    }

    /// A planned value. A block is a list, of which this reads the first element.
    pub(crate) fn field<T>(
        &self,
        path: &[&str],
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Field<T> {
        let mut value = self.resource.values;
        for (depth, name) in path.iter().enumerate() {
            if let Value::Array(blocks) = value {
                match blocks.first() {
                    Some(block) => value = block,
                    None => return Field::Missing,
                }
            }
            value = match value.get(name) {
                Some(value) => value,
                None if self.resources.leaves_out(self.resource, path[0]) => {
                    return Field::Missing;
                }
                // Terraform writes null for an absent value and omits an unknown one.
                None if self.resource.is_unknown(&path[..=depth]) => return Field::Unknown,
                None => return Field::Missing,
            };
        }
        match value {
            Value::Null => Field::Missing,
            value => match parse(value) {
                Some(value) => Field::Known(value, self.place()),
                None => Field::Unknown,
            },
        }
    }

    /// A text. A text with a value that only AWS knows is unknown.
    pub(crate) fn text(&self, path: &[&str]) -> Field<String> {
        let text = self.reference(path);
        text.and_then(|text| Some(text).filter(|text| !text.contains("${")))
    }

    /// A text, in which a value that only AWS knows is `${aws_sqs_queue.orders.arn}`.
    pub(crate) fn reference(&self, path: &[&str]) -> Field<String> {
        self.field(path, |value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        })
    }

    /// The blocks or values of an attribute.
    pub(crate) fn list(&self, name: &str) -> Field<Vec<Value>> {
        self.field(&[name], |value| value.as_array().cloned())
    }

    /// Whether a block is there.
    fn block(&self, name: &str) -> Field<()> {
        match self.list(name) {
            Field::Known(blocks, _) if blocks.is_empty() => Field::Missing,
            other => other.and_then(|_| Some(())),
        }
    }

    fn number(&self, path: &[&str]) -> Field<u64> {
        self.field(path, number)
    }

    fn seconds(&self, path: &[&str]) -> Field<Duration> {
        self.number(path)
            .and_then(|seconds| Some(Duration::from_secs(seconds)))
    }

    fn flag(&self, path: &[&str]) -> Field<bool> {
        self.field(path, Value::as_bool)
    }

    /// The target of a value, by the planned value or by its expression in the configuration.
    pub(crate) fn target(&self, path: &[&str]) -> Field<Target> {
        match self.reference(path) {
            Field::Missing => Field::Missing,
            // A variable or a data source may be any resource.
            Field::Known(text, _) if self.resources.is_unknown(&text) => Field::Unknown,
            Field::Known(text, place) => Field::Known(self.resources.named(&text), place),
            Field::Unknown => self.referred(path, None),
        }
    }

    /// The only resource, of this kind or of any, that an attribute's expression refers to.
    fn referred(&self, path: &[&str], kind: Option<&str>) -> Field<Target> {
        match self.resources.referred(self.resource, path, kind) {
            Some(address) => Field::Known(Target::Own(address), self.place()),
            None => Field::Unknown,
        }
    }

    fn function(&self) -> Function {
        let variables = ["environment", "variables"];
        let mut function = Function {
            site: self.site(),
            role: self.text(&["role"]),
            timeout: self.seconds(&["timeout"]),
            runtime: self.text(&["runtime"]),
            // A plan does not contain the folder of the function's source.
            code: Field::Unknown,
            binary: self.text(&["filename"]).and_then(|it| binary(&it)),
            memory_mb: self
                .number(&["memory_size"])
                .and_then(|size| u32::try_from(size).ok()),
            capacity_provider: self.block("capacity_provider_config"),
            // -1 means no reservation.
            reserved_concurrency: match self
                .field(&["reserved_concurrent_executions"], Value::as_i64)
            {
                Field::Known(number, _) if number < 0 => Field::Missing,
                other => other.and_then(|number| u64::try_from(number).ok()),
            },
            environment: Default::default(),
            references: Default::default(),
            has_async_dead_letters: !self
                .text(&["dead_letter_config", "target_arn"])
                .is_missing(),
            permissions: policies::of_function(self),
        };
        let known = self.field(&variables, |value| value.as_object().cloned());
        for (name, _) in known.known().into_iter().flatten() {
            let path = [variables[0], variables[1], name];
            let target = self.target(&path);
            let value = match target {
                Field::Known(Target::Own(_), _) => self.reference(&path),
                _ => self.text(&path),
            };
            function.environment.insert(name.clone(), value);
            if target.known().is_some() {
                function.references.insert(name.clone(), target);
            }
        }
        // Unknown variables appear only in the plan's `after_unknown`. The configuration does not map references to
        // variables, so a target is certain only if one resource of the kind is referenced.
        for name in self.resource.unknown_keys(&variables) {
            function.environment.insert(name.clone(), Field::Unknown);
            let kind = match &*name {
                "SQS_ONCE_TABLE" => "aws_dynamodb_table",
                "SQS_ONCE_DLQ_URL" => "aws_sqs_queue",
                _ => continue,
            };
            let target = self.referred(&["environment"], Some(kind));
            function.references.insert(name, target);
        }
        function
    }

    fn mapping(&self) -> Option<Mapping> {
        let queue = self.target(&["event_source_arn"]);
        let is_sqs = match queue.known()? {
            Target::Other(arn) => arn.contains(":sqs:"),
            own => self.resources.of_kind(own, "aws_sqs_queue").is_some(),
        };
        is_sqs.then(|| Mapping {
            site: self.site(),
            function: self.target(&["function_name"]),
            queue,
            filter: self.block("filter_criteria"),
            reports_failures: self.field(&["function_response_types"], |value| {
                let types = value.as_array()?;
                Some(types.iter().any(|name| name == "ReportBatchItemFailures"))
            }),
            batch_size: self.number(&["batch_size"]),
            window: self.seconds(&["maximum_batching_window_in_seconds"]),
            maximum_concurrency: self.number(&["scaling_config", "maximum_concurrency"]),
            pollers: self.block("provisioned_poller_config").and_then(|()| {
                let count = |name| self.number(&["provisioned_poller_config", name]);
                Some(Pollers {
                    minimum: count("minimum_pollers"),
                    maximum: count("maximum_pollers"),
                })
            }),
            is_enabled: self.flag(&["enabled"]),
        })
    }

    /// The queue's redrive policy, a JSON string.
    fn redrive(&self) -> (Field<Target>, Field<u64>) {
        match self.reference(&["redrive_policy"]) {
            Field::Missing => (Field::Missing, Field::Missing),
            Field::Unknown => (self.target(&["redrive_policy"]), Field::Unknown),
            Field::Known(text, place) => {
                let Ok(policy) = serde_json::from_str::<Value>(&text) else {
                    // For example an empty string, which means no policy.
                    return (Field::Missing, Field::Missing);
                };
                let known = Field::Known((), place);
                let target = policy.get("deadLetterTargetArn").and_then(Value::as_str);
                let target = target.filter(|arn| !self.resources.is_unknown(arn));
                let target = target.map(|arn| self.resources.named(arn));
                let count = policy.get("maxReceiveCount").and_then(number);
                (
                    known.clone().and_then(|()| target),
                    known.and_then(|()| count),
                )
            }
        }
    }

    /// Whether the policy, a JSON string, denies requests without TLS to the queue at `address`.
    fn denies_plain_http(&self, address: &str) -> Field<bool> {
        let text = self.reference(&["policy"]);
        if text.known().is_some_and(String::is_empty) {
            return Field::Missing;
        }
        text.and_then(|text| {
            let policy: Value = serde_json::from_str(&text).ok()?;
            let is_queue = |text: &str| self.resources.named(text).is(address);
            Some(iam::denies_plain_http(&policy, is_queue))
        })
    }

    fn queue(&self) -> Queue {
        let (dead_letter_queue, max_receive_count) = self.redrive();
        Queue {
            site: self.site(),
            arn: self.text(&["arn"]),
            name: self.text(&["name"]),
            is_fifo: self.flag(&["fifo_queue"]),
            visibility_timeout: self.seconds(&["visibility_timeout_seconds"]),
            retention: self.seconds(&["message_retention_seconds"]),
            delay: self.seconds(&["delay_seconds"]),
            content_based_deduplication: self.flag(&["content_based_deduplication"]),
            throughput_limit: self.text(&["fifo_throughput_limit"]),
            deduplication_scope: self.text(&["deduplication_scope"]),
            dead_letter_queue,
            max_receive_count,
            is_encrypted_by_sqs: self.flag(&["sqs_managed_sse_enabled"]),
            kms_key: self.text(&["kms_master_key_id"]),
            key: self.key(&["kms_master_key_id"]),
            denies_plain_http: self.denies_plain_http(self.resource.address),
        }
    }

    fn table(&self) -> Table {
        Table {
            site: self.site(),
            name: self.text(&["name"]),
            partition_key: self.text(&["hash_key"]),
            sort_key: self.text(&["range_key"]),
            attribute_types: {
                let blocks = self.list("attribute");
                let text = |block: &Value, name| Some(block.get(name)?.as_str()?.to_owned());
                let pair = |block| text(block, "name").zip(text(block, "type"));
                let blocks = blocks.known().into_iter().flatten();
                blocks.filter_map(pair).collect()
            },
            ttl_attribute: match self.text(&["ttl", "attribute_name"]) {
                Field::Known(name, _) if name.is_empty() => Field::Missing,
                other => other,
            },
            ttl_is_enabled: self.flag(&["ttl", "enabled"]),
            is_protected: self.flag(&["deletion_protection_enabled"]),
            is_strongly_consistent: self
                .text(&["replica", "consistency_mode"])
                .and_then(|mode| Some(mode == "STRONG")),
            key: self.key(&["server_side_encryption", "kms_key_arn"]),
        }
    }

    /// The key that an attribute refers to, also by its alias.
    fn key(&self, path: &[&str]) -> Field<Target> {
        let key = self.target(path);
        let alias = key.known();
        match alias.and_then(|it| self.resources.of_kind(it, "aws_kms_alias")) {
            Some(alias) => self.other(alias).target(&["target_key_id"]),
            None => key,
        }
    }

    fn kms_key(&self) -> Key {
        let policy = self.text(&["policy"]);
        let parsed = policy.known().and_then(|it| serde_json::from_str(it).ok());
        // A resource of its own may set the policy.
        let mut others = self.resources.all.iter();
        let is_elsewhere =
            others.any(|it| matches!(it.kind, "aws_kms_key_policy" | "aws_kms_grant"));
        Key {
            site: self.site(),
            // KMS's default policy leaves it to IAM.
            delegates: !is_elsewhere
                && (policy.is_missing() || parsed.is_some_and(|it| iam::delegates(&it))),
        }
    }

    fn alarm(&self) -> Alarm {
        let queries = self.list("metric_query");
        let metric = match queries.known().is_none_or(Vec::is_empty) {
            true => Metric {
                namespace: self.text(&["namespace"]),
                name: self.text(&["metric_name"]),
                queue: self.target(&["dimensions", "QueueName"]),
            },
            // Expressions over several metrics are treated as unknown.
            false => Metric::UNKNOWN,
        };
        Alarm {
            site: self.site(),
            metrics: vec![metric],
        }
    }

    fn sender(&self) -> Option<Sender> {
        let protocol = self.text(&["protocol"]);
        (protocol.known()? == "sqs").then(|| Sender {
            site: self.site(),
            service: "SNS",
            queue: self.target(&["endpoint"]),
        })
    }
}

/// The binary in a zip of cargo-lambda, `target/lambda/BINARY/bootstrap.zip`.
fn binary(zip: &str) -> Option<String> {
    let folder = zip.strip_suffix("/bootstrap.zip")?;
    let (_, binary) = folder.rsplit_once("/lambda/")?;
    Some(binary.to_owned())
}

/// A number, which may be written as text.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}
