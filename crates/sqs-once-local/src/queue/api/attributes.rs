//! `GetQueueAttributes`.

use super::parameters::optional;
use super::refused::Refused;
use super::{Answer, Api};
use crate::millis;
use crate::queue::message::{arn, object};
use crate::queue::one::is_fifo;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime};

/// Attributes that SQS has and this queue does not.
const NOT_SET: [&str; 5] = [
    "Policy",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
];

const ONLY_FIFO: [&str; 4] = [
    "FifoQueue",
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "FifoThroughputLimit",
];

pub(super) fn get(api: &Api, queue: &str, request: Value) -> Answer {
    let wanted: Vec<String> = optional(&request, "AttributeNames")?.unwrap_or_default();
    let mut attributes = all(api, queue)?;
    let known = |name: &str| {
        let others = NOT_SET.iter().chain(&ONLY_FIFO);
        name == "All" || attributes.contains_key(name) || others.into_iter().any(|one| *one == name)
    };
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let text = format!("Unknown Attribute {unknown}.");
        return Err(Refused::new("InvalidAttributeName", text));
    }
    attributes.retain(|name, _| wanted.iter().any(|one| one == name || one == "All"));
    if attributes.is_empty() {
        return Ok(json!({}));
    }
    Ok(json!({"Attributes": attributes}))
}

fn all(api: &Api, queue: &str) -> Result<Map<String, Value>, Refused> {
    let now = SystemTime::now();
    let mut queues = api.queues();
    queues.expire(queue, now)?;
    let (settings, counts) = (queues.settings(queue)?, queues.counts(queue, now)?);
    // The queues are as old as the server.
    let started = (millis(api.started) / 1000).to_string();
    let seconds = |duration: Duration| duration.as_secs().to_string();
    let policy = settings.redrive.as_ref().map(|redrive| {
        let to = arn(&redrive.to);
        json!({"deadLetterTargetArn": to, "maxReceiveCount": redrive.max_receive_count}).to_string()
    });
    let of_fifo = |value: &str| is_fifo(queue).then(|| value.to_owned());
    Ok(object(json!({
        "QueueArn": arn(queue),
        "ApproximateNumberOfMessages": counts.visible.to_string(),
        "ApproximateNumberOfMessagesNotVisible": counts.in_flight.to_string(),
        "ApproximateNumberOfMessagesDelayed": counts.delayed.to_string(),
        "CreatedTimestamp": started,
        "LastModifiedTimestamp": started,
        "VisibilityTimeout": seconds(settings.visibility_timeout),
        "MaximumMessageSize": (1024 * 1024).to_string(),
        "MessageRetentionPeriod": seconds(settings.retention),
        "DelaySeconds": seconds(settings.delay),
        "ReceiveMessageWaitTimeSeconds": seconds(settings.wait),
        "SqsManagedSseEnabled": "false",
        "RedrivePolicy": policy,
        "FifoQueue": of_fifo("true"),
        "ContentBasedDeduplication": of_fifo(&settings.content_based_deduplication.to_string()),
        "DeduplicationScope": of_fifo("queue"),
        "FifoThroughputLimit": of_fifo("perQueue"),
    })))
}
