//! Queues by their names, and what moves between them.

use super::error::QueueError;
use super::message::{NewMessage, Received};
use super::one::{Delivery, Queue, Sent, Stored, is_fifo};
use super::settings::{Counts, QueueSettings, Redrive};
use crate::local_event::{LocalEvent, Observer};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

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

    fn tell(&self, now: SystemTime, happening: &LocalEvent) {
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

    pub(super) fn queue(&self, name: &str) -> Result<&Queue, QueueError> {
        let queue = self.queues.get(name);
        queue.ok_or_else(|| QueueError::NoQueue(name.to_owned()))
    }

    fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, QueueError> {
        let queue = self.queues.get_mut(name);
        queue.ok_or_else(|| QueueError::NoQueue(name.to_owned()))
    }

    /// The queue, without the messages that are too old to be kept.
    fn queue_at(&mut self, name: &str, now: SystemTime) -> Result<&mut Queue, QueueError> {
        for expired in self.queue_mut(name)?.expire(now) {
            let happening = LocalEvent::Expired {
                queue: name.to_owned(),
                message_id: expired.message.id,
            };
            self.tell(now, &happening);
        }
        self.queue_mut(name)
    }

    /// Sends a message, and gives the id that it has: a FIFO queue that has taken a message of the same
    /// deduplication id within five minutes gives that one's, and takes no other.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`], and [`QueueError::Fifo`] or [`QueueError::NoDeduplication`] for a message that a
    /// FIFO queue can't take.
    pub fn send(
        &mut self,
        queue: &str,
        message: NewMessage,
        now: SystemTime,
    ) -> Result<String, QueueError> {
        Ok(self.accept(queue, message, now)?.id)
    }

    pub(super) fn accept(
        &mut self,
        queue: &str,
        message: NewMessage,
        now: SystemTime,
    ) -> Result<Sent, QueueError> {
        let (body, attributes) = (message.body.clone(), message.attributes.clone());
        let group_id = message.group_id.clone();
        let sent = self.queue_at(queue, now)?.send(message, now)?;
        if let Some(visible_at) = sent.visible_at {
            let happening = LocalEvent::Sent {
                queue: queue.to_owned(),
                message_id: sent.id.clone(),
                body,
                attributes,
                group_id,
                visible_at,
            };
            self.tell(now, &happening);
        }
        Ok(sent)
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
        self.receive_for(queue, most, None, now)
    }

    /// Receives messages that are then invisible for `visibility_timeout`, if one is given.
    pub(super) fn receive_for(
        &mut self,
        queue: &str,
        most: usize,
        visibility_timeout: Option<Duration>,
        now: SystemTime,
    ) -> Result<Vec<Received>, QueueError> {
        let from = self.queue_at(queue, now)?;
        let deliveries = from.receive(most, visibility_timeout, now);
        let redrive = from.settings.redrive.clone();
        let mut all = Vec::new();
        for delivery in deliveries {
            match delivery {
                Delivery::Received {
                    received,
                    visible_at,
                } => {
                    let happening = LocalEvent::Received {
                        queue: queue.to_owned(),
                        message_id: received.message.id.clone(),
                        receive_count: received.receive_count,
                        visible_at,
                    };
                    self.tell(now, &happening);
                    all.push(received);
                }
                Delivery::Dead(stored) => {
                    if let Some(Redrive { to, .. }) = &redrive {
                        self.bury(queue, to, stored, now)?;
                    }
                }
            }
        }
        Ok(all)
    }

    /// Puts a message that was received too often into the dead-letter queue.
    fn bury(
        &mut self,
        from: &str,
        to: &str,
        stored: Stored,
        now: SystemTime,
    ) -> Result<(), QueueError> {
        let happening = LocalEvent::DeadLettered {
            queue: from.to_owned(),
            to: to.to_owned(),
            message_id: stored.message.id.clone(),
        };
        let dead_letters = self.queue_mut(to)?;
        // A standard queue keeps it as long as if it had been sent here in the first place.
        let sent_at = if dead_letters.is_fifo() {
            now
        } else {
            stored.sent_at
        };
        let mut dead = Stored::new(stored.message, sent_at, now);
        dead.dead_letter_source = Some(from.to_owned());
        dead_letters.store(dead);
        self.tell(now, &happening);
        Ok(())
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
        let deleted = self.queue_at(queue, now)?.delete(receipt_handle, now)?;
        let Some(message_id) = deleted else {
            return Ok(false);
        };
        let queue = queue.to_owned();
        self.tell(now, &LocalEvent::Deleted { queue, message_id });
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
        let changed = self.queue_at(queue, now)?;
        let (message_id, visible_at) = changed.change_visibility(receipt_handle, timeout, now)?;
        let happening = LocalEvent::VisibilityChanged {
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
        let moved = self.move_visible(from, Some(to), usize::MAX, &mut new_id, now)?;
        Ok(moved.count)
    }

    /// Moves the first visible messages to a queue, or without one each to where it was moved from.
    pub(super) fn move_visible(
        &mut self,
        from: &str,
        to: Option<&str>,
        most: usize,
        new_id: &mut dyn FnMut() -> String,
        now: SystemTime,
    ) -> Result<Moved, QueueError> {
        let mut moved = Moved::default();
        for (sequence, source) in self.queue_at(from, now)?.first(most, now) {
            let Some(to) = to.map(str::to_owned).or(source) else {
                moved.failure = Some("CouldNotDetermineMessageSource");
                break;
            };
            if !self.queues.contains_key(&to) {
                moved.failure = Some("AWS.SimpleQueueService.NonExistentQueue");
                break;
            }
            let Some(stored) = self.queue_mut(from)?.remove(sequence) else {
                continue;
            };
            let id = new_id();
            let happening = LocalEvent::Redriven {
                queue: from.to_owned(),
                to: to.clone(),
                message_id: stored.message.id.clone(),
                new_message_id: id.clone(),
            };
            let message = NewMessage {
                id,
                ..stored.message
            };
            self.queue_mut(&to)?.store(Stored::new(message, now, now));
            self.tell(now, &happening);
            moved.count += 1;
        }
        Ok(moved)
    }

    /// Deletes every message of a queue, in flight or not.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn purge(&mut self, queue: &str, now: SystemTime) -> Result<(), QueueError> {
        self.queue_mut(queue)?.purge();
        let queue = queue.to_owned();
        self.tell(now, &LocalEvent::Purged { queue });
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
        Ok(self.counts(queue, now)?.in_flight)
    }

    /// How many messages a queue has of each kind.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn counts(&self, queue: &str, now: SystemTime) -> Result<Counts, QueueError> {
        Ok(self.queue(queue)?.counts(now))
    }

    /// How a queue behaves.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`].
    pub fn settings(&self, queue: &str) -> Result<&QueueSettings, QueueError> {
        Ok(&self.queue(queue)?.settings)
    }

    /// The queues' names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.queues.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The names of the queues whose dead-letter queue this is, sorted.
    pub(super) fn sources(&self, dead_letters: &str) -> Vec<&str> {
        let mut names = self.names();
        names.retain(|name| {
            let redrive = self.queues[*name].settings.redrive.as_ref();
            redrive.is_some_and(|redrive| redrive.to == dead_letters)
        });
        names
    }

    /// Takes the messages out of a queue that are too old to be kept.
    pub(super) fn expire(&mut self, queue: &str, now: SystemTime) -> Result<(), QueueError> {
        self.queue_at(queue, now).map(|_| ())
    }
}

/// What moving messages came to.
#[derive(Default)]
pub(super) struct Moved {
    pub(super) count: usize,
    /// Why not all were moved, as SQS calls it.
    pub(super) failure: Option<&'static str>,
}
