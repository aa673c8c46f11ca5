//! A message: as it is sent, as it lies in its queue, and as it is received.

use crate::{ACCOUNT_ID, REGION};
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, which SQS makes up for every message that is sent. Two messages of a standard queue may
    /// have one id: that is what a message which SQS delivers twice looks like.
    pub id: String,
    /// Its body.
    pub body: String,
    /// Its attributes, as the SQS API writes them: `{"tenant": {"DataType": "String", "StringValue": "a"}}`.
    pub attributes: Map<String, Value>,
    /// Its message group. A FIFO queue needs one.
    pub group_id: Option<String>,
    /// Within five minutes a FIFO queue, which needs one or makes one of the body, takes only one message of the
    /// same deduplication id.
    pub deduplication_id: Option<String>,
    /// Its `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// How long it can't be received after it was sent. Without it, the queue says so.
    pub delay: Option<Duration>,
}

impl NewMessage {
    /// A message that has an id and a body and nothing else.
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

    /// The message in a message group, with a deduplication id, as a FIFO queue wants it.
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

/// A message, received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// What names this delivery, for [`delete`](super::Queues::delete) and
    /// [`change_visibility`](super::Queues::change_visibility).
    pub receipt_handle: String,
    /// The message as it was sent.
    pub message: NewMessage,
    /// How often it was received, this time included.
    pub receive_count: u32,
    /// When it was sent to its queue.
    pub sent_at: SystemTime,
    /// When it was received for the first time.
    pub first_received_at: SystemTime,
    /// Its place in its queue. Only a FIFO queue shows it.
    pub sequence_number: u64,
    /// The queue whose redrive policy has moved it here.
    pub dead_letter_source: Option<String>,
}

impl Received {
    /// What SQS itself knows of the message, by the names of the SQS API.
    pub(super) fn system_attributes(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        let mut set = |name: &str, value: &str| attributes.insert(name.to_owned(), value.into());
        set("ApproximateReceiveCount", &self.receive_count.to_string());
        set("SentTimestamp", &millis(self.sent_at));
        set(
            "ApproximateFirstReceiveTimestamp",
            &millis(self.first_received_at),
        );
        if let Some(group) = &self.message.group_id {
            set("MessageGroupId", group);
        }
        if let Some(deduplication_id) = &self.message.deduplication_id {
            set("MessageDeduplicationId", deduplication_id);
            set("SequenceNumber", &sequence_number(self.sequence_number));
        }
        if let Some(header) = &self.message.trace_header {
            set("AWSTraceHeader", header);
        }
        if let Some(source) = &self.dead_letter_source {
            set("DeadLetterQueueSourceArn", &arn(source));
        }
        attributes
    }
}

/// A queue's ARN.
pub(super) fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}")
}

/// A message's place in its queue, as SQS writes it.
pub(super) fn sequence_number(number: u64) -> String {
    format!("{number:020}")
}

fn millis(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().to_string()
}
