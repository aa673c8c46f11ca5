//! SAM and CloudFormation templates, in YAML and JSON.

mod edit;
mod evaluate;
mod node;
mod permissions;
mod write;

use crate::error::ReadError;
use crate::field::{Field, Path, below};
use crate::iam;
use crate::model::{
    Alarm, Deployment, Function, Key, Mapping, Metric, Pollers, Queue, Sender, Site, Table, Target,
    Unread,
};
pub(crate) use edit::{Change, apply};
use evaluate::{Evaluator, View, place_at};
use node::{Entry, Kind, Node};
use std::collections::BTreeSet;
use std::time::Duration;
pub(crate) use write::{Style, snippet};

/// Reads a template: first without its conditions, and then once more for each that chooses a value, if it holds and if
/// it does not.
pub(crate) fn read(text: &str) -> Result<Vec<Deployment>, ReadError> {
    let root = Node::parse(text)?;
    let resources = root.get("Resources").map_or(&[][..], Node::entries);
    if resources.is_empty()
        && ["service", "provider"]
            .iter()
            .all(|it| root.get(it).is_some())
    {
        return Err(ReadError::Serverless);
    }
    if resources.is_empty() {
        return Err(ReadError::NoResources);
    }
    let mut conditions = BTreeSet::new();
    root.conditions(&mut conditions);
    let assumed = conditions
        .into_iter()
        .flat_map(|name| [(name, true), (name, false)]);
    let assumed = [None].into_iter().chain(assumed.map(Some));
    let deployment = |assumed| {
        let evaluator = Evaluator::new(resources, assumed);
        let root = &root;
        let template = Template {
            evaluator,
            root,
            resources,
        };
        template.deployment()
    };
    Ok(assumed.map(deployment).collect())
}

fn unread(entry: &Entry, path: &Path) -> Unread {
    Unread {
        place: place_at(path, entry.line, entry.column),
        name: entry.key.to_string(),
    }
}

struct Template<'a> {
    evaluator: Evaluator<'a>,
    root: &'a Node,
    resources: &'a [Entry],
}

/// A resource, or an event of a SAM function.
struct Resource<'a> {
    site: Site,
    kind: &'a str,
    properties: View<'a>,
}

impl<'a> Template<'a> {
    fn deployment(&self) -> Deployment {
        let mut deployment = Deployment::default();
        let mut policies = Vec::new();
        for entry in self.resources {
            let path: Path = vec!["Resources".into(), (&*entry.key).into()];
            let Some(resource) = self.resource(entry, &entry.key, path.clone()) else {
                // `Fn::ForEach::…` creates resources that this parser does not expand.
                deployment.has_more = true;
                deployment.unread.push(unread(entry, &path));
                continue;
            };
            // An alarm, a policy or a stack that exists in the other case is not missing in this one.
            if self.evaluator.is_absent(&entry.value) && has_settings(resource.kind) {
                continue;
            }
            match resource.kind {
                "AWS::Lambda::Function" => deployment.functions.push(self.function(&resource)),
                "AWS::Serverless::Function" => {
                    deployment.functions.push(self.function(&resource));
                    self.events(entry, &resource, &mut deployment);
                }
                "AWS::Lambda::EventSourceMapping" => {
                    let function = self.behind_alias(self.target(&resource, "FunctionName"));
                    let queue = self.target(&resource, "EventSourceArn");
                    if may_be_sqs(&queue, &self.evaluator) {
                        let mapping = self.mapping(resource, function, queue);
                        deployment.mappings.push(mapping);
                    }
                }
                "AWS::SQS::Queue" => deployment.queues.push(self.queue(resource)),
                "AWS::SQS::QueuePolicy" | "AWS::SQS::QueueInlinePolicy" => policies.push(resource),
                "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => {
                    deployment.tables.push(self.table(resource))
                }
                "AWS::KMS::Key" => deployment.keys.push(self.kms_key(resource)),
                "AWS::CloudWatch::Alarm" => deployment.alarms.push(self.alarm(resource)),
                "AWS::SNS::Subscription" => {
                    let protocol = self.text(&resource, &["Protocol"]);
                    if protocol.known().is_some_and(|protocol| protocol == "sqs") {
                        let queue = self.target(&resource, "Endpoint");
                        deployment.senders.push(sender(resource.site, "SNS", queue));
                    }
                }
                "AWS::Events::Rule" => {
                    let targets = self.evaluator.get(&resource.properties, "Targets");
                    for target in self.evaluator.list(&targets).known().into_iter().flatten() {
                        let queue = self.evaluator.target_at(target, "Arn");
                        let rule = sender(resource.site.clone(), "EventBridge", queue);
                        deployment.senders.push(rule);
                    }
                }
                "AWS::CloudFormation::Stack" | "AWS::Serverless::Application" => {
                    deployment.has_more = true;
                }
                kind if kind.ends_with("::MODULE") => deployment.has_more = true,
                _ => {}
            }
        }
        for policy in &policies {
            self.queue_policy(policy, &mut deployment.queues);
        }
        deployment.has_more |= self.has_macros();
        deployment
    }

    fn queue_policy(&self, policy: &Resource<'a>, queues: &mut [Queue]) {
        let evaluator = &self.evaluator;
        let named = match self.at(policy, &["Queues"]) {
            View::Missing => self.at(policy, &["Queue"]),
            several => several,
        };
        let named = evaluator.list(&named);
        let targets: Vec<Field<Target>> = match named.known() {
            Some(named) => named.iter().map(|it| evaluator.target(it)).collect(),
            None => vec![Field::Unknown],
        };
        let document = evaluator.json(&self.at(policy, &["PolicyDocument"]));
        let statements = evaluator.list(&self.at(policy, &["PolicyDocument", "Statement"]));
        let place = statements.place().unwrap_or(&policy.site.place);
        for queue in queues {
            let is_queue = |target: &Target| target.is(&queue.site.id);
            if targets.iter().any(|it| it.known().is_some_and(is_queue)) {
                let denies = iam::denies_plain_http(&document, |text| {
                    let target = evaluator.target_of(text);
                    target.is_none_or(|target| is_queue(&target))
                });
                queue.has_policy(Field::Known(denies, place.clone()));
            } else if targets.iter().any(|it| it.known().is_none()) {
                // The policy may be for this queue.
                queue.has_policy(Field::Unknown);
            }
        }
    }

    /// Whether a transform other than SAM rewrites the template.
    fn has_macros(&self) -> bool {
        let is_known = |transform: &Node| {
            let name = transform.scalar().unwrap_or_default();
            name.starts_with("AWS::Serverless-") || name == "AWS::LanguageExtensions"
        };
        let transforms = self.root.get("Transform");
        transforms.is_some_and(|transforms| match &transforms.kind {
            Kind::Sequence { items, .. } => !items.iter().all(is_known),
            _ => !is_known(transforms),
        })
    }

    fn resource(&self, entry: &'a Entry, id: &str, path: Path) -> Option<Resource<'a>> {
        let kind = entry.value.get("Type")?.scalar()?;
        let here = View::Node(&entry.value, path.clone());
        let mut properties = path.clone();
        properties.push("Properties".into());
        Some(Resource {
            site: Site {
                id: id.to_owned(),
                place: place_at(&path, entry.line, entry.column),
                properties,
            },
            kind,
            properties: self.evaluator.get(&here, "Properties"),
        })
    }

    fn at(&self, resource: &Resource<'a>, names: &[&str]) -> View<'a> {
        // Without properties, every property is missing.
        self.evaluator.dig(&resource.properties, names)
    }

    fn text(&self, resource: &Resource<'a>, names: &[&str]) -> Field<String> {
        self.evaluator.literal(&self.at(resource, names))
    }

    fn number(&self, resource: &Resource<'a>, names: &[&str]) -> Field<u64> {
        self.evaluator
            .field(&self.at(resource, names), |text| text.parse().ok())
    }

    fn seconds(&self, resource: &Resource<'a>, names: &[&str]) -> Field<Duration> {
        self.number(resource, names)
            .and_then(|seconds| Some(Duration::from_secs(seconds)))
    }

    fn flag(&self, resource: &Resource<'a>, names: &[&str]) -> Field<bool> {
        self.evaluator.field(&self.at(resource, names), flag)
    }

    fn target(&self, resource: &Resource<'a>, name: &str) -> Field<Target> {
        self.evaluator.target(&self.at(resource, &[name]))
    }

    /// Resolves an alias or a version to its function.
    fn behind_alias(&self, function: Field<Target>) -> Field<Target> {
        let version = self.behind(function, "AWS::Lambda::Alias", "FunctionName");
        self.behind(version, "AWS::Lambda::Version", "FunctionName")
    }

    /// The key that a property refers to, also by its alias.
    fn key(&self, resource: &Resource<'a>, names: &[&str]) -> Field<Target> {
        let key = self.evaluator.target(&self.at(resource, names));
        self.behind(key, "AWS::KMS::Alias", "TargetKeyId")
    }

    /// The target of this property of a resource of this kind, instead of the resource.
    fn behind(&self, target: Field<Target>, kind: &str, property: &str) -> Field<Target> {
        let Some(id) = self.evaluator.of_type(&target, kind) else {
            return target;
        };
        let path: Path = vec!["Resources".into(), id.into()];
        let resource = View::Node(self.evaluator.resources[id], path);
        let names = ["Properties", property];
        self.evaluator
            .target(&self.evaluator.dig(&resource, &names))
    }

    fn kms_key(&self, resource: Resource<'a>) -> Key {
        let policy = self.at(&resource, &["KeyPolicy"]);
        Key {
            // KMS's default policy leaves it to IAM.
            delegates: matches!(policy, View::Missing)
                || iam::delegates(&self.evaluator.json(&policy)),
            site: resource.site,
        }
    }

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

    fn function(&self, resource: &Resource<'a>) -> Function {
        let evaluator = &self.evaluator;
        let property = |name| self.function_property(resource, name);
        let number = |name| evaluator.field(&property(name), |text| text.parse::<u64>().ok());
        let shared_policies = self.globals(&["Function", "Policies"]);
        let mut function = Function {
            site: resource.site.clone(),
            role: evaluator.literal(&property("Role")),
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
    fn events(&self, entry: &'a Entry, function: &Resource<'a>, deployment: &mut Deployment) {
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

    fn mapping(
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

    fn queue(&self, resource: Resource<'a>) -> Queue {
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
            site: resource.site,
        }
    }

    fn table(&self, resource: Resource<'a>) -> Table {
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

    fn alarm(&self, resource: Resource<'a>) -> Alarm {
        let evaluator = &self.evaluator;
        let mut metrics = Vec::new();
        let own = &resource.properties;
        let several = evaluator.get(own, "Metrics");
        match evaluator.list(&several) {
            Field::Missing => metrics.push(self.metric(own)),
            Field::Unknown => metrics.push(Metric::UNKNOWN),
            Field::Known(several, _) => {
                for metric in several {
                    let metric = evaluator.dig(&metric, &["MetricStat", "Metric"]);
                    if !matches!(metric, View::Missing) {
                        metrics.push(self.metric(&metric));
                    }
                }
            }
        }
        Alarm {
            site: resource.site,
            metrics,
        }
    }

    fn metric(&self, view: &View<'a>) -> Metric {
        let evaluator = &self.evaluator;
        let of = |dimension: &View<'a>| {
            let name = evaluator.literal_at(dimension, "Name");
            match name.known() {
                Some(name) if name != "QueueName" => None,
                Some(_) => Some(evaluator.target_at(dimension, "Value")),
                None => Some(Field::Unknown),
            }
        };
        let queue = match evaluator.list(&evaluator.get(view, "Dimensions")) {
            Field::Missing => Field::Missing,
            Field::Unknown => Field::Unknown,
            Field::Known(all, _) => all.iter().find_map(of).unwrap_or(Field::Missing),
        };
        Metric {
            namespace: evaluator.literal_at(view, "Namespace"),
            name: evaluator.literal_at(view, "MetricName"),
            queue,
        }
    }
}

fn sender(site: Site, service: &'static str, queue: Field<Target>) -> Sender {
    Sender {
        site,
        service,
        queue,
    }
}

/// Whether rules judge a resource of this kind by its own settings.
fn has_settings(kind: &str) -> bool {
    let kinds = [
        "AWS::Lambda::Function",
        "AWS::Serverless::Function",
        "AWS::Lambda::EventSourceMapping",
        "AWS::SQS::Queue",
        "AWS::DynamoDB::Table",
        "AWS::DynamoDB::GlobalTable",
    ];
    kinds.contains(&kind)
}

/// Whether the source may be a queue. Kinesis and other services have event source mappings too.
fn may_be_sqs(source: &Field<Target>, evaluator: &Evaluator<'_>) -> bool {
    match source.known() {
        Some(Target::Other(arn)) => arn.contains(":sqs:"),
        _ => evaluator.of_type(source, "AWS::SQS::Queue").is_some(),
    }
}

/// Parses a boolean of YAML 1.1, which SAM reads.
fn flag(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}
