//! The resources of a template.

use super::node::Entry;
use super::view::View;
use super::{Resource, Template, permissions, unread};
use crate::field::{Field, below};
use crate::iam;
use crate::model::{
    Alarm, Deployment, Form, Function, Key, Mapping, Metric, Pollers, Queue, Reference, Table,
    Target, Unread,
};

impl<'a> Template<'a> {
    /// A function's property, or its default in SAM's `Globals`.
    fn function_property(&self, resource: &Resource<'a>, name: &str) -> View<'a> {
        let own = resource.at(&[name]);
        match resource.kind == "AWS::Serverless::Function" && own.node.is_missing() {
            true => self.globals(&["Function", name]).unwrap_or(own),
            false => own,
        }
    }

    fn globals(&self, names: &[&str]) -> Option<View<'a>> {
        let globals = self.root.get("Globals")?;
        let globals = self.evaluator.view(globals, vec!["Globals".into()]);
        Some(globals.dig(names))
    }

    pub(super) fn function(&self, resource: &Resource<'a>) -> Function {
        let property = |name| self.function_property(resource, name);
        let metadata = self.evaluator.resource(&resource.site.id).get("Metadata");
        let shared_policies = self.globals(&["Function", "Policies"]);
        let mut function = Function {
            site: resource.site.clone(),
            role: property("Role").text(),
            timeout: property("Timeout").seconds(),
            runtime: property("Runtime").literal(),
            code: property("CodeUri").literal(),
            binary: metadata.dig(&["BuildProperties", "Binary"]).literal(),
            memory_mb: property("MemorySize").field(|text| text.parse().ok()),
            capacity_provider: property("CapacityProviderConfig").is_set(),
            reserved_concurrency: property("ReservedConcurrentExecutions").number(),
            environment: Default::default(),
            references: Default::default(),
            has_more_variables: false,
            has_async_dead_letters: ["DeadLetterQueue", "DeadLetterConfig", "EventInvokeConfig"]
                .into_iter()
                .any(|name| !property(name).node.is_missing()),
            durable: property("DurableConfig").is_set(),
            permissions: permissions::of_function(self.evaluator, resource, shared_policies),
        };
        let own = resource.at(&["Environment", "Variables"]);
        let shared = match resource.kind {
            "AWS::Serverless::Function" => self.globals(&["Function", "Environment", "Variables"]),
            _ => None,
        };
        for variables in shared.into_iter().chain([own]) {
            // No entry has an empty name.
            function.has_more_variables |= variables.get("").node.is_unknown();
            let Some(node) = variables.node.known() else {
                continue;
            };
            for entry in node.entries().iter().filter(|_| node.intrinsic().is_none()) {
                let (name, value) = (&entry.key, variables.get(&entry.key));
                if value.node.is_missing() {
                    continue;
                }
                function.environment.insert(name.clone(), value.text());
                function.references.insert(name.clone(), value.target());
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
        let Field::Known(events, place) = function.at(&["Events"]).node else {
            return;
        };
        for event in events.entries() {
            let path = below(&place.path, &[&event.key]);
            let id = format!("{}.{}", entry.key, event.key);
            let Some(event) = self.resource(event, &id, path.clone()) else {
                deployment.unread.push(unread(event, &path));
                continue;
            };
            match event.kind {
                "SQS" => {
                    let name = function.site.id.clone();
                    let function = Field::Known(Target::Own(name), event.site.place.clone());
                    let queue = event.at(&["Queue"]);
                    let reference = queue.reference(&event.site, Form::Arn);
                    deployment.references.push(reference);
                    let mapping = mapping(event, function, queue.target());
                    deployment.mappings.push(mapping);
                }
                // SAM creates the mapping itself, and also the queue if the event names none.
                "SNS" if event.at(&["SqsSubscription"]).flag().or(false) != Some(false) => {
                    deployment.has_more = true;
                    let place = event.site.place;
                    deployment.unread.push(Unread { place, name: id });
                }
                _ => {}
            }
        }
    }

    pub(super) fn queue(&self, resource: Resource<'a>) -> Queue {
        let at = |name| resource.at(&[name]);
        let redrive = at("RedrivePolicy");
        Queue {
            arn: Field::Unknown,
            name: at("QueueName").literal(),
            is_fifo: at("FifoQueue").flag(),
            visibility_timeout: at("VisibilityTimeout").seconds(),
            retention: at("MessageRetentionPeriod").seconds(),
            delay: at("DelaySeconds").seconds(),
            content_based_deduplication: at("ContentBasedDeduplication").flag(),
            throughput_limit: at("FifoThroughputLimit").literal(),
            deduplication_scope: at("DeduplicationScope").literal(),
            dead_letter_queue: redrive.get("deadLetterTargetArn").target(),
            max_receive_count: redrive.get("maxReceiveCount").number(),
            is_encrypted_by_sqs: at("SqsManagedSseEnabled").flag(),
            kms_key: at("KmsMasterKeyId").literal(),
            key: self.key(&at("KmsMasterKeyId")),
            denies_plain_http: Field::Missing,
            admits: Default::default(),
            site: resource.site,
        }
    }

    pub(super) fn table(&self, resource: Resource<'a>) -> Table {
        let at = |name| resource.at(&[name]);
        let schema = at("KeySchema");
        let kind = |key: &View<'a>| key.get("KeyType").literal();
        let key = |wanted: &str| {
            let keys = schema.items();
            let is_wanted = |key: &&View<'a>| kind(key).known().is_some_and(|it| it == wanted);
            let may_be_wanted = |key: &View<'a>| kind(key).is_unknown();
            match keys.iter().find(is_wanted) {
                Some(key) => key.get("AttributeName").literal(),
                None if schema.node.is_unknown() || keys.iter().any(may_be_wanted) => {
                    Field::Unknown
                }
                None => Field::Missing,
            }
        };
        let types = at("AttributeDefinitions").items().into_iter();
        let attribute_type = |definition: View<'a>| {
            let of = |name: &str| definition.get(name).literal().known().cloned();
            of("AttributeName").zip(of("AttributeType"))
        };
        let ttl = at("TimeToLiveSpecification");
        let consistency = at("MultiRegionConsistency").literal();
        Table {
            name: at("TableName").literal(),
            partition_key: key("HASH"),
            sort_key: key("RANGE"),
            attribute_types: types.filter_map(attribute_type).collect(),
            ttl_attribute: ttl.get("AttributeName").literal(),
            ttl_is_enabled: ttl.get("Enabled").flag(),
            is_protected: match resource.kind {
                "AWS::DynamoDB::GlobalTable" => protected_replicas(&resource),
                _ => at(PROTECTED).flag(),
            },
            is_strongly_consistent: consistency.and_then(|mode| Some(mode == "STRONG")),
            key: self.key(&resource.at(&["SSESpecification", "KMSMasterKeyId"])),
            site: resource.site,
        }
    }

    /// The key that a value refers to, also by its alias.
    fn key(&self, value: &View<'a>) -> Field<Target> {
        self.behind(value.target(), "AWS::KMS::Alias", "TargetKeyId")
    }
}

pub(super) fn mapping(
    resource: Resource<'_>,
    function: Field<Target>,
    queue: Field<Target>,
) -> Mapping {
    let at = |name| resource.at(&[name]);
    let reports_failures = at("FunctionResponseTypes").list().and_then(|types| {
        let types = types.iter().map(|name| name.literal().known().cloned());
        let types: Vec<Option<String>> = types.collect();
        match types.contains(&Some("ReportBatchItemFailures".to_owned())) {
            false if types.contains(&None) => None,
            reports => Some(reports),
        }
    });
    let filters = resource.at(&["FilterCriteria", "Filters"]).list();
    let pollers = at("ProvisionedPollerConfig");
    Mapping {
        filter: filters.and_then(|filters| (!filters.is_empty()).then_some(())),
        reports_failures,
        batch_size: at("BatchSize").number(),
        window: at("MaximumBatchingWindowInSeconds").seconds(),
        maximum_concurrency: at("ScalingConfig").get("MaximumConcurrency").number(),
        pollers: pollers.is_set().and_then(|()| {
            Some(Pollers {
                minimum: pollers.get("MinimumPollers").number(),
                maximum: pollers.get("MaximumPollers").number(),
            })
        }),
        is_enabled: at("Enabled").flag(),
        site: resource.site,
        function,
        queue,
    }
}

const PROTECTED: &str = "DeletionProtectionEnabled";

/// Whether every replica of a global table is protected, at the place of the first that is not.
fn protected_replicas(table: &Resource<'_>) -> Field<bool> {
    let mut all = Field::Unknown;
    for replica in table.at(&["Replicas"]).items() {
        match (replica.get(PROTECTED).flag(), replica.node) {
            (Field::Known(true, place), _) => all = Field::Known(true, place),
            (Field::Missing, Field::Known(_, mut place)) => {
                place.path.push(PROTECTED.into());
                return Field::Known(false, place);
            }
            (unprotected, _) => return unprotected,
        }
    }
    all
}

pub(super) fn alarm(resource: Resource<'_>, references: &mut Vec<Reference>) -> Alarm {
    let mut metrics = Vec::new();
    let own = &resource.properties;
    let mut add = |view: &View<'_>| metrics.push(metric(&resource, view, references));
    match own.get("Metrics").list() {
        Field::Missing => add(own),
        Field::Unknown => metrics.push(Metric::UNKNOWN),
        Field::Known(several, _) => {
            for one in several {
                let one = one.dig(&["MetricStat", "Metric"]);
                if !one.node.is_missing() {
                    add(&one);
                }
            }
        }
    }
    let threshold = own.get("Threshold").field(|it| it.parse().ok());
    let operator = own.get("ComparisonOperator").literal();
    Alarm {
        rings_at_one: Alarm::rings(threshold, &operator),
        site: resource.site,
        metrics,
    }
}

fn metric(alarm: &Resource<'_>, view: &View<'_>, references: &mut Vec<Reference>) -> Metric {
    let mut of = |dimension: &View<'_>| {
        let name = dimension.get("Name").literal();
        match name.known() {
            Some(name) if name != "QueueName" => None,
            Some(_) => {
                let queue = dimension.get("Value");
                references.push(queue.reference(&alarm.site, Form::Name));
                Some(queue.target())
            }
            None => name.is_unknown().then_some(Field::Unknown),
        }
    };
    let queue = match view.get("Dimensions").list() {
        Field::Missing => Field::Missing,
        Field::Unknown => Field::Unknown,
        Field::Known(all, _) => all.iter().find_map(&mut of).unwrap_or(Field::Missing),
    };
    Metric {
        namespace: view.get("Namespace").literal(),
        name: view.get("MetricName").literal(),
        queue,
    }
}

pub(super) fn kms_key(resource: Resource<'_>) -> Key {
    let policy = resource.at(&["KeyPolicy"]);
    let (is_default, document) = (policy.node.is_missing(), policy.json());
    Key {
        // KMS's default policy leaves it to IAM.
        delegates: match is_default {
            true => Some(true),
            false => iam::delegates(&document),
        },
        admits: match is_default {
            true => Default::default(),
            false => iam::admits(&document, &iam::ENCRYPT, |_| true),
        },
        site: resource.site,
    }
}
