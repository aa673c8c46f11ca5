//! The source of a poller's messages.

use super::endpoint::LocalSqs;
use super::error::QueueError;
use super::queues::Queues;
use crate::lock;
use crate::message::{Received, arn};
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A queue that a [`Poller`](crate::Poller) polls.
pub trait Source: Send + Sync + 'static {
    /// The queue's error. It ends the poller.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The queue's ARN, which the function sees.
    fn arn(&self) -> String;

    /// Receives up to `most` messages. May wait up to `wait` for them.
    fn receive(
        &self,
        most: NonZeroU32,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Received>, Self::Error>> + Send;

    /// Deletes received messages. Succeeds for a message that has been received again since.
    fn delete(&self, messages: &[Received])
    -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Makes received messages visible again at once. Succeeds for a message that is already visible.
    fn give_back(
        &self,
        messages: &[Received],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether the queue has no messages, visible or not.
    fn is_empty(&self) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// A queue of a [`LocalSqs`].
#[derive(Clone)]
pub struct LocalQueue {
    queues: Arc<Mutex<Queues>>,
    name: String,
}

impl LocalQueue {
    /// Creates a source from the queue called `name`.
    pub fn new(sqs: &LocalSqs, name: impl Into<String>) -> Self {
        Self {
            queues: sqs.shared(),
            name: name.into(),
        }
    }
}

impl Source for LocalQueue {
    type Error = QueueError;

    fn arn(&self) -> String {
        arn(&self.name)
    }

    async fn receive(
        &self,
        most: NonZeroU32,
        _wait: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
        lock(&self.queues).receive(&self.name, most, SystemTime::now())
    }

    async fn delete(&self, messages: &[Received]) -> Result<(), QueueError> {
        let mut queues = lock(&self.queues);
        for message in messages {
            match queues.delete(&self.name, &message.receipt_handle, SystemTime::now()) {
                Ok(_) | Err(QueueError::Expired) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn give_back(&self, messages: &[Received]) -> Result<(), QueueError> {
        let mut queues = lock(&self.queues);
        for message in messages {
            let (handle, now) = (&message.receipt_handle, SystemTime::now());
            match queues.change_visibility(&self.name, handle, Duration::ZERO, now) {
                Ok(()) | Err(QueueError::NotInFlight) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn is_empty(&self) -> Result<bool, QueueError> {
        Ok(lock(&self.queues).len(&self.name)? == 0)
    }
}
