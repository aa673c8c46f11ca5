//! SAM and CloudFormation templates, in YAML and JSON.

mod edit;
mod evaluate;
mod node;
mod permissions;
mod resources;
mod write;

use crate::error::ReadError;
use crate::field::{Field, Path};
use crate::iam;
use crate::model::{Deployment, Format, Queue, Sender, Site, Target, Unread};
pub(crate) use edit::{Change, apply};
use evaluate::{Evaluator, View, place_at};
use node::{Entry, Kind, Node};
use std::collections::{BTreeMap, BTreeSet};
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
        deployment.constructs = self.constructs();
        if !deployment.constructs.is_empty() {
            deployment.format = Format::CdkTemplate;
        }
        deployment
    }

    /// The paths that `cdk synth` writes into the metadata of the resources.
    fn constructs(&self) -> BTreeMap<String, String> {
        let construct = |entry: &Entry| {
            let path = entry.value.get("Metadata")?.get("aws:cdk:path")?.scalar()?;
            Some((entry.key.clone(), path.to_owned()))
        };
        self.resources.iter().filter_map(construct).collect()
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
