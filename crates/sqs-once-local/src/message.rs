//! Messages as they are sent and as they are received.

use crate::{ACCOUNT_ID, REGION, millis};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, which SQS generates for every message. On a standard queue two messages may have the same id here, which
    /// simulates that SQS delivers a message twice.
    pub id: String,
    /// Its body.
    pub body: String,
    /// Its attributes, as the SQS API writes them: `{"tenant": {"DataType": "String", "StringValue": "a"}}`.
    pub attributes: Map<String, Value>,
    /// Its message group. Required by a FIFO queue.
    pub group_id: Option<String>,
    /// Its deduplication id. A FIFO queue requires one, or derives it from the body. It accepts only one message with
    /// the same id within five minutes.
    pub deduplication_id: Option<String>,
    /// Its `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// How long it can't be received after it was sent. Defaults to the queue's delay.
    pub delay: Option<Duration>,
}

impl NewMessage {
    /// Creates a message with only an id and a body.
    pub fn new(id: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            body: body.into(),
            attributes: Map::new(),
            group_id: None,
            deduplication_id: None,
            trace_header: None,
            delay: None,
        }
    }

    /// Sets a message group and a deduplication id, as a FIFO queue requires.
    #[must_use]
    pub fn in_group(
        mut self,
        group: impl Into<String>,
        deduplication_id: impl Into<String>,
    ) -> Self {
        self.group_id = Some(group.into());
        self.deduplication_id = Some(deduplication_id.into());
        self
    }
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Identifies this delivery for [`delete`](crate::Queues::delete) and
    /// [`change_visibility`](crate::Queues::change_visibility).
    pub receipt_handle: String,
    /// The message as it was sent.
    pub message: NewMessage,
    /// How many times it has been received, this time included.
    pub receive_count: u32,
    /// When it was sent to its queue.
    pub sent_at: SystemTime,
    /// When it was received for the first time.
    pub first_received_at: SystemTime,
    /// Its position in its queue. Only a FIFO queue shows it.
    pub sequence_number: u64,
    /// The queue whose redrive policy moved it here.
    pub dead_letter_source: Option<String>,
}

impl Received {
    /// The message's system attributes, under the names of the SQS API.
    pub(crate) fn system_attributes(&self) -> Map<String, Value> {
        let message = &self.message;
        let is_numbered = message.deduplication_id.is_some();
        object(json!({
            "ApproximateReceiveCount": self.receive_count.to_string(),
            "SentTimestamp": millis(self.sent_at).to_string(),
            "ApproximateFirstReceiveTimestamp": millis(self.first_received_at).to_string(),
            "MessageGroupId": message.group_id,
            "MessageDeduplicationId": message.deduplication_id,
            "SequenceNumber": is_numbered.then(|| sequence_number(self.sequence_number)),
            "AWSTraceHeader": message.trace_header,
            "DeadLetterQueueSourceArn": self.dead_letter_source.as_deref().map(arn),
        }))
    }
}

/// The fields of an object that are not null.
pub(crate) fn object(json: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = json else {
        return Map::new();
    };
    fields.retain(|_, value| !value.is_null());
    fields
}

pub(crate) fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}")
}

/// Extracts a queue's name from its ARN.
pub(crate) fn queue_name(queue_arn: &str) -> &str {
    queue_arn.rsplit(':').next().unwrap_or(queue_arn)
}

/// The URL of a queue that is served at this address.
pub(crate) fn url(address: SocketAddr, queue: &str) -> String {
    format!("http://{address}/{ACCOUNT_ID}/{queue}")
}

/// Formats a sequence number as SQS does.
pub(crate) fn sequence_number(number: u64) -> String {
    format!("{number:020}")
}
