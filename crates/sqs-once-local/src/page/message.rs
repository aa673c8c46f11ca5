//! One message, one invocation, and the entries of their timelines.

use crate::log::{Outcome, RecordLine};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes that are kept of a log line or a reason: a text of the function's has no limit of its own.
const LONGEST: usize = 8 * 1024;
/// About what an entry takes beside its texts.
const ENTRY: usize = 128;

/// Where a message is. What depends on the time, such as a visibility timeout that has ended, is up to who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Queued,
    InFlight,
    /// Its invocation gave it back: it waits for its visibility timeout to end.
    Returned,
    /// It was deleted.
    Done,
    DeadLettered,
    /// It goes on under another id.
    Redriven,
    Purged,
    /// It was in its queue for longer than that keeps one.
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

/// One thing in a timeline.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    /// Milliseconds since 1970.
    pub(super) at: u64,
    /// Tells entries of one millisecond apart.
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
    /// The story knows nothing of it before this.
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
    /// Given to the function once more without being received again.
    Invoked {
        environment: u32,
        request_id: Arc<str>,
    },
    Record {
        record: RecordLine,
    },
    Logged {
        line: Arc<str>,
        /// Whether the line names the message; others are of its invocation.
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
    /// The function itself has sent it to the dead-letter queue.
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
    /// About how many bytes it takes.
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

/// A message, from when it was sent to when it was forgotten.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// What it is known by here: a message id may not be the only one of its kind.
    pub(super) number: u64,
    pub(super) id: Arc<str>,
    /// Where it is, or was last.
    pub(super) queue: Arc<str>,
    /// Whether that is a dead-letter queue.
    pub(super) dead: bool,
    pub(super) state: State,
    pub(super) sent_at: u64,
    pub(super) visible_at: u64,
    /// When something happened to it last.
    pub(super) at: u64,
    pub(super) receives: u32,
    pub(super) outcome: Option<Outcome>,
    pub(super) key: Option<Arc<str>>,
    pub(super) body: Arc<str>,
    pub(super) attributes: Arc<Map<String, Value>>,
    pub(super) group_id: Option<Arc<str>>,
    /// The message that it was before a redrive, or that the function took it from.
    pub(super) from: Option<Link>,
    /// The message that it goes on as.
    pub(super) to: Option<Link>,
    /// The invocation that has it, or had it last.
    pub(super) invocation: Option<u64>,
    /// Whether that invocation has said what became of it.
    pub(super) reported: bool,
    pub(super) invocations: VecDeque<u64>,
    pub(super) entries: VecDeque<Entry>,
    pub(super) entries_forgotten: u64,
    pub(super) changed: u64,
    pub(super) finished: Option<u64>,
    pub(super) bytes: usize,
}

impl Message {
    /// A message of which nothing is known but its name.
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

/// A batch that the function was given.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) request_id: Arc<str>,
    pub(super) messages: Vec<u64>,
    pub(super) is_open: bool,
    /// What was logged and names none of its messages.
    pub(super) lines: VecDeque<Entry>,
    pub(super) lines_forgotten: u64,
    /// How many messages still tell of it.
    pub(super) told_by: usize,
    pub(super) bytes: usize,
}

pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A text as it is kept: not longer than there is room for.
pub(super) fn shortened(text: &str) -> Arc<str> {
    if text.len() <= LONGEST {
        return Arc::from(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    Arc::from(format!("{}…", &text[..end]))
}
