//! The events that observers receive: what happens to messages and to the function.

use crate::log::RecordLine;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::SystemTime;

/// An event of a message, of a queue, or of the function that handles the messages.
///
/// In JSON, a time is a number of milliseconds since 1970. A queue and an id name a message. SQS may deliver a message
/// twice, so two messages can have the same id.
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
        /// When it can first be received.
        #[serde(serialize_with = "millis")]
        visible_at: SystemTime,
    },
    /// A message was received, and is in flight.
    Received {
        /// The queue.
        queue: String,
        /// The message's id.
        message_id: String,
        /// How many times it has been received, this time included.
        receive_count: u32,
        /// When its visibility timeout ends.
        #[serde(serialize_with = "millis")]
        visible_at: SystemTime,
    },
    /// The visibility timeout of a message in flight was changed.
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
    /// A message exceeded the maximum receive count and moved to the dead-letter queue.
    DeadLettered {
        /// The queue it was in.
        queue: String,
        /// The dead-letter queue it is in now.
        to: String,
        /// The message's id.
        message_id: String,
    },
    /// A message moved from a dead-letter queue to another queue, under a new id.
    Redriven {
        /// The dead-letter queue.
        queue: String,
        /// The queue it is in now.
        to: String,
        /// Its id in the dead-letter queue.
        message_id: String,
        /// Its new id.
        new_message_id: String,
    },
    /// All messages of a queue were deleted.
    Purged {
        /// The queue.
        queue: String,
    },
    /// A message exceeded the queue's retention period and was removed.
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
        /// The reason, in words.
        reason: String,
    },
    /// The function received a batch.
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
    /// The function reported the outcome of one message.
    Record {
        /// The execution environment that reported it.
        environment: u32,
        /// The report.
        record: RecordLine,
    },
    /// The function logged a line that is not a record line.
    Logged {
        /// The execution environment that logged it.
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
        /// How Lambda interprets the answer.
        answer: Answer,
    },
    /// A requested fault was injected into the delivery of messages or an invocation.
    Fault {
        /// The fault, in words.
        what: String,
        /// The affected messages.
        message_ids: Vec<String>,
    },
}

/// How Lambda interprets the end of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Lambda can read the answer: it returns these messages to the queue and deletes the others.
    Read {
        /// The messages that are returned to the queue.
        failures: Vec<String>,
    },
    /// Lambda returns the whole batch to the queue.
    Failed {
        /// The reason, in words: an error, a timeout, a crash, or an answer that Lambda can't read.
        reason: String,
    },
}

/// A callback for events. It is called while the queues are locked, so it must neither block nor access them.
pub type Observer = Arc<dyn Fn(SystemTime, &LocalEvent) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Observer>);

impl Observers {
    pub(crate) fn add(&mut self, observer: Observer) {
        self.0.push(observer);
    }

    pub(crate) fn tell(&self, now: SystemTime, event: &LocalEvent) {
        for observer in &self.0 {
            observer(now, event);
        }
    }

    pub(crate) fn tell_now(&self, event: &LocalEvent) {
        self.tell(SystemTime::now(), event);
    }
}

fn millis<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(crate::millis(*time))
}
