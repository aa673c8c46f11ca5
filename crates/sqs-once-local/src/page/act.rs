//! What the page's buttons do to the queues.

use super::story::Story;
use crate::queue::{LocalSqs, NewMessage, QueueError};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use uuid::Uuid;

/// A message to send.
#[derive(Debug, Deserialize)]
pub(super) struct Send {
    body: String,
    group_id: Option<String>,
}

/// A message to send a second time.
#[derive(Debug, Deserialize)]
pub(super) struct Duplicate {
    number: u64,
}

/// The result of an action.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    count: usize,
    message_id: Option<String>,
}

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActError {
    #[error("a message needs a body")]
    Empty,
    #[error("that message is not known any more")]
    Forgotten,
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Sends a new message.
pub(super) fn send(story: &Story, sqs: &LocalSqs, send: Send) -> Result<Done, ActError> {
    if send.body.is_empty() {
        return Err(ActError::Empty);
    }
    let mut message = NewMessage::new(Uuid::new_v4().to_string(), send.body);
    message.group_id = send.group_id.filter(|group| !group.is_empty());
    put(story, sqs, message)
}

/// Sends a message again under the same id, which simulates that SQS delivers it twice.
pub(super) fn duplicate(
    story: &Story,
    sqs: &LocalSqs,
    duplicate: &Duplicate,
) -> Result<Done, ActError> {
    let message = story.message(duplicate.number);
    put(story, sqs, message.ok_or(ActError::Forgotten)?)
}

/// Moves every visible message of the dead-letter queues back to the queue.
pub(super) fn redrive(story: &Story, sqs: &LocalSqs) -> Result<Done, ActError> {
    let to = story.queue();
    let dead_letters = story.dead_letters();
    let mut queues = sqs.queues();
    let mut count = 0;
    for from in dead_letters {
        let new_id = || Uuid::new_v4().to_string();
        count += queues.redrive(&from, &to, new_id, SystemTime::now())?;
    }
    let message_id = None;
    Ok(Done { count, message_id })
}

fn put(story: &Story, sqs: &LocalSqs, mut message: NewMessage) -> Result<Done, ActError> {
    let queue = story.queue();
    if queue.ends_with(".fifo") {
        // A new deduplication id, because a FIFO queue drops a repeated one.
        message.deduplication_id = Some(Uuid::new_v4().to_string());
    }
    let id = sqs.queues().send(&queue, message, SystemTime::now())?;
    let message_id = Some(id);
    Ok(Done {
        count: 1,
        message_id,
    })
}
