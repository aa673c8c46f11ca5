//! The parts of a deployment that resources of a plan are.

use super::{Reader, number, policies};
use crate::field::Field;
use crate::iam;
use crate::model::{
    Admitted, Alarm, Function, Key, Mapping, Metric, Pollers, Queue, Table, Target,
};
use serde_json::{Value, json};

impl Reader<'_> {
    pub(super) fn function(&self) -> Function {
        let variables = ["environment", "variables"];
        let memory = self.number(&["memory_size"]);
        let reserved = self.field(&["reserved_concurrent_executions"], Value::as_i64);
        let dead_letters = self.text(&["dead_letter_config", "target_arn"]);
        let mut function = Function {
            site: self.site(),
            role: self.text(&["role"]),
            timeout: self.seconds(&["timeout"]),
            runtime: self.text(&["runtime"]),
            // A plan does not contain the folder of the function's source.
            code: Field::Unknown,
            binary: self.text(&["filename"]).and_then(|it| binary(&it)),
            memory_mb: memory.and_then(|size| u32::try_from(size).ok()),
            capacity_provider: self.block("capacity_provider_config"),
            reserved_concurrency: match reserved {
                // -1 means no reservation.
                Field::Known(number, _) if number < 0 => Field::Missing,
                other => other.and_then(|number| u64::try_from(number).ok()),
            },
            environment: Default::default(),
            references: Default::default(),
            has_more_variables: false,
            has_async_dead_letters: !dead_letters.is_missing(),
            durable: self.block("durable_config"),
            permissions: policies::of_role(self, &["role"]),
        };
        let known = self.field(&variables, |value| value.as_object().cloned());
        function.has_more_variables = known.is_unknown();
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

    /// Whether the source of a mapping may be a queue. Kinesis and other services have mappings too.
    pub(super) fn may_be_sqs(&self) -> bool {
        let of_others = [
            "starting_position",
            "self_managed_event_source",
            "topics",
            "queues",
        ];
        let is_missing = |name: &&str| {
            let field = self.field(&[name], |value| Some(value == &json!([])));
            field.is_missing() || field.known() == Some(&true)
        };
        match self.target(&["event_source_arn"]) {
            Field::Known(Target::Other(arn), _) if arn.starts_with("arn:") => arn.contains(":sqs:"),
            // A reference to the wrong resource is for a rule to find.
            _ => of_others.iter().all(is_missing),
        }
    }

    pub(super) fn mapping(&self) -> Option<Mapping> {
        self.may_be_sqs().then(|| Mapping {
            site: self.site(),
            function: self.function_of(&["function_name"]),
            queue: self.target(&["event_source_arn"]),
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
    pub(super) fn redrive(&self) -> (Field<Target>, Field<u64>) {
        match self.reference(&["redrive_policy"]) {
            Field::Missing => (Field::Missing, Field::Missing),
            Field::Unknown => (self.target(&["redrive_policy"]), Field::Unknown),
            Field::Known(text, _) if text.is_empty() => (Field::Missing, Field::Missing),
            Field::Known(text, place) => {
                let known = Field::Known((), place);
                // Only the deployment knows the variable that another text is.
                let policy: Value = serde_json::from_str(&text).unwrap_or_default();
                let target = policy["deadLetterTargetArn"].as_str();
                let target = target.filter(|arn| !self.resources.is_unknown(arn));
                let target = target.map(|arn| self.resources.named(arn));
                let count = number(&policy["maxReceiveCount"]);
                (
                    known.clone().and_then(|()| target),
                    known.and_then(|()| count),
                )
            }
        }
    }

    /// The resource's policy, a JSON string. A value that only the deployment knows is null.
    pub(super) fn policy(&self) -> Field<Value> {
        match self.reference(&["policy"]) {
            Field::Known(text, _) if text.is_empty() => Field::Missing,
            text => text.and_then(|text| {
                let policy: Value = serde_json::from_str(&text).ok()?;
                Some(self.nulled(policy))
            }),
        }
    }

    fn nulled(&self, value: Value) -> Value {
        match value {
            Value::String(text) if text.starts_with("${") && self.resources.is_unknown(&text) => {
                Value::Null
            }
            Value::Array(all) => all.into_iter().map(|it| self.nulled(it)).collect(),
            Value::Object(entries) => {
                let entries = entries.into_iter();
                let entries = entries.map(|(key, value)| (key, self.nulled(value)));
                Value::Object(entries.collect())
            }
            other => other,
        }
    }

    /// Whether the resource's policy denies requests without TLS to the queue at `address`.
    pub(super) fn denies_plain_http(&self, address: &str) -> Field<bool> {
        let is_queue = |text: &str| self.resources.named(text).is(address);
        let policy = self.policy();
        policy.and_then(|policy| iam::denies_plain_http(&policy, is_queue))
    }

    pub(super) fn queue(&self) -> Queue {
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
            admits: self.admits(self.resource.address),
        }
    }

    pub(super) fn table(&self) -> Table {
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
            ttl_is_enabled: match self.flag(&["ttl", "enabled"]) {
                // The provider's default.
                Field::Missing if self.block("ttl").known().is_some() => {
                    Field::Known(false, self.place())
                }
                enabled => enabled,
            },
            is_protected: self.flag(&["deletion_protection_enabled"]),
            is_strongly_consistent: self
                .text(&["replica", "consistency_mode"])
                .and_then(|mode| Some(mode == "STRONG")),
            key: self.key(&["server_side_encryption", "kms_key_arn"]),
        }
    }

    /// The key that an attribute refers to, also by its alias.
    fn key(&self, path: &[&str]) -> Field<Target> {
        self.behind(path, "aws_kms_alias", "target_key_id")
    }

    pub(super) fn kms_key(&self) -> Key {
        // A resource of its own may set the policy.
        let mut others = self.resources.all.iter();
        let is_elsewhere =
            others.any(|it| matches!(it.kind, "aws_kms_key_policy" | "aws_kms_grant"));
        let (delegates, admits) = match self.policy() {
            _ if is_elsewhere => (None, Admitted::unknown()),
            // KMS's default policy leaves it to IAM.
            Field::Missing => (Some(true), Admitted::default()),
            Field::Unknown => (None, Admitted::unknown()),
            Field::Known(policy, _) => {
                let admits = iam::admits(&policy, &iam::ENCRYPT, |_| true);
                (iam::delegates(&policy), admits)
            }
        };
        Key {
            site: self.site(),
            delegates,
            admits,
        }
    }

    pub(super) fn alarm(&self) -> Alarm {
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
        let threshold = self.field(&["threshold"], |it| match it {
            Value::String(text) => text.parse().ok(),
            number => number.as_f64(),
        });
        Alarm {
            site: self.site(),
            metrics: vec![metric],
            rings_at_one: Alarm::rings(threshold, &self.text(&["comparison_operator"])),
        }
    }
}

/// The binary in a zip of cargo-lambda, `target/lambda/BINARY/bootstrap.zip`.
fn binary(zip: &str) -> Option<String> {
    let folder = zip.strip_suffix("/bootstrap.zip")?;
    let (_, binary) = folder.rsplit_once("/lambda/")?;
    Some(binary.to_owned())
}
