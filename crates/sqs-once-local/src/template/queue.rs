//! A template's queues and event source mappings.

use super::node::{Reference, at, is_true_at, literal, number_at, text_at};
use saphyr::Yaml;
use std::num::NonZeroU32;
use std::time::Duration;

/// A queue in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueResource {
    /// The resource's name in the template.
    pub logical_id: String,
    /// The queue's name, or the logical id if the template sets none. The name of a FIFO queue ends in `.fifo`.
    pub name: String,
    /// Its visibility timeout.
    pub visibility_timeout: Option<Duration>,
    /// Its retention period.
    pub retention: Option<Duration>,
    /// Its delay for new messages.
    pub delay: Option<Duration>,
    /// Whether it derives deduplication ids from bodies.
    pub content_based_deduplication: bool,
    /// The name of its dead-letter queue, if that is in the template, and the maximum receive count.
    pub redrive: Option<(String, NonZeroU32)>,
}

/// An event source mapping of a template, from a queue to a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingResource {
    /// The function's name in the template.
    pub function: String,
    /// The queue's name, if it is in the template.
    pub queue: Option<String>,
    /// `BatchSize`.
    pub batch_size: Option<NonZeroU32>,
    /// `MaximumBatchingWindowInSeconds`.
    pub window: Option<Duration>,
    /// `MaximumConcurrency`.
    pub concurrency: Option<NonZeroU32>,
    /// Whether it has `ReportBatchItemFailures`.
    pub reports_failures: bool,
    /// Whether it has `FilterCriteria`.
    pub has_filter: bool,
}

type Resource<'a, 'input> = (&'a str, &'a str, &'a Yaml<'input>);

pub(super) fn queues(resources: &[Resource<'_, '_>]) -> Vec<QueueResource> {
    let named: Vec<_> = resources
        .iter()
        .filter(|(_, kind, _)| *kind == "AWS::SQS::Queue")
        .map(|(id, _, resource)| (*id, name(id, resource), *resource))
        .collect();
    let name_of = |wanted: &str| {
        let found = named.iter().find(|(id, _, _)| *id == wanted);
        found.map(|(_, name, _)| name.clone())
    };
    let queue = |(id, name, resource): &(&str, String, &Yaml<'_>)| {
        let seconds = |property| {
            let seconds = number_at(resource, &["Properties", property])?;
            Some(Duration::from_secs(seconds.into()))
        };
        let policy = at(resource, &["Properties", "RedrivePolicy"]);
        let redrive = policy.and_then(|policy| {
            let to = Reference::of(at(policy, &["deadLetterTargetArn"])?)?;
            let max_receive_count = number_at(policy, &["maxReceiveCount"])?;
            Some((name_of(to.logical_id)?, NonZeroU32::new(max_receive_count)?))
        });
        QueueResource {
            logical_id: (*id).to_owned(),
            name: name.clone(),
            visibility_timeout: seconds("VisibilityTimeout"),
            retention: seconds("MessageRetentionPeriod"),
            delay: seconds("DelaySeconds"),
            content_based_deduplication: is_true_at(
                resource,
                &["Properties", "ContentBasedDeduplication"],
            ),
            redrive,
        }
    };
    named.iter().map(queue).collect()
}

fn name(logical_id: &str, resource: &Yaml<'_>) -> String {
    let name = text_at(resource, &["Properties", "QueueName"]).unwrap_or(logical_id);
    let is_fifo = is_true_at(resource, &["Properties", "FifoQueue"]);
    if is_fifo && !name.ends_with(".fifo") {
        format!("{name}.fifo")
    } else {
        name.to_owned()
    }
}

/// The name of the queue whose URL is referenced.
pub(super) fn url_of(reference: &Reference<'_>, queues: &[QueueResource]) -> Option<String> {
    matches!(reference.attribute, None | Some("QueueUrl"))
        .then(|| named(reference.logical_id, queues))?
}

fn named(logical_id: &str, queues: &[QueueResource]) -> Option<String> {
    let queue = queues.iter().find(|queue| queue.logical_id == logical_id)?;
    Some(queue.name.clone())
}

pub(super) fn mappings(
    resources: &[Resource<'_, '_>],
    queues: &[QueueResource],
) -> Vec<MappingResource> {
    let mut mappings = Vec::new();
    for (id, kind, resource) in resources {
        match *kind {
            "AWS::Serverless::Function" => {
                let events = at(resource, &["Properties", "Events"]).and_then(Yaml::as_mapping);
                let of_sqs = events
                    .into_iter()
                    .flat_map(|events| events.iter())
                    .filter(|(_, event)| text_at(event, &["Type"]) == Some("SQS"))
                    .filter_map(|(_, event)| at(event, &["Properties"]));
                mappings.extend(of_sqs.filter_map(|properties| {
                    mapping(id, at(properties, &["Queue"]), properties, queues)
                }));
            }
            "AWS::Lambda::EventSourceMapping" => {
                let Some(properties) = at(resource, &["Properties"]) else {
                    continue;
                };
                let function = at(properties, &["FunctionName"]);
                let Some(function) = function.and_then(Reference::of) else {
                    continue;
                };
                let source = at(properties, &["EventSourceArn"]);
                mappings.extend(mapping(function.logical_id, source, properties, queues));
            }
            _ => {}
        }
    }
    mappings
}

/// Reads a mapping from its properties. Returns `None` if its source is not a queue.
fn mapping(
    function: &str,
    source: Option<&Yaml<'_>>,
    properties: &Yaml<'_>,
    queues: &[QueueResource],
) -> Option<MappingResource> {
    let queue = source
        .and_then(Reference::of)
        .and_then(|one| named(one.logical_id, queues));
    let is_arn = source
        .and_then(literal)
        .is_some_and(|arn| arn.contains(":sqs:"));
    if queue.is_none() && !is_arn {
        return None;
    }
    let number = |path: &[&str]| number_at(properties, path).and_then(NonZeroU32::new);
    let types = at(properties, &["FunctionResponseTypes"]).and_then(Yaml::as_sequence);
    Some(MappingResource {
        function: function.to_owned(),
        queue,
        batch_size: number(&["BatchSize"]),
        window: number_at(properties, &["MaximumBatchingWindowInSeconds"])
            .map(|seconds| Duration::from_secs(seconds.into())),
        concurrency: number(&["ScalingConfig", "MaximumConcurrency"]),
        reports_failures: types.is_some_and(|types| {
            types
                .iter()
                .any(|one| one.as_str() == Some("ReportBatchItemFailures"))
        }),
        has_filter: at(properties, &["FilterCriteria"]).is_some(),
    })
}
