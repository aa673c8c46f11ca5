//! Queues by their names, and what moves between them.

use super::error::QueueError;
use super::message::{NewMessage, Received};
use super::one::{Delivery, Queue, Sent, is_fifo};
use crate::happening::{Happening, Observer};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// How a queue behaves. One whose name ends in `.fifo` is a FIFO queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a message that was received can't be received again: 30 s by default, as in SQS.
    pub visibility_timeout: Duration,
    /// When messages go to a dead-letter queue: by default never.
    pub redrive: Option<Redrive>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility_timeout: Duration::from_secs(30),
            redrive: None,
        }
    }
}

/// A redrive policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The dead-letter queue.
    pub to: String,
    /// A message that was received so often goes there instead of being received once more.
    pub max_receive_count: u32,
}

/// Queues as SQS keeps them, in memory: a state machine without a clock of its own.
///
/// ```
/// use sqs_once_local::{NewMessage, QueueSettings, Queues};
/// use std::time::{Duration, SystemTime};
///
/// let mut queues = Queues::default();
/// queues.create("orders", QueueSettings::default())?;
/// let now = SystemTime::now();
/// queues.send("orders", NewMessage::new("m-1", "{}"), now)?;
///
/// let received = queues.receive("orders", 10, now)?;
/// assert_eq!(received[0].receive_count, 1);
/// assert_eq!(queues.receive("orders", 10, now)?, [], "it is invisible");
///
/// let later = now + Duration::from_secs(30);
/// let again = queues.receive("orders", 10, later)?;
/// assert_eq!(again[0].receive_count, 2);
/// assert!(!queues.delete("orders", &received[0].receipt_handle, later)?, "an old receipt");
/// assert!(queues.delete("orders", &again[0].receipt_handle, later)?);
/// # Ok::<(), sqs_once_local::QueueError>(())
/// ```
#[derive(Default)]
pub struct Queues {
    queues: HashMap<String, Queue>,
    observers: Vec<Observer>,
}

impl Queues {
    /// Tells `observer` from now on what happens, after all who were to be told before.
    pub fn observe(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    fn tell(&self, now: SystemTime, happening: &Happening) {
        for observer in &self.observers {
            observer(now, happening);
        }
    }

    /// Creates a queue, or sets an existing one differently.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] if its dead-letter queue is not there, [`QueueError::OtherType`] if only one
    /// of the two is a FIFO queue.
    pub fn create(&mut self, name: &str, settings: QueueSettings) -> Result<(), QueueError> {
        if let Some(Redrive { to, .. }) = &settings.redrive {
            if !self.queues.contains_key(to) {
                return Err(QueueError::NoQueue(to.clone()));
            }
            if is_fifo(name) != is_fifo(to) {
                return Err(QueueError::OtherType {
                    queue: name.to_owned(),
                    dead_letters: to.clone(),
                });
            }
        }
        match self.queues.get_mut(name) {
            Some(queue) => queue.settings = settings,
            None => {
                self.queues
                    .insert(name.to_owned(), Queue::new(name, settings));
            }
        }
        Ok(())
    }

    fn queue(&self, name: &str) -> Result<&Queue, QueueError> {
        let queue = self.queues.get(name);
        queue.ok_or_else(|| QueueError::NoQueue(name.to_owned()))
    }

    fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, QueueError> {
        let queue = self.queues.get_mut(name);
        queue.ok_or_else(|| QueueError::NoQueue(name.to_owned()))
    }

    /// Sends a message, and gives the id that it has: a FIFO queue that has taken a message of the same
    /// deduplication id within five minutes gives that one's, and takes no other.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`], and [`QueueError::Fifo`] for a message that a FIFO queue can't take.
    pub fn send(
        &mut self,
        queue: &str,
        message: NewMessage,
        now: SystemTime,
    ) -> Result<String, QueueError> {
        let (body, attributes) = (message.body.clone(), message.attributes.clone());
        let group_id = message.group_id.clone();
        match self.queue_mut(queue)?.send(message, now)? {
            Sent::Before(id) => Ok(id),
            Sent::Now { id, visible_at } => {
                let happening = Happening::Sent {
                    queue: queue.to_owned(),
                    message_id: id.clone(),
                    body,
                    attributes,
                    group_id,
                    visible_at,
                };
                self.tell(now, &happening);
                Ok(id)
            }
        }
    }

    /// Receives up to `most` messages, which are then invisible for the queue's visibility timeout. Those
    /// that were received as often as the redrive policy allows go to the dead-letter queue instead.
    ///
    /// A standard queue gives what became visible first. A FIFO queue gives messages in the order in
    /// which they were sent, and none of a message group that has one in flight.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn receive(
        &mut self,
        queue: &str,
        most: usize,
        now: SystemTime,
    ) -> Result<Vec<Received>, QueueError> {
        let from = self.queue_mut(queue)?;
        let deliveries = from.receive(most, now);
        let redrive = from.settings.redrive.clone();
        let mut all = Vec::new();
        for delivery in deliveries {
            match delivery {
                Delivery::Received {
                    received,
                    visible_at,
                } => {
                    let happening = Happening::Received {
                        queue: queue.to_owned(),
                        message_id: received.message.id.clone(),
                        receive_count: received.receive_count,
                        visible_at,
                    };
                    self.tell(now, &happening);
                    all.push(received);
                }
                Delivery::Dead(message) => {
                    let Some(Redrive { to, .. }) = &redrive else {
                        continue;
                    };
                    let happening = Happening::DeadLettered {
                        queue: queue.to_owned(),
                        to: to.clone(),
                        message_id: message.id.clone(),
                    };
                    let dead_letters = self.queue_mut(to)?;
                    dead_letters.store(message, Some(queue.to_owned()), now);
                    self.tell(now, &happening);
                }
            }
        }
        Ok(all)
    }

    /// Deletes the message that was received with this receipt handle, and says whether it did: a handle
    /// from before the message was received again deletes nothing, and that is no error in SQS.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`], [`QueueError::Handle`], and for a FIFO queue [`QueueError::Expired`] when
    /// the message is visible again.
    pub fn delete(
        &mut self,
        queue: &str,
        receipt_handle: &str,
        now: SystemTime,
    ) -> Result<bool, QueueError> {
        let deleted = self.queue_mut(queue)?.delete(receipt_handle, now)?;
        let Some(message_id) = deleted else {
            return Ok(false);
        };
        let queue = queue.to_owned();
        self.tell(now, &Happening::Deleted { queue, message_id });
        Ok(true)
    }

    /// Makes a message that is in flight visible after `timeout` from now.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`], [`QueueError::Handle`], [`QueueError::NotInFlight`], and
    /// [`QueueError::TooLong`] beyond 12 hours from when it was received.
    pub fn change_visibility(
        &mut self,
        queue: &str,
        receipt_handle: &str,
        timeout: Duration,
        now: SystemTime,
    ) -> Result<(), QueueError> {
        let changed = self.queue_mut(queue)?;
        let (message_id, visible_at) = changed.change_visibility(receipt_handle, timeout, now)?;
        let happening = Happening::VisibilityChanged {
            queue: queue.to_owned(),
            message_id,
            visible_at,
        };
        self.tell(now, &happening);
        Ok(())
    }

    /// Moves every visible message of a dead-letter queue to another queue, each under a new id, and says
    /// how many those are.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn redrive(
        &mut self,
        from: &str,
        to: &str,
        mut new_id: impl FnMut() -> String,
        now: SystemTime,
    ) -> Result<usize, QueueError> {
        self.queue(to)?;
        let messages = self.queue_mut(from)?.take_visible(now);
        let count = messages.len();
        for message in messages {
            let id = new_id();
            let happening = Happening::Redriven {
                queue: from.to_owned(),
                to: to.to_owned(),
                message_id: message.id.clone(),
                new_message_id: id.clone(),
            };
            let moved = NewMessage { id, ..message };
            self.queue_mut(to)?.store(moved, None, now);
            self.tell(now, &happening);
        }
        Ok(count)
    }

    /// Deletes every message of a queue, in flight or not.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn purge(&mut self, queue: &str, now: SystemTime) -> Result<(), QueueError> {
        self.queue_mut(queue)?.purge();
        let queue = queue.to_owned();
        self.tell(now, &Happening::Purged { queue });
        Ok(())
    }

    /// Every message of a queue, in the order in which they were sent, visible or not.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn messages(&self, queue: &str) -> Result<impl Iterator<Item = &NewMessage>, QueueError> {
        Ok(self.queue(queue)?.messages())
    }

    /// How many messages a queue has, visible or not.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn len(&self, queue: &str) -> Result<usize, QueueError> {
        Ok(self.queue(queue)?.len())
    }

    /// How many messages of a queue are in flight.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn in_flight(&self, queue: &str, now: SystemTime) -> Result<usize, QueueError> {
        Ok(self.queue(queue)?.in_flight(now))
    }
}
