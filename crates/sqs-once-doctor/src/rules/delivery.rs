//! Delivery of messages to the function.

use super::{Problem, Setting, words};
use crate::consumers::Consumer;
use crate::limits::LONGEST_VISIBILITY_TIMEOUT;
use crate::model::{Deployment, Function, Queue, Site};
use crate::remedy::{Remedy, resource};
use crate::template::Change;
use serde_json::{Value, json};
use std::time::Duration;

/// Lambda's default timeout.
const DEFAULT_FUNCTION_TIMEOUT: Duration = Duration::from_secs(3);

/// The consumer's timeout, and the visibility timeout that AWS recommends for it.
fn needed(consumer: &Consumer<'_>) -> Option<(Duration, Duration)> {
    let timeout = consumer.function?.timeout.or(DEFAULT_FUNCTION_TIMEOUT)?;
    // With a window that is unknown, less would be too short, too.
    let window = consumer.mapping.window.known().copied();
    let window = window.unwrap_or_default();
    Some((timeout, timeout.checked_mul(6)?.checked_add(window)?))
}

/// Finds a visibility timeout that is below the function's timeout, or else one that is only shorter than advised.
pub(super) fn visibility(
    (queue, consumers): (&Queue, Vec<Consumer<'_>>),
    below_timeout: bool,
) -> Option<Problem> {
    let needs = consumers.iter().filter_map(|it| Some((needed(it)?, it)));
    let ((timeout, needed), consumer) = needs.max_by_key(|((_, needed), _)| *needed)?;
    let needed = needed.min(LONGEST_VISIBILITY_TIMEOUT);
    let visibility = queue.visibility()?;
    if visibility >= needed || (visibility < timeout) != below_timeout {
        return None;
    }
    let function = consumer.function.map_or("", |function| &function.site.id);
    let is_default = queue.visibility_timeout.is_missing();
    let window = match consumer.mapping.window.known() {
        Some(window) if !window.is_zero() => {
            format!(" and the batching window {}", words(*window))
        }
        _ => String::new(),
    };
    let message = format!(
        "The queue {}'s visibility timeout is {}{}, the function {function}'s timeout {}{window}: \
         it should be {} at least.",
        queue.site.id,
        words(visibility),
        if is_default { " (the default)" } else { "" },
        words(timeout),
        words(needed),
    );
    let argument = "visibility_timeout_seconds = {}";
    let setting = Setting(&["VisibilityTimeout"], argument);
    let (field, site) = (&queue.visibility_timeout, &queue.site);
    let problem = Problem::set(field, site, setting, needed.as_secs(), message);
    // The timeout itself may be longer than SQS allows.
    Some(problem.automatic_if(timeout <= needed))
}

const REPORTS: &str = "ReportBatchItemFailures";

pub(super) fn partial_response_missing(consumer: Consumer<'_>) -> Option<Problem> {
    let (mapping, function) = (consumer.mapping, consumer.function);
    let uses_sqs_once = function.is_some_and(Function::uses_sqs_once);
    // A batch of one message fails or succeeds as a whole if the function reports failure by returning an error.
    let is_alone = mapping.batch_size.known() == Some(&1);
    if mapping.reports_failures.or(false)? || (is_alone && !uses_sqs_once) {
        return None;
    }
    let id = &mapping.site.id;
    let message = format!("The mapping {id} does not take batch item failures.");
    let argument = "function_response_types = {}";
    let setting = Setting(&["FunctionResponseTypes"], argument);
    let (field, site) = (&mapping.reports_failures, &mapping.site);
    let problem = Problem::set(field, site, setting, vec![REPORTS], message);
    // A function that never reported batch item failures may return a value that Lambda would interpret as one.
    let is_native = |runtime: &String| runtime.starts_with("provided");
    let runtime = function.and_then(|function| function.runtime.known());
    Some(problem.automatic_if(uses_sqs_once || runtime.is_some_and(is_native)))
}

/// Sets messages' deduplication within a queue's groups, and so its high throughput.
const BY_GROUP: &str = "messageGroup";

pub(super) fn throughput_limit(queue: &Queue) -> Option<Problem> {
    let limit = queue.throughput_limit.known()?;
    let scope = &queue.deduplication_scope;
    let has_scope = scope.is_unknown() || scope.known().is_some_and(|it| it == BY_GROUP);
    if limit != "perMessageGroupId" || has_scope {
        return None;
    }
    let message = format!(
        "The queue {} has FifoThroughputLimit perMessageGroupId, which needs DeduplicationScope {BY_GROUP}. SQS then \
         finds a duplicate only within its message group.",
        queue.site.id
    );
    let setting = Setting(&["DeduplicationScope"], "deduplication_scope = {}");
    let (field, site) = (&queue.deduplication_scope, &queue.site);
    let mut problem = Problem::set(field, site, setting, BY_GROUP, message);
    problem.place = queue.throughput_limit.place()?.clone();
    // SQS would then accept a message that it refuses as a duplicate of another group.
    Some(problem.by_hand())
}

pub(super) fn filter(consumer: Consumer<'_>) -> Option<Problem> {
    let mapping = consumer.mapping;
    let message = format!(
        "Lambda deletes messages that match no filter of the mapping {}.",
        mapping.site.id
    );
    let remedy = Remedy::Advice(
        "Remove FilterCriteria if another message may matter, and let the handler ignore what it does not need.\n\
         Or accept it: --allow filter-deletes-messages",
    );
    Some(Problem::at(mapping.filter.place()?, message, remedy))
}

pub(super) fn not_encrypted(queue: &Queue) -> Option<Problem> {
    let is_off = queue.is_encrypted_by_sqs.known() == Some(&false) && queue.kms_key.is_missing();
    let message = format!("The queue {} is not encrypted.", queue.site.id);
    let setting = Setting(&["SqsManagedSseEnabled"], "sqs_managed_sse_enabled = {}");
    let (field, site) = (&queue.is_encrypted_by_sqs, &queue.site);
    is_off.then(|| Problem::set(field, site, setting, true, message))
}

pub(super) fn plain_http(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    if deployment.has_more || queue.denies_plain_http.or(false)? {
        return None;
    }
    let id = &queue.site.id;
    let change = match queue.denies_plain_http.place() {
        Some(statements) => Change::Append(statements.path.clone(), only_over_tls(id)),
        None => tls_policy(id, &queue.site),
    };
    let hcl = format!(
        "resource \"aws_sqs_queue_policy\" \"only_over_tls\" {{\n  queue_url = {id}.url\n  policy = jsonencode({{\n    \
         Version   = \"2012-10-17\"\n    Statement = [{{\n      Effect    = \"Deny\"\n      Principal = \"*\"\n      \
         Action    = \"sqs:*\"\n      Resource  = {id}.arn\n      \
         Condition = {{ Bool = {{ \"aws:SecureTransport\" = \"false\" }} }}\n    }}]\n  }})\n}}"
    );
    let message = format!("The queue {id} accepts requests without TLS.");
    // A policy in the template would replace one that another tool set.
    let remedy = Remedy::changes(vec![change], hcl).automatic_if(false);
    Some(Problem::at(&queue.site.place, message, remedy))
}

/// A policy for a queue without a policy.
pub(super) fn tls_policy(queue: &str, of: &Site) -> Change {
    let policy = json!({
        "Type": "AWS::SQS::QueuePolicy",
        "Properties": {
            "Queues": [{ "Ref": queue }],
            "PolicyDocument": { "Version": "2012-10-17", "Statement": [only_over_tls(queue)] },
        },
    });
    resource(&format!("{queue}Policy"), policy, of)
}

fn only_over_tls(queue: &str) -> Value {
    json!({
        "Sid": "OnlyOverTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": { "Fn::GetAtt": [queue, "Arn"] },
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    })
}
