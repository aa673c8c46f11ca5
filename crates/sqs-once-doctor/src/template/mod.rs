//! SAM and CloudFormation templates, in YAML and JSON.

mod conditions;
mod edit;
mod evaluate;
mod node;
mod permissions;
mod resources;
mod senders;
mod view;
mod write;

use crate::error::ReadError;
use crate::field::{Field, Path, below};
use crate::iam;
use crate::model::{Admitted, Deployment, Form, Format, Site, Target, Unread};
use conditions::{Case, cases};
pub(crate) use edit::{Change, apply};
use evaluate::{Evaluator, place, place_at};
use node::{Entry, Kind, Node};
use resources::{alarm, kms_key, mapping};
use serde_json::json;
use std::collections::BTreeMap;
use view::View;
pub(crate) use write::{Style, snippet};

/// Reads a template without its conditions, and then in each case of them.
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
    let deployment = |case: &Case| {
        let template = Template {
            evaluator: &Evaluator::new(&root, case),
            root: &root,
            resources,
        };
        let mut deployment = template.deployment();
        deployment.case.clone_from(case);
        deployment
    };
    let whole = Case::new();
    let cases = cases(&root);
    Ok([&whole].into_iter().chain(&cases).map(deployment).collect())
}

fn unread(entry: &Entry, path: &Path) -> Unread {
    Unread {
        place: place_at(path, entry.line, entry.column),
        name: entry.key.to_string(),
    }
}

struct Template<'a> {
    evaluator: &'a Evaluator<'a>,
    root: &'a Node,
    resources: &'a [Entry],
}

/// A resource, or an event of a SAM function.
struct Resource<'a> {
    site: Site,
    kind: &'a str,
    properties: View<'a>,
}

impl<'a> Resource<'a> {
    /// A property. Without properties, every one is missing.
    fn at(&self, names: &[&str]) -> View<'a> {
        self.properties.dig(names)
    }
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
            if !self.evaluator.resources.contains_key(&*entry.key) {
                continue;
            }
            match resource.kind {
                "AWS::Lambda::Function" => deployment.functions.push(self.function(&resource)),
                "AWS::Serverless::Function" => {
                    deployment.functions.push(self.function(&resource));
                    self.events(entry, &resource, &mut deployment);
                }
                "AWS::Lambda::EventSourceMapping" => {
                    let function = resource.at(&["FunctionName"]).target();
                    let function = self.behind_alias(function);
                    let source = resource.at(&["EventSourceArn"]);
                    if may_be_sqs(&resource, &source.target()) {
                        let reference = source.reference(&resource.site, Form::Arn);
                        deployment.references.push(reference);
                        let mapping = mapping(resource, function, source.target());
                        deployment.mappings.push(mapping);
                    }
                }
                "AWS::SQS::Queue" => {
                    let target = resource.at(&["RedrivePolicy", "deadLetterTargetArn"]);
                    let reference = target.reference(&resource.site, Form::Arn);
                    deployment.references.push(reference);
                    deployment.queues.push(self.queue(resource));
                }
                "AWS::SQS::QueuePolicy" | "AWS::SQS::QueueInlinePolicy" => policies.push(resource),
                "AWS::DynamoDB::Table" | "AWS::DynamoDB::GlobalTable" => {
                    deployment.tables.push(self.table(resource))
                }
                "AWS::KMS::Key" => deployment.keys.push(kms_key(resource)),
                "AWS::CloudWatch::Alarm" => {
                    let alarm = alarm(resource, &mut deployment.references);
                    deployment.alarms.push(alarm);
                }
                "AWS::Pipes::Pipe" => deployment.pipes.push(self.pipe(resource)),
                "AWS::EventsV2::EventBus" => deployment.buses.push(senders::bus(resource)),
                "AWS::EventsV2::Subscriber" => {
                    deployment.subscribers.push(self.subscriber(resource))
                }
                kind if is_stack(kind) => {
                    deployment.has_more = true;
                    deployment.unread.push(unread(entry, &path));
                }
                _ => self.senders(&resource, &mut deployment),
            }
        }
        for policy in &policies {
            self.queue_policy(policy, &mut deployment);
        }
        let macros = self.macros();
        deployment.has_more |= !macros.is_empty();
        deployment.unread.extend(macros);
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

    fn queue_policy(&self, policy: &Resource<'a>, deployment: &mut Deployment) {
        let named = match policy.at(&["Queues"]) {
            several if several.node.is_missing() => policy.at(&["Queue"]),
            several => several,
        };
        let named = named.list();
        let targets: Vec<Field<Target>> = match &named {
            Field::Known(named, _) => named.iter().map(View::target).collect(),
            Field::Unknown => vec![Field::Unknown],
            Field::Missing => Vec::new(),
        };
        for view in named.known().into_iter().flatten() {
            let reference = view.reference(&policy.site, Form::Url);
            deployment.references.push(reference);
        }
        let document = policy.at(&["PolicyDocument"]);
        let document = match document.node.is_missing() {
            true => json!({}),
            false => document.json(),
        };
        let statements = policy.at(&["PolicyDocument", "Statement"]).node;
        let place = policy.site.place_of(&statements);
        for queue in &mut deployment.queues {
            let id = queue.site.id.clone();
            let is_queue = |target: &Target| target.is(&id);
            let names = |text: &str| match self.evaluator.form(text) {
                Some(Form::Name | Form::Url) => false,
                _ => (self.evaluator.target_of(text)).is_none_or(|it| is_queue(&it)),
            };
            if targets.iter().any(|it| it.known().is_some_and(is_queue)) {
                let denies = Field::Known((), place.clone());
                let denies = denies.and_then(|()| iam::denies_plain_http(&document, names));
                let admits = iam::admits(&document, &["sqs:SendMessage"], names);
                queue.has_policy(denies, admits);
            } else if targets.iter().any(|it| it.known().is_none()) {
                // The policy may be for this queue.
                queue.has_policy(Field::Unknown, Admitted::unknown());
            }
        }
    }

    /// The transforms other than SAM that rewrite the template.
    fn macros(&self) -> Vec<Unread> {
        let is_known =
            |name: &str| name.starts_with("AWS::Serverless-") || name == "AWS::LanguageExtensions";
        let Some(transforms) = self.root.get("Transform") else {
            return Vec::new();
        };
        let transforms = match &transforms.kind {
            Kind::Sequence { items, .. } => items.as_slice(),
            _ => std::slice::from_ref(transforms),
        };
        let unread = |transform: &Node| {
            let name = transform
                .scalar()
                .or_else(|| transform.get("Name")?.scalar());
            let place = place(transform, &vec!["Transform".into()]);
            let name = name.filter(|_| !transform.is_null())?;
            let name = (!is_known(name)).then(|| format!("The macro {name}"))?;
            Some(Unread { place, name })
        };
        transforms.iter().filter_map(unread).collect()
    }

    fn resource(&self, entry: &'a Entry, id: &str, path: Path) -> Option<Resource<'a>> {
        let kind = entry.value.get("Type")?.scalar()?;
        let condition = entry.value.get("Condition").and_then(Node::scalar);
        Some(Resource {
            site: Site {
                id: id.to_owned(),
                place: place_at(&path, entry.line, entry.column),
                properties: below(&path, &["Properties"]),
                condition: condition.map(str::to_owned),
            },
            kind,
            properties: self.evaluator.view(&entry.value, path).get("Properties"),
        })
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
        let resource = self.evaluator.resource(id);
        resource.dig(&["Properties", property]).target()
    }
}

/// Whether a resource of this type contains the resources of another template.
fn is_stack(kind: &str) -> bool {
    let stacks = ["AWS::CloudFormation::Stack", "AWS::Serverless::Application"];
    stacks.contains(&kind) || kind.ends_with("::MODULE")
}

/// Whether the source may be a queue. Kinesis and other services have event source mappings too.
fn may_be_sqs(mapping: &Resource<'_>, source: &Field<Target>) -> bool {
    let of_others = [
        "StartingPosition",
        "SelfManagedEventSource",
        "Topics",
        "Queues",
    ];
    let is_missing = |name: &&str| mapping.at(&[name]).node.is_missing();
    match source {
        Field::Known(Target::Other(arn), _) if arn.starts_with("arn:") => arn.contains(":sqs:"),
        // A reference to the wrong resource is for a rule to find.
        _ => of_others.iter().all(is_missing),
    }
}
