//! `ReceiveMessage`, with long polling.

use super::parameters::{queue, read, seconds, within};
use super::refused::Refused;
use super::{Answer, Api, message_attributes};
use crate::queue::Received;
use serde::Deserialize;
use serde_json::{Map, Value, json};
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

/// The attributes that the caller requested.
struct Wanted {
    system: Vec<String>,
    message: Vec<String>,
}

pub(super) async fn receive(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    let parameters: Parameters = read(request)?;
    let most = within(
        "MaxNumberOfMessages",
        parameters.max_number_of_messages,
        1..=10,
    )?;
    let most = most.map_or(1, |most| most as usize);
    let visibility = parameters.visibility_timeout;
    let visibility = seconds("VisibilityTimeout", visibility, 0..=43_200)?;
    let wait = seconds("WaitTimeSeconds", parameters.wait_time_seconds, 0..=20)?;
    let wait = match wait {
        Some(wait) => wait,
        None => api.queues().settings(&queue)?.wait,
    };
    let mut system = parameters.attribute_names.unwrap_or_default();
    system.extend(
        parameters
            .message_system_attribute_names
            .unwrap_or_default(),
    );
    let wanted = Wanted {
        system,
        message: parameters.message_attribute_names.unwrap_or_default(),
    };
    wanted.check()?;
    let received = waited(api, &queue, most, visibility, wait).await?;
    if received.is_empty() {
        return Ok(json!({}));
    }
    let messages: Vec<_> = received.iter().map(|one| wanted.message(one)).collect();
    Ok(json!({"Messages": messages}))
}

/// Returns the messages that are visible now, or else the first that arrive within `wait`.
async fn waited(
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

impl Wanted {
    fn check(&self) -> Result<(), Refused> {
        let unknown = |name: &&String| !SYSTEM_ATTRIBUTES.contains(&name.as_str());
        match self.system.iter().find(unknown) {
            Some(name) => {
                let said = format!("Unknown Attribute {name}.");
                Err(Refused::new("InvalidAttributeName", said))
            }
            None => Ok(()),
        }
    }

    fn message(&self, received: &Received) -> Value {
        let message = &received.message;
        let mut answer = json!({
            "MessageId": message.id,
            "ReceiptHandle": received.receipt_handle,
            "MD5OfBody": format!("{:x}", md5::compute(&message.body)),
            "Body": message.body,
        });
        let mut system = received.system_attributes();
        system.insert("SenderId".to_owned(), crate::event::SENDER_ID.into());
        system.retain(|name, _| self.system.iter().any(|one| one == name || one == "All"));
        if !system.is_empty() {
            answer["Attributes"] = system.into();
        }
        let mut attributes: Map<_, _> = message.attributes.clone();
        attributes.retain(|name, _| self.message.iter().any(|wanted| fits(wanted, name)));
        if let Some(md5) = message_attributes::md5(&attributes) {
            answer["MD5OfMessageAttributes"] = md5.into();
            answer["MessageAttributes"] = attributes.into();
        }
        answer
    }
}

/// Whether the caller requested this message attribute: by name, by prefix with `.*`, or by requesting all.
fn fits(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix(".*") {
        Some(beginning) => name.starts_with(beginning),
        None => wanted == name || wanted == "All" || wanted == "*",
    }
}
