//! What the queues say about how often they deliver a message, and how long they keep it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::breaker::QueueLimits;
use crate::record::Message;
use crate::time::Timestamp;

use super::Visibility;

/// How long a queue's answer counts, since its settings may change.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How long a message waits for an answer. A function whose network does not reach SQS can do without.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last answers, by the queue's ARN: a function may have several queues.
#[derive(Default)]
pub(super) struct Answers(Mutex<HashMap<String, Answer>>);

/// What a queue said last, and when it was asked last.
#[derive(Clone, Copy)]
struct Answer {
    limits: Option<QueueLimits>,
    asked: Timestamp,
}

impl Answers {
    /// Returns the limits of a message's queue, which is asked unless an answer still counts. If the queue does not answer
    /// within 3 s and until `by`, its last answer holds.
    pub(super) async fn limits(
        &self,
        queue: &dyn Visibility,
        message: &Message,
        now: Timestamp,
        by: Instant,
    ) -> Option<QueueLimits> {
        let arn = message.queue_arn().unwrap_or_default();
        let last = self.lock().get(arn).copied();
        let is_fresh = last.is_some_and(|last| now.since(last.asked) < ASK_AGAIN);
        let last = last.and_then(|last| last.limits);
        if is_fresh || Instant::now() >= by {
            return last;
        }
        let by = by.min(Instant::now() + PATIENCE);
        let limits = queue.limits(message, by).await.or(last);
        self.lock()
            .insert(arn.to_owned(), Answer { limits, asked: now });
        limits
    }

    /// Forgets that a message's queue was asked.
    pub(super) fn forget(&self, message: &Message) {
        self.lock().remove(message.queue_arn().unwrap_or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
