//! `ReceiveMessage`, with long polling.

use super::parameters::{count, queue, read, seconds};
use super::refused::Refused;
use super::{Answer, Api, message_attributes};
use crate::message::{Received, object};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const SYSTEM_ATTRIBUTES: [&str; 10] = [
    "All",
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "SequenceNumber",
    "MessageDeduplicationId",
    "MessageGroupId",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    // The older name of the next parameter.
    attribute_names: Option<Vec<String>>,
    message_system_attribute_names: Option<Vec<String>>,
    message_attribute_names: Option<Vec<String>>,
}

pub(super) async fn receive(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    let wanted: Parameters = read(request)?;
    let most = count(
        "MaxNumberOfMessages",
        wanted.max_number_of_messages,
        1..=10,
        1,
    )?;
    let visibility = seconds("VisibilityTimeout", wanted.visibility_timeout, 0..=43_200)?;
    let wait = seconds("WaitTimeSeconds", wanted.wait_time_seconds, 0..=20)?;
    let wait = match wait {
        Some(wait) => wait,
        None => api.queues().settings(&queue)?.wait,
    };
    let mut system = wanted.system_attributes();
    if let Some(unknown) = system.find(|name| !SYSTEM_ATTRIBUTES.contains(&name.as_str())) {
        let text = format!("Unknown Attribute {unknown}.");
        return Err(Refused::new("InvalidAttributeName", text));
    }
    let received = wait_for_messages(api, &queue, most, visibility, wait).await?;
    if received.is_empty() {
        return Ok(json!({}));
    }
    let messages: Vec<_> = received.iter().map(|one| wanted.message(one)).collect();
    Ok(json!({"Messages": messages}))
}

/// Returns the messages that are visible now, or else the first that arrive within `wait`.
async fn wait_for_messages(
    api: &Api,
    queue: &str,
    most: usize,
    visibility: Option<Duration>,
    wait: Duration,
) -> Result<Vec<Received>, Refused> {
    let end = Instant::now() + wait;
    loop {
        // Register before looking, so that no change is missed.
        let mut changed = std::pin::pin!(api.changed.notified());
        changed.as_mut().enable();
        let now = SystemTime::now();
        let next = {
            let mut queues = api.queues();
            let received = queues.receive_for(queue, most, visibility, now)?;
            if !received.is_empty() || Instant::now() >= end {
                return Ok(received);
            }
            queues.queue(queue)?.next_visible_at(now)
        };
        let next = next.and_then(|next| next.duration_since(now).ok());
        let next = next.and_then(|next| Instant::now().checked_add(next));
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(next.map_or(end, |next| next.min(end))) => {}
        }
    }
}

impl Parameters {
    fn system_attributes(&self) -> impl Iterator<Item = &String> {
        let names = [&self.attribute_names, &self.message_system_attribute_names];
        names.into_iter().flatten().flatten()
    }

    fn message(&self, received: &Received) -> Value {
        let message = &received.message;
        let mut system = received.system_attributes();
        system.insert("SenderId".to_owned(), crate::event::SENDER_ID.into());
        system.retain(|name, _| {
            let mut wanted = self.system_attributes();
            wanted.any(|one| one == name || one == "All")
        });
        let mut attributes = message.attributes.clone();
        attributes.retain(|name, _| {
            let mut wanted = self.message_attribute_names.iter().flatten();
            wanted.any(|wanted| fits(wanted, name))
        });
        let answer = object(json!({
            "MessageId": message.id,
            "ReceiptHandle": received.receipt_handle,
            "MD5OfBody": format!("{:x}", md5::compute(&message.body)),
            "Body": message.body,
            "Attributes": Some(system).filter(|all| !all.is_empty()),
            "MD5OfMessageAttributes": message_attributes::md5(&attributes),
            "MessageAttributes": Some(attributes).filter(|all| !all.is_empty()),
        }));
        answer.into()
    }
}

/// Whether the caller requested this message attribute: by name, by prefix with `.*`, or by requesting all.
fn fits(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix(".*") {
        Some(beginning) => name.starts_with(beginning),
        None => wanted == name || wanted == "All" || wanted == "*",
    }
}
