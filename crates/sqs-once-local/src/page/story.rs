//! The story of a run, shared by the observers that add to it and the pages that read it.

use super::apply::StoryState;
use super::html;
use super::limits::Limits;
use crate::local_event::Observer;
use crate::lock;
use crate::message::NewMessage;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// Records events of the messages of one queue and of the function, in bounded memory.
///
/// ```
/// use sqs_once_local::{Limits, NewMessage, QueueSettings, Queues, Story};
/// use std::time::SystemTime;
///
/// let story = Story::new("orders", Some("orders-dlq"), Limits::default());
/// let mut queues = Queues::default();
/// queues.observe(story.observer());
/// queues.create("orders", QueueSettings::default())?;
/// queues.send("orders", NewMessage::new("m-1", "{}"), SystemTime::now())?;
///
/// let html = story.report();
/// assert!(html.contains("m-1"));
/// # Ok::<(), sqs_once_local::QueueError>(())
/// ```
#[derive(Clone)]
pub struct Story(Arc<Shared>);

struct Shared {
    state: Mutex<StoryState>,
    sequence: watch::Sender<u64>,
}

impl Story {
    /// Creates an empty story for a queue and its dead-letter queue, if it has one.
    pub fn new(queue: &str, dead_letters: Option<&str>, limits: Limits) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(StoryState::new(queue, dead_letters, limits)),
            sequence: watch::Sender::new(0),
        }))
    }

    /// Returns an observer that adds events to the story. Pass it to [`Queues::observe`](crate::Queues::observe) and to
    /// the runner of the function.
    pub fn observer(&self) -> Observer {
        let shared = Arc::clone(&self.0);
        Arc::new(move |at, event| {
            let sequence = {
                let mut state = lock(&shared.state);
                state.apply(at, event);
                state.kept.sequence
            };
            // Two observers may arrive here out of order.
            shared.sequence.send_if_modified(|last| {
                let is_newer = sequence > *last;
                *last = sequence.max(*last);
                is_newer
            });
        })
    }

    /// Returns one HTML file that shows the whole story. It needs no network and no other file.
    pub fn report(&self) -> String {
        let whole = self.state().whole();
        html::report(&whole)
    }

    /// Waits for an event after `since`.
    pub(super) async fn changed(&self, since: u64) {
        let mut sequence = self.0.sequence.subscribe();
        // The sender lives as long as the story.
        let _ = sequence.wait_for(|sequence| *sequence > since).await;
    }

    /// Locks the story for reading. Events wait until the guard is dropped.
    pub(super) fn state(&self) -> MutexGuard<'_, StoryState> {
        lock(&self.0.state)
    }

    /// Returns a message as it was sent. Returns `None` if the story did not see it sent, which an empty body shows:
    /// SQS messages never have one.
    pub(super) fn message(&self, number: u64) -> Option<NewMessage> {
        let state = self.state();
        let message = state.kept.messages.get(&number)?;
        if message.details.body.is_empty() {
            return None;
        }
        let mut again = NewMessage::new(&*message.id, &*message.details.body);
        again.attributes = (*message.details.attributes).clone();
        again.group_id = message.group_id.as_deref().map(str::to_owned);
        Some(again)
    }
}
