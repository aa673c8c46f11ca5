//! Queues by name, and the messages that move between them.

use super::error::QueueError;
use super::one::{Queue, Sent, Stored, is_fifo};
use super::settings::{Counts, QueueSettings, Redrive};
use crate::event::Event;
use crate::local_event::{LocalEvent, Observer, Observers};
use crate::message::{NewMessage, Received, queue_name};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

/// A visibility timeout that does not end: 136 years.
const ENDLESS: Duration = Duration::from_secs(u32::MAX as u64);

/// SQS queues in memory. They are a state machine without a clock: the caller passes the time.
///
/// Every method that takes a queue's name returns [`QueueError::NoQueue`] if that queue does not exist.
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
    /// Receipt handles that no queue handed out.
    accepted: HashSet<String>,
    observers: Observers,
}

impl Queues {
    /// Registers an observer. Observers are called in the order of registration.
    pub fn observe(&mut self, observer: Observer) {
        self.observers.add(observer);
    }

    /// Creates a queue, or changes the settings of an existing one.
    ///
    /// # Errors
    /// [`QueueError::NoQueue`] if its dead-letter queue does not exist, [`QueueError::OtherType`] if only one of the
    /// two is a FIFO queue.
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
        let queue = self.queues.entry(name.to_owned());
        queue.or_insert_with(|| Queue::new(name)).settings = settings;
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

    /// Returns the queue after removing the messages that exceed the retention period.
    pub(super) fn queue_at(
        &mut self,
        name: &str,
        now: SystemTime,
    ) -> Result<&mut Queue, QueueError> {
        for expired in self.queue_mut(name)?.expire(now) {
            let event = LocalEvent::Expired {
                queue: name.to_owned(),
                message_id: expired.message.id,
            };
            self.observers.tell(now, &event);
        }
        self.queue_mut(name)
    }

    /// Sends a message and returns its id. A FIFO queue does not store a message whose deduplication id it has accepted
    /// within five minutes. It returns the earlier message's id instead.
    ///
    /// # Errors
    /// [`QueueError::Fifo`] or [`QueueError::NoDeduplication`] for a message that a FIFO
    /// queue can't accept.
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
            let event = LocalEvent::Sent {
                queue: queue.to_owned(),
                message_id: sent.id.clone(),
                body,
                attributes,
                group_id,
                visible_at,
            };
            self.observers.tell(now, &event);
        }
        Ok(sent)
    }

    /// Receives up to `most` messages and hides them for the queue's visibility timeout. Messages that have been
    /// received as often as the redrive policy allows move to the dead-letter queue instead.
    ///
    /// A standard queue returns messages in the order in which they became visible. A FIFO queue returns them in the order
    /// in which they were sent. It skips a message group that has a message in flight.
    pub fn receive(
        &mut self,
        queue: &str,
        most: usize,
        now: SystemTime,
    ) -> Result<Vec<Received>, QueueError> {
        self.receive_for(queue, most, None, now)
    }

    /// Like [`Queues::receive`], with an optional visibility timeout for this request.
    pub(super) fn receive_for(
        &mut self,
        queue: &str,
        most: usize,
        visibility_timeout: Option<Duration>,
        now: SystemTime,
    ) -> Result<Vec<Received>, QueueError> {
        let from = self.queue_at(queue, now)?;
        let delivery = from.receive(most, visibility_timeout, now);
        if let Some(Redrive { to, .. }) = from.settings.redrive.clone() {
            for stored in delivery.dead {
                self.dead_letter(queue, &to, stored, now)?;
            }
        }
        for received in &delivery.received {
            let event = LocalEvent::Received {
                queue: queue.to_owned(),
                message_id: received.message.id.clone(),
                receive_count: received.receive_count,
                visible_at: delivery.visible_at,
            };
            self.observers.tell(now, &event);
        }
        Ok(delivery.received)
    }

    fn dead_letter(
        &mut self,
        from: &str,
        to: &str,
        stored: Stored,
        now: SystemTime,
    ) -> Result<(), QueueError> {
        let event = LocalEvent::DeadLettered {
            queue: from.to_owned(),
            to: to.to_owned(),
            message_id: stored.message.id.clone(),
        };
        let dead_letters = self.queue_mut(to)?;
        // On a standard queue, retention continues from the time of the original send.
        let sent_at = if dead_letters.is_fifo() {
            now
        } else {
            stored.sent_at
        };
        let mut dead = Stored::new(stored.message, sent_at, now);
        dead.dead_letter_source = Some(from.to_owned());
        dead_letters.store(dead);
        self.observers.tell(now, &event);
        Ok(())
    }

    /// Deletes the message with this receipt handle. Returns whether it did: a handle from an earlier receive deletes
    /// nothing, which SQS does not treat as an error.
    ///
    /// # Errors
    /// [`QueueError::Handle`], and for a FIFO queue [`QueueError::Expired`] if the message is visible again.
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
        self.observers
            .tell(now, &LocalEvent::Deleted { queue, message_id });
        Ok(true)
    }

    /// Accepts the receipt handles in an event that these queues did not hand out, such as a sample event.
    /// [`change_visibility`](Self::change_visibility) with one of them succeeds and has no effect. Creates the event's
    /// queues if they are missing.
    pub fn accept_receipts(&mut self, event: &Event) {
        let handles = event.receipt_handles.iter().cloned();
        self.accepted.extend(handles);
        for arn in &event.queue_arns {
            let name = queue_name(arn);
            let queue = self.queues.entry(name.to_owned());
            let queue = queue.or_insert_with(|| Queue::new(name));
            // The messages of a sample were received long ago, and none of them becomes visible.
            queue.settings.visibility_timeout = ENDLESS;
        }
    }

    /// Makes a message in flight visible after `timeout` from now.
    ///
    /// # Errors
    /// [`QueueError::Handle`], [`QueueError::NotInFlight`], and [`QueueError::TooLong`] if the
    /// message would be invisible for more than 12 hours after it was received.
    pub fn change_visibility(
        &mut self,
        queue: &str,
        receipt_handle: &str,
        timeout: Duration,
        now: SystemTime,
    ) -> Result<(), QueueError> {
        if self.accepted.contains(receipt_handle) {
            return Ok(());
        }
        let changed = self.queue_at(queue, now)?;
        let (message_id, visible_at) = changed.change_visibility(receipt_handle, timeout, now)?;
        let event = LocalEvent::VisibilityChanged {
            queue: queue.to_owned(),
            message_id,
            visible_at,
        };
        self.observers.tell(now, &event);
        Ok(())
    }

    /// Moves every visible message of a dead-letter queue to another queue, each under a new id. Returns the number of
    /// moved messages.
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

    /// Moves the first visible messages to the queue `to`. Without `to`, moves each to the queue that it came from.
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
            let event = LocalEvent::Redriven {
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
            self.observers.tell(now, &event);
            moved.count += 1;
        }
        Ok(moved)
    }

    /// Deletes every message of a queue, in flight or not.
    pub fn purge(&mut self, queue: &str, now: SystemTime) -> Result<(), QueueError> {
        self.queue_mut(queue)?.purge();
        let queue = queue.to_owned();
        self.observers.tell(now, &LocalEvent::Purged { queue });
        Ok(())
    }

    /// Returns every message of a queue, visible or not, in the order in which they were sent.
    pub fn messages(&self, queue: &str) -> Result<impl Iterator<Item = &NewMessage>, QueueError> {
        Ok(self.queue(queue)?.messages())
    }

    /// Returns how many messages a queue has, visible or not.
    pub fn len(&self, queue: &str) -> Result<usize, QueueError> {
        Ok(self.queue(queue)?.len())
    }

    /// Returns how many messages of a queue are in flight.
    pub fn in_flight(&self, queue: &str, now: SystemTime) -> Result<usize, QueueError> {
        Ok(self.counts(queue, now)?.in_flight)
    }

    /// Returns how many messages of a queue are visible, in flight and delayed.
    pub fn counts(&self, queue: &str, now: SystemTime) -> Result<Counts, QueueError> {
        Ok(self.queue(queue)?.counts(now))
    }

    /// Returns a queue's settings.
    pub fn settings(&self, queue: &str) -> Result<&QueueSettings, QueueError> {
        Ok(&self.queue(queue)?.settings)
    }

    /// The queues' names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.queues.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The names of the queues that use this dead-letter queue, sorted.
    pub(super) fn sources(&self, dead_letters: &str) -> Vec<&str> {
        let mut names = self.names();
        names.retain(|name| {
            let redrive = self.queues[*name].settings.redrive.as_ref();
            redrive.is_some_and(|redrive| redrive.to == dead_letters)
        });
        names
    }
}

#[derive(Default)]
pub(super) struct Moved {
    pub(super) count: usize,
    /// Why some were not moved, as an SQS failure reason.
    pub(super) failure: Option<&'static str>,
}
