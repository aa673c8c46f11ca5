//! `GetQueueAttributes`.

use super::parameters::optional;
use super::refused::Refused;
use super::{Answer, Api};
use crate::message::{arn, object};
use crate::millis;
use crate::queue::one::is_fifo;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

pub(super) fn get(api: &Api, queue: &str, request: Value) -> Answer {
    let wanted: Vec<String> = optional(&request, "AttributeNames")?.unwrap_or_default();
    let all = all(api, queue)?;
    let is_known = |name: &str| name == "All" || all.get(name).is_some();
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        let text = format!("Unknown Attribute {unknown}.");
        return Err(Refused::new("InvalidAttributeName", text));
    }
    let mut attributes = object(all);
    attributes.retain(|name, _| wanted.iter().any(|one| one == name || one == "All"));
    if attributes.is_empty() {
        return Ok(json!({}));
    }
    Ok(json!({"Attributes": attributes}))
}

/// Every attribute that SQS has. Those that the queue does not have are null.
fn all(api: &Api, queue: &str) -> Answer {
    let now = SystemTime::now();
    let mut queues = api.queues();
    queues.queue_at(queue, now)?;
    let (settings, counts) = (queues.settings(queue)?, queues.counts(queue, now)?);
    // The queues are as old as the server.
    let started = (millis(api.started) / 1000).to_string();
    let seconds = |duration: Duration| duration.as_secs().to_string();
    let policy = settings.redrive.as_ref().map(|redrive| {
        let to = arn(&redrive.to);
        json!({"deadLetterTargetArn": to, "maxReceiveCount": redrive.max_receive_count}).to_string()
    });
    let of_fifo = |value: &str| is_fifo(queue).then(|| value.to_owned());
    Ok(json!({
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
        "Policy": null,
        "KmsMasterKeyId": null,
        "KmsDataKeyReusePeriodSeconds": null,
        "RedriveAllowPolicy": null,
        "RedrivePolicy": policy,
        "FifoQueue": of_fifo("true"),
        "ContentBasedDeduplication": of_fifo(&settings.content_based_deduplication.to_string()),
        "DeduplicationScope": of_fifo("queue"),
        "FifoThroughputLimit": of_fifo("perQueue"),
    }))
}
