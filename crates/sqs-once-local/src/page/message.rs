//! One message, one invocation, and the entries of their timelines.

use crate::log::RecordLine;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes to keep of a log line or a reason. The function's own texts have no limit.
const LONGEST: usize = 8 * 1024;
/// Approximate size of an entry without its texts.
const ENTRY: usize = 128;

/// Where a message is. The viewer decides what depends on the current time, such as an expired visibility timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Queued,
    InFlight,
    /// The invocation returned it. It waits for its visibility timeout to end.
    Returned,
    /// It was deleted.
    Done,
    DeadLettered,
    /// It continues under another id.
    Redriven,
    Purged,
    /// It exceeded the queue's retention period.
    Expired,
}

impl State {
    pub(super) fn is_finished(self) -> bool {
        matches!(
            self,
            Self::Done | Self::Redriven | Self::Purged | Self::Expired
        )
    }
}

/// Another message of the same story.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) message_id: Arc<str>,
}

/// An entry of a timeline.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    /// Orders entries of the same millisecond.
    #[serde(skip)]
    pub(super) order: u64,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(super) enum What {
    Sent {
        queue: Arc<str>,
        visible_at: u64,
    },
    /// The message's earlier history is unknown.
    SeenFirst,
    RedrivenFrom {
        queue: Arc<str>,
        link: Link,
    },
    Received {
        queue: Arc<str>,
        receive_count: u32,
        visible_at: u64,
        environment: Option<u32>,
        request_id: Option<Arc<str>>,
    },
    /// Passed to the function again without another receive.
    Invoked {
        environment: u32,
        request_id: Arc<str>,
    },
    Record {
        record: RecordLine,
    },
    Logged {
        line: Arc<str>,
        /// Whether the line names the message. Otherwise it belongs to the message's invocation.
        own: bool,
    },
    Answered {
        environment: u32,
        returned: bool,
        reason: Option<Arc<str>>,
    },
    VisibilityChanged {
        visible_at: u64,
    },
    Deleted {
        queue: Arc<str>,
    },
    DeadLettered {
        to: Arc<str>,
    },
    /// The function itself sent it to the dead-letter queue.
    DeadLetterSent {
        to: Arc<str>,
        link: Link,
    },
    Redriven {
        to: Arc<str>,
        link: Link,
    },
    Purged {
        queue: Arc<str>,
    },
    Expired {
        queue: Arc<str>,
    },
    Fault {
        text: Arc<str>,
    },
    EnvironmentStarted {
        environment: u32,
    },
    EnvironmentEnded {
        environment: u32,
        reason: Arc<str>,
    },
}

impl Entry {
    /// The approximate size in bytes.
    pub(super) fn cost(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        ENTRY
            + match &self.what {
                What::Logged { line: text, .. }
                | What::Fault { text }
                | What::EnvironmentEnded { reason: text, .. } => text.len(),
                What::Record { record } => {
                    record.message_id.len() + length(&record.reason) + length(&record.key)
                }
                _ => 0,
            }
    }
}

/// A message, from when it is sent until the story forgets it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// Its number in this story. Message ids are not unique.
    pub(super) number: u64,
    pub(super) id: Arc<str>,
    /// The queue that holds it, or held it last.
    pub(super) queue: Arc<str>,
    /// Whether that is a dead-letter queue.
    pub(super) dead: bool,
    pub(super) state: State,
    pub(super) sent_at: u64,
    pub(super) visible_at: u64,
    /// The time of its latest event.
    pub(super) at: u64,
    pub(super) receives: u32,
    pub(super) outcome: Option<Arc<str>>,
    pub(super) key: Option<Arc<str>>,
    pub(super) body: Arc<str>,
    pub(super) attributes: Arc<Map<String, Value>>,
    pub(super) group_id: Option<Arc<str>>,
    /// The message before a redrive, or before the function moved it to the dead-letter queue.
    pub(super) from: Option<Link>,
    /// The message as which it continues.
    pub(super) to: Option<Link>,
    /// The latest invocation that received it.
    pub(super) invocation: Option<u64>,
    /// Whether that invocation has logged its outcome.
    pub(super) reported: bool,
    pub(super) invocations: VecDeque<u64>,
    pub(super) entries: VecDeque<Entry>,
    pub(super) entries_forgotten: u64,
    pub(super) changed: u64,
    pub(super) finished: Option<u64>,
    pub(super) bytes: usize,
}

impl Message {
    /// A message of which only the queue and the id are known.
    pub(super) fn new(queue: Arc<str>, id: Arc<str>, at: u64) -> Self {
        Self {
            number: 0,
            id,
            queue,
            dead: false,
            state: State::Queued,
            sent_at: at,
            visible_at: at,
            at,
            receives: 0,
            outcome: None,
            key: None,
            body: Arc::from(""),
            attributes: Arc::default(),
            group_id: None,
            from: None,
            to: None,
            invocation: None,
            reported: false,
            invocations: VecDeque::new(),
            entries: VecDeque::new(),
            entries_forgotten: 0,
            changed: 0,
            finished: None,
            bytes: 0,
        }
    }

    pub(super) fn link(&self) -> Link {
        Link {
            number: self.number,
            message_id: Arc::clone(&self.id),
        }
    }
}

/// A batch that the function received.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) request_id: Arc<str>,
    pub(super) messages: Vec<u64>,
    pub(super) is_open: bool,
    /// Log lines that name none of its messages.
    pub(super) lines: VecDeque<Entry>,
    pub(super) lines_forgotten: u64,
    /// How many messages still refer to it.
    pub(super) told_by: usize,
    pub(super) bytes: usize,
}

pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Copies a text, cut off at the length limit.
pub(super) fn shortened(text: &str) -> Arc<str> {
    if text.len() <= LONGEST {
        return Arc::from(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    Arc::from(format!("{}…", &text[..end]))
}
