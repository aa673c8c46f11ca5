//! `GetQueueAttributes`.

use super::parameters::{queue, read};
use super::refused::Refused;
use super::{Answer, Api};
use crate::queue::message::arn;
use crate::queue::one::is_fifo;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    attribute_names: Option<Vec<String>>,
}

pub(super) fn get(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    let parameters: Parameters = read(request)?;
    let wanted = parameters.attribute_names.unwrap_or_default();
    let mut attributes = all(api, &queue)?;
    let known = |name: &str| {
        let others = NOT_SET.iter().chain(&ONLY_FIFO);
        name == "All" || attributes.contains_key(name) || others.into_iter().any(|one| *one == name)
    };
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let said = format!("Unknown Attribute {unknown}.");
        return Err(Refused::new("InvalidAttributeName", said));
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
    let started = api.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = |duration: Duration| duration.as_secs().to_string();
    let mut attributes = Map::new();
    let mut set = |name: &str, value: String| attributes.insert(name.to_owned(), value.into());
    set("QueueArn", arn(queue));
    set("ApproximateNumberOfMessages", counts.visible.to_string());
    set(
        "ApproximateNumberOfMessagesNotVisible",
        counts.in_flight.to_string(),
    );
    set(
        "ApproximateNumberOfMessagesDelayed",
        counts.delayed.to_string(),
    );
    // The queues are as old as the server.
    set("CreatedTimestamp", seconds(started));
    set("LastModifiedTimestamp", seconds(started));
    set("VisibilityTimeout", seconds(settings.visibility_timeout));
    set("MaximumMessageSize", (1024 * 1024).to_string());
    set("MessageRetentionPeriod", seconds(settings.retention));
    set("DelaySeconds", seconds(settings.delay));
    set("ReceiveMessageWaitTimeSeconds", seconds(settings.wait));
    set("SqsManagedSseEnabled", "false".to_owned());
    if let Some(redrive) = &settings.redrive {
        let policy = json!({
            "deadLetterTargetArn": arn(&redrive.to),
            "maxReceiveCount": redrive.max_receive_count,
        });
        set("RedrivePolicy", policy.to_string());
    }
    if is_fifo(queue) {
        let content_based = settings.content_based_deduplication;
        set("FifoQueue", "true".to_owned());
        set("ContentBasedDeduplication", content_based.to_string());
        set("DeduplicationScope", "queue".to_owned());
        set("FifoThroughputLimit", "perQueue".to_owned());
    }
    Ok(attributes)
}
