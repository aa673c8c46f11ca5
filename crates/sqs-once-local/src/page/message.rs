//! One message, one invocation, and the entries of their timelines.

use crate::log::RecordLine;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many bytes of a log line or a reason the page keeps.
const LONGEST: usize = 8 * 1024;
/// Approximate size of an entry without its texts.
const ENTRY: usize = 128;

/// Where a message is. The viewer decides what depends on the current time, such as an expired visibility timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    #[default]
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

/// The invocation that a message was passed to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Invoked {
    pub(super) environment: u32,
    pub(super) request_id: Arc<str>,
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
        #[serde(flatten)]
        invocation: Option<Invoked>,
    },
    /// Passed to the function again without another receive.
    Invoked(Invoked),
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

/// A message, from when it is sent until the story forgets it. Its JSON form is what the list of messages shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Message {
    /// Its number in this story. Message ids are not unique.
    pub(super) number: u64,
    pub(super) id: Arc<str>,
    /// The queue that holds it, or held it last.
    pub(super) queue: Arc<str>,
    /// Whether that is a dead-letter queue.
    pub(super) dead: bool,
    pub(super) state: State,
    pub(super) visible_at: u64,
    /// The time of its latest event.
    pub(super) at: u64,
    pub(super) receives: u32,
    pub(super) outcome: Option<Arc<str>>,
    /// How many of its deliveries reported that the effect happened.
    pub(super) effects: u32,
    /// How many of its deliveries were stopped, because the effect had happened before.
    pub(super) duplicates: u32,
    pub(super) key: Option<Arc<str>>,
    pub(super) group_id: Option<Arc<str>>,
    /// The id in its content: its body without envelopes.
    pub(super) title: Option<String>,
    /// The beginning of its content.
    pub(super) preview: String,
    /// Why it failed last.
    pub(super) reason: Option<Arc<str>>,
    /// Whether the function sent it to the dead-letter queue, where it goes on as another message.
    pub(super) moved: bool,
    /// Whether it goes on from another message: it was redriven, or the function sent it as a dead letter.
    pub(super) goes_on: bool,
    pub(super) changed: u64,
    #[serde(skip)]
    pub(super) details: Details,
    /// The latest invocation that received it.
    #[serde(skip)]
    pub(super) invocation: Option<u64>,
    /// Whether that invocation has logged its outcome.
    #[serde(skip)]
    pub(super) reported: bool,
    #[serde(skip)]
    pub(super) invocations: VecDeque<u64>,
    #[serde(skip)]
    pub(super) finished: Option<u64>,
    #[serde(skip)]
    pub(super) bytes: usize,
}

/// What only the view of one message shows.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Details {
    pub(super) sent_at: u64,
    pub(super) body: Arc<str>,
    /// The content of its envelopes, if it has any.
    pub(super) opened: Option<Arc<str>>,
    pub(super) attributes: Arc<Map<String, Value>>,
    /// The message before a redrive, or before the function moved it to the dead-letter queue.
    pub(super) from: Option<Link>,
    /// The message as which it continues.
    pub(super) to: Option<Link>,
    #[serde(flatten)]
    pub(super) timeline: Timeline,
}

/// The latest entries of a timeline.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Timeline {
    pub(super) entries: VecDeque<Entry>,
    /// How many entries were forgotten.
    pub(super) entries_forgotten: u64,
}

impl Timeline {
    /// Adds an entry, and forgets the oldest of more than `most`. Returns the size afterwards, given the size before.
    pub(super) fn push(&mut self, entry: Entry, most: usize, bytes: usize) -> usize {
        let bytes = bytes + entry.cost();
        self.entries.push_back(entry);
        if self.entries.len() <= most {
            return bytes;
        }
        self.entries_forgotten += 1;
        let oldest = self.entries.pop_front();
        bytes.saturating_sub(oldest.map_or(0, |entry| entry.cost()))
    }
}

impl Message {
    pub(super) fn is_unfinished_in(&self, queue: &str) -> bool {
        *self.queue == *queue && !self.state.is_finished()
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
    pub(super) lines: Timeline,
    /// How many messages still refer to it.
    pub(super) holders: usize,
    pub(super) bytes: usize,
}

/// Copies a text, cut off at the length limit.
pub(super) fn shortened(text: &str) -> Arc<str> {
    if text.len() <= LONGEST {
        return Arc::from(text);
    }
    let end = text.floor_char_boundary(LONGEST);
    Arc::from(format!("{}…", &text[..end]))
}
