//! `SendMessage` and `SendMessageBatch`.

use super::batch::Entry;
use super::message_attributes::{self, Attributes, is_allowed};
use super::parameters::{read, required, seconds};
use super::refused::Refused;
use super::{Answer, Api};
use crate::message::{NewMessage, object, sequence_number};
use crate::queue::one::is_fifo;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::SystemTime;
use uuid::Uuid;

/// The size limit of a message, and of all messages of a batch together.
const LARGEST: usize = 1024 * 1024;

const TRACE_HEADER: &str = "AWSTraceHeader";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Parameters {
    message_body: Option<String>,
    delay_seconds: Option<i64>,
    message_attributes: Option<Attributes>,
    message_system_attributes: Option<Attributes>,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
}

pub(super) fn check_size(entries: &[Entry<Parameters>]) -> Result<(), Refused> {
    let size: usize = entries.iter().map(|(_, entry)| entry.size()).sum();
    if size <= LARGEST {
        return Ok(());
    }
    let text = format!(
        "Batch requests cannot be longer than {LARGEST} bytes. You have sent {size} bytes."
    );
    Err(Refused::new("BatchRequestTooLong", text))
}

/// Reads a message for a queue from a `SendMessage` request. Returns the reason if SQS would refuse it.
pub(crate) fn message(request: &Value, queue: &str) -> Result<NewMessage, String> {
    let parameters: Result<Parameters, _> = read(request);
    let message = parameters.and_then(|parameters| parameters.message(is_fifo(queue)));
    message.map_err(|refused| refused.message)
}

pub(super) fn send(api: &Api, queue: &str, parameters: Parameters) -> Answer {
    let mut queues = api.queues();
    queues.queue(queue)?;
    let message = parameters.message(is_fifo(queue))?;
    let body = format!("{:x}", md5::compute(&message.body));
    let attributes = message_attributes::md5(&message.attributes);
    let header = message.trace_header.as_ref().map(|header| {
        let header = json!({"DataType": "String", "StringValue": header});
        message_attributes::md5(&Map::from_iter([(TRACE_HEADER.to_owned(), header)]))
    });
    let sent = queues.accept(queue, message, SystemTime::now())?;
    let answer = object(json!({
        "MessageId": sent.id,
        "MD5OfMessageBody": body,
        "MD5OfMessageAttributes": attributes,
        "MD5OfMessageSystemAttributes": header,
        "SequenceNumber": is_fifo(queue).then(|| sequence_number(sent.sequence_number)),
    }));
    Ok(answer.into())
}

impl Parameters {
    /// The message's size. Exact for a valid message, approximate for others.
    fn size(&self) -> usize {
        let attributes = self.message_attributes.iter().flatten();
        let attributes: usize = attributes
            .map(|(name, attribute)| name.len() + attribute.size())
            .sum();
        self.message_body.as_ref().map_or(0, String::len) + attributes
    }

    fn message(self, fifo: bool) -> Result<NewMessage, Refused> {
        let body = required("MessageBody", &self.message_body)?.to_owned();
        if !body.chars().all(is_allowed) {
            let text = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | \
                        #xE000 to #xFFFD | #x10000 to #x10FFFF";
            return Err(Refused::new("InvalidMessageContents", text));
        }
        if self.size() > LARGEST {
            let text = format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {LARGEST} bytes."
            );
            return Err(Refused::new("InvalidParameterValue", text));
        }
        let delay = seconds("DelaySeconds", self.delay_seconds, 0..=900)?;
        let not_here = "The request includes a parameter that is not valid for this queue type";
        if fifo && delay.is_some_and(|delay| !delay.is_zero()) {
            let seconds = self.delay_seconds.unwrap_or_default();
            return Err(Refused::value("DelaySeconds", &seconds, not_here));
        }
        for (name, id) in [
            ("MessageGroupId", &self.message_group_id),
            ("MessageDeduplicationId", &self.message_deduplication_id),
        ] {
            if let Some(id) = id.as_ref().filter(|id| !is_id(id)) {
                let reason = "It can only include alphanumeric and punctuation characters. 1 to 128 in length";
                return Err(Refused::value(name, id, reason));
            }
        }
        if let (false, Some(id)) = (fifo, &self.message_deduplication_id) {
            return Err(Refused::value("MessageDeduplicationId", id, not_here));
        }
        let attributes = self.message_attributes.unwrap_or_default();
        let system = self.message_system_attributes.unwrap_or_default();
        if let Some(other) = system.keys().find(|name| *name != TRACE_HEADER) {
            let text = format!("Message system attribute name '{other}' is invalid.");
            return Err(Refused::new("InvalidParameterValue", text));
        }
        let header = system.get(TRACE_HEADER).map(|header| header.text());
        if header == Some(None) {
            let text = format!("{TRACE_HEADER} must be a String.");
            return Err(Refused::new("InvalidParameterValue", text));
        }
        Ok(NewMessage {
            attributes: message_attributes::checked(attributes)?,
            group_id: self.message_group_id,
            deduplication_id: self.message_deduplication_id,
            trace_header: header.flatten().map(str::to_owned),
            // On a FIFO queue only the queue's own delay applies, even if the request sets 0.
            delay: delay.filter(|_| !fifo),
            ..NewMessage::new(Uuid::new_v4().to_string(), body)
        })
    }
}

/// Whether a text is valid as a message group id or a deduplication id.
fn is_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}
