//! The resources of a template.

use super::evaluate::{View, place_at};
use super::node::Entry;
use super::{Resource, Template, flag, permissions, unread};
use crate::field::{Field, Path, below};
use crate::iam;
use crate::model::{
    Alarm, Deployment, Form, Function, Key, Mapping, Metric, Pollers, Queue, Reference, Table,
    Target,
};
use std::time::Duration;

impl<'a> Template<'a> {
    /// A function's property, or its default in SAM's `Globals`.
    fn function_property(&self, resource: &Resource<'a>, name: &str) -> View<'a> {
        match self.at(resource, &[name]) {
            View::Missing if resource.kind == "AWS::Serverless::Function" => {
                self.globals(&["Function", name])
            }
            given => given,
        }
    }

    fn globals(&self, names: &[&str]) -> View<'a> {
        let Some(globals) = self.root.get("Globals") else {
            return View::Missing;
        };
        let globals = View::Node(globals, vec!["Globals".into()]);
        self.evaluator.dig(&globals, names)
    }

    pub(super) fn function(&self, resource: &Resource<'a>) -> Function {
        let evaluator = &self.evaluator;
        let property = |name| self.function_property(resource, name);
        let number = |name| evaluator.field(&property(name), |text| text.parse::<u64>().ok());
        let shared_policies = self.globals(&["Function", "Policies"]);
        let mut function = Function {
            site: resource.site.clone(),
            role: evaluator.field(&property("Role"), |text| Some(text.to_owned())),
            timeout: number("Timeout").and_then(|seconds| Some(Duration::from_secs(seconds))),
            runtime: evaluator.literal(&property("Runtime")),
            code: evaluator.literal(&property("CodeUri")),
            binary: evaluator.literal(&evaluator.dig(
                &View::Node(evaluator.resources[&*resource.site.id], Path::new()),
                &["Metadata", "BuildProperties", "Binary"],
            )),
            memory_mb: number("MemorySize").and_then(|size| u32::try_from(size).ok()),
            capacity_provider: evaluator.known(&property("CapacityProviderConfig")),
            reserved_concurrency: number("ReservedConcurrentExecutions"),
            environment: Default::default(),
            references: Default::default(),
            has_async_dead_letters: ["DeadLetterQueue", "DeadLetterConfig", "EventInvokeConfig"]
                .into_iter()
                .any(|name| !matches!(property(name), View::Missing)),
            permissions: permissions::of_function(evaluator, resource, shared_policies),
        };
        let own = self.at(resource, &["Environment", "Variables"]);
        let shared = match resource.kind {
            "AWS::Serverless::Function" => self.globals(&["Function", "Environment", "Variables"]),
            _ => View::Missing,
        };
        for variables in [shared, own] {
            let View::Node(node, _) = &variables else {
                continue;
            };
            for entry in node.entries().iter().filter(|_| node.intrinsic().is_none()) {
                let view = evaluator.get(&variables, &entry.key);
                let name = || entry.key.clone();
                let text = evaluator.field(&view, |text| Some(text.to_owned()));
                function.environment.insert(name(), text);
                function.references.insert(name(), evaluator.target(&view));
            }
        }
        function
    }

    /// The queues in a SAM function's `Events`.
    pub(super) fn events(
        &self,
        entry: &'a Entry,
        function: &Resource<'a>,
        deployment: &mut Deployment,
    ) {
        let View::Node(events, path) = self.at(function, &["Events"]) else {
            return;
        };
        for event in events.entries() {
            let mut path = path.clone();
            path.push((&*event.key).into());
            let id = format!("{}.{}", entry.key, event.key);
            let Some(event) = self.resource(event, &id, path.clone()) else {
                deployment.unread.push(unread(event, &path));
                continue;
            };
            match event.kind {
                "SQS" => {
                    let name = function.site.id.clone();
                    let function = Field::Known(Target::Own(name), event.site.place.clone());
                    let queue = self.target(&event, "Queue");
                    let reference = self.reference(&event, &["Queue"], Form::Arn);
                    deployment.references.push(reference);
                    let mapping = self.mapping(event, function, queue);
                    deployment.mappings.push(mapping);
                }
                // SAM creates the queue and its mapping itself.
                "SNS" if !matches!(self.at(&event, &["SqsSubscription"]), View::Missing) => {
                    deployment.has_more = true;
                }
                _ => {}
            }
        }
    }

    pub(super) fn mapping(
        &self,
        resource: Resource<'a>,
        function: Field<Target>,
        queue: Field<Target>,
    ) -> Mapping {
        let types = self.at(&resource, &["FunctionResponseTypes"]);
        let reports_failures = self.evaluator.list(&types).and_then(|types| {
            let types = types.iter();
            let types = types.map(|name| self.evaluator.literal(name).known().cloned());
            let types: Vec<Option<String>> = types.collect();
            match types.contains(&Some("ReportBatchItemFailures".to_owned())) {
                false if types.contains(&None) => None,
                reports => Some(reports),
            }
        });
        Mapping {
            filter: self
                .evaluator
                .list(&self.at(&resource, &["FilterCriteria", "Filters"]))
                .and_then(|filters| (!filters.is_empty()).then_some(())),
            reports_failures,
            batch_size: self.number(&resource, &["BatchSize"]),
            window: self.seconds(&resource, &["MaximumBatchingWindowInSeconds"]),
            maximum_concurrency: self.number(&resource, &["ScalingConfig", "MaximumConcurrency"]),
            pollers: self
                .evaluator
                .known(&self.at(&resource, &["ProvisionedPollerConfig"]))
                .and_then(|()| {
                    let count = |name| self.number(&resource, &["ProvisionedPollerConfig", name]);
                    Some(Pollers {
                        minimum: count("MinimumPollers"),
                        maximum: count("MaximumPollers"),
                    })
                }),
            is_enabled: self.flag(&resource, &["Enabled"]),
            site: resource.site,
            function,
            queue,
        }
    }

    pub(super) fn queue(&self, resource: Resource<'a>) -> Queue {
        Queue {
            arn: Field::Unknown,
            name: self.text(&resource, &["QueueName"]),
            is_fifo: self.flag(&resource, &["FifoQueue"]),
            visibility_timeout: self.seconds(&resource, &["VisibilityTimeout"]),
            retention: self.seconds(&resource, &["MessageRetentionPeriod"]),
            delay: self.seconds(&resource, &["DelaySeconds"]),
            content_based_deduplication: self.flag(&resource, &["ContentBasedDeduplication"]),
            throughput_limit: self.text(&resource, &["FifoThroughputLimit"]),
            deduplication_scope: self.text(&resource, &["DeduplicationScope"]),
            dead_letter_queue: self
                .evaluator
                .target(&self.at(&resource, &["RedrivePolicy", "deadLetterTargetArn"])),
            max_receive_count: self.number(&resource, &["RedrivePolicy", "maxReceiveCount"]),
            is_encrypted_by_sqs: self.flag(&resource, &["SqsManagedSseEnabled"]),
            kms_key: self.text(&resource, &["KmsMasterKeyId"]),
            key: self.key(&resource, &["KmsMasterKeyId"]),
            denies_plain_http: Field::Missing,
            admits: Vec::new(),
            site: resource.site,
        }
    }

    pub(super) fn table(&self, resource: Resource<'a>) -> Table {
        let schema = self.evaluator.list(&self.at(&resource, &["KeySchema"]));
        let key = |kind: &str| {
            let keys = schema.known()?;
            let key = keys.iter().find(|key| {
                let kind_of = self.evaluator.literal_at(key, "KeyType");
                kind_of.known().is_some_and(|of| of == kind)
            })?;
            Some(self.evaluator.literal_at(key, "AttributeName"))
        };
        let types = self.at(&resource, &["AttributeDefinitions"]);
        let types = self.evaluator.list(&types);
        let attribute_type = |definition: &View<'a>| {
            let of = |name: &str| self.evaluator.literal_at(definition, name).known().cloned();
            of("AttributeName").zip(of("AttributeType"))
        };
        let types = types.known().into_iter().flatten();
        Table {
            name: self.text(&resource, &["TableName"]),
            partition_key: key("HASH").unwrap_or(Field::Unknown),
            sort_key: key("RANGE").unwrap_or(Field::Missing),
            attribute_types: types.filter_map(attribute_type).collect(),
            ttl_attribute: self.text(&resource, &["TimeToLiveSpecification", "AttributeName"]),
            ttl_is_enabled: self.flag(&resource, &["TimeToLiveSpecification", "Enabled"]),
            is_protected: match resource.kind {
                "AWS::DynamoDB::GlobalTable" => self.protected_replicas(&resource),
                _ => self.flag(&resource, &["DeletionProtectionEnabled"]),
            },
            is_strongly_consistent: self
                .text(&resource, &["MultiRegionConsistency"])
                .and_then(|mode| Some(mode == "STRONG")),
            key: self.key(&resource, &["SSESpecification", "KMSMasterKeyId"]),
            site: resource.site,
        }
    }

    /// Whether every replica of a global table is protected, at the place of the first that is not.
    fn protected_replicas(&self, table: &Resource<'a>) -> Field<bool> {
        const NAME: &str = "DeletionProtectionEnabled";
        let replicas = self.evaluator.list(&self.at(table, &["Replicas"]));
        let mut all = Field::Unknown;
        for replica in replicas.known().into_iter().flatten() {
            let own = self
                .evaluator
                .field(&self.evaluator.get(replica, NAME), flag);
            match (own, replica) {
                (Field::Known(true, place), _) => all = Field::Known(true, place),
                (Field::Missing, View::Node(node, path)) => {
                    let path = below(path, &[NAME]);
                    return Field::Known(false, place_at(&path, node.line, node.column));
                }
                (unprotected, _) => return unprotected,
            }
        }
        all
    }

    pub(super) fn alarm(&self, resource: Resource<'a>, references: &mut Vec<Reference>) -> Alarm {
        let evaluator = &self.evaluator;
        let mut metrics = Vec::new();
        let own = &resource.properties;
        let several = evaluator.get(own, "Metrics");
        let mut metric = |view: &View<'a>| metrics.push(self.metric(&resource, view, references));
        match evaluator.list(&several) {
            Field::Missing => metric(own),
            Field::Unknown => metrics.push(Metric::UNKNOWN),
            Field::Known(several, _) => {
                for one in several {
                    let one = evaluator.dig(&one, &["MetricStat", "Metric"]);
                    if !matches!(one, View::Missing) {
                        metric(&one);
                    }
                }
            }
        }
        let threshold = evaluator.field(&evaluator.get(own, "Threshold"), |it| it.parse().ok());
        let operator = evaluator.literal_at(own, "ComparisonOperator");
        Alarm {
            rings_at_one: Alarm::rings(threshold, &operator),
            site: resource.site,
            metrics,
        }
    }

    fn metric(
        &self,
        alarm: &Resource<'a>,
        view: &View<'a>,
        references: &mut Vec<Reference>,
    ) -> Metric {
        let evaluator = &self.evaluator;
        let mut of = |dimension: &View<'a>| {
            let name = evaluator.literal_at(dimension, "Name");
            match name.known() {
                Some(name) if name != "QueueName" => None,
                Some(_) => {
                    let queue = evaluator.get(dimension, "Value");
                    references.push(evaluator.reference(&alarm.site, &queue, Form::Name));
                    Some(evaluator.target(&queue))
                }
                None => Some(Field::Unknown),
            }
        };
        let queue = match evaluator.list(&evaluator.get(view, "Dimensions")) {
            Field::Missing => Field::Missing,
            Field::Unknown => Field::Unknown,
            Field::Known(all, _) => all.iter().find_map(&mut of).unwrap_or(Field::Missing),
        };
        Metric {
            namespace: evaluator.literal_at(view, "Namespace"),
            name: evaluator.literal_at(view, "MetricName"),
            queue,
        }
    }

    /// The key that a property refers to, also by its alias.
    fn key(&self, resource: &Resource<'a>, names: &[&str]) -> Field<Target> {
        let key = self.evaluator.target(&self.at(resource, names));
        self.behind(key, "AWS::KMS::Alias", "TargetKeyId")
    }

    pub(super) fn kms_key(&self, resource: Resource<'a>) -> Key {
        let policy = self.at(&resource, &["KeyPolicy"]);
        let document = self.evaluator.json(&policy);
        let is_default = matches!(policy, View::Missing);
        Key {
            // KMS's default policy leaves it to IAM.
            delegates: is_default || iam::delegates(&document),
            admits: match is_default {
                true => Vec::new(),
                false => iam::admits(&document, &iam::ENCRYPT, |_| true),
            },
            site: resource.site,
        }
    }
}
