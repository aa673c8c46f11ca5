//! What happens to messages and to the function, told as it happens.

use crate::log::RecordLine;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Something that happened to a message, to a queue, or to the function that handles it.
///
/// As JSON, a time is a number of milliseconds since 1970. A message is named by its queue and its id; two messages of
/// one id are what SQS delivering twice looks like.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "happened", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LocalEvent {
    /// A queue took a message.
    Sent {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
        /// Its body.
        body: String,
        /// Its attributes, as the SQS API writes them.
        attributes: Map<String, Value>,
        /// Its message group.
        group_id: Option<String>,
        /// When it can be received first.
        #[serde(serialize_with = "millis")]
        visible_at: SystemTime,
    },
    /// A message was received, and is in flight.
    Received {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
        /// How often it was received, this time included.
        receive_count: u32,
        /// Until when it is invisible.
        #[serde(serialize_with = "millis")]
        visible_at: SystemTime,
    },
    /// Somebody changed how long a message in flight stays invisible.
    VisibilityChanged {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
        /// When it can be received again.
        #[serde(serialize_with = "millis")]
        visible_at: SystemTime,
    },
    /// A message was deleted.
    Deleted {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
    },
    /// A message had been received too often, and went to the dead-letter queue.
    DeadLettered {
        /// The queue it was in.
        queue: String,
        /// The dead-letter queue it is in now.
        to: String,
        /// The message's id.
        message_id: String,
    },
    /// A message was moved from a dead-letter queue, under a new id.
    Redriven {
        /// The dead-letter queue.
        queue: String,
        /// The queue it is in now.
        to: String,
        /// The id it had.
        message_id: String,
        /// The id it has now.
        new_message_id: String,
    },
    /// All messages of a queue were deleted.
    Purged {
        /// The queue.
        queue: String,
    },
    /// A message was in its queue for longer than the queue keeps one, and is gone.
    Expired {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
    },
    /// An execution environment was started.
    EnvironmentStarted {
        /// Its number, counted from 1.
        environment: u32,
    },
    /// An execution environment's process ended.
    EnvironmentEnded {
        /// Its number.
        environment: u32,
        /// Why, in words.
        reason: String,
    },
    /// The function was given a batch.
    Invoked {
        /// The execution environment that has it.
        environment: u32,
        /// The invocation's request id.
        request_id: String,
        /// The batch's queue.
        queue: String,
        /// The batch's messages, in the event's order.
        message_ids: Vec<String>,
    },
    /// The function said what became of one record.
    Record {
        /// The execution environment that said so.
        environment: u32,
        /// What it said.
        record: RecordLine,
    },
    /// The function logged a line that is no record line.
    Logged {
        /// The execution environment that did.
        environment: u32,
        /// The line.
        line: String,
    },
    /// An invocation ended.
    Answered {
        /// The execution environment that had it.
        environment: u32,
        /// The invocation's request id.
        request_id: String,
        /// What Lambda makes of it.
        answer: Answer,
    },
    /// A fault that was asked for was done to a message or an invocation.
    Fault {
        /// What was done, in words.
        what: String,
        /// The messages it was done to.
        message_ids: Vec<String>,
    },
}

/// What Lambda makes of the end of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// An answer that Lambda can read: these messages are returned, the others deleted.
    Read {
        /// The messages that are returned to the queue.
        failures: Vec<String>,
    },
    /// The whole batch is returned.
    Failed {
        /// Why, in words: an error, a timeout, a crash, or an answer that Lambda can't read.
        reason: String,
    },
}

/// Who is told of what happens. It is called while the queues are locked: it must not wait, nor look at them.
pub type Observer = Arc<dyn Fn(SystemTime, &LocalEvent) + Send + Sync>;

fn millis<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    serializer.serialize_u64(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
