//! SQS: visibility timeouts, redelivery, redrive, message groups.

use std::time::Duration;

use tokio::time::Instant;

use crate::chance::Chance;

use super::counts::Count;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Queue,
    DeadLetters,
    Deleted,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) key: usize,
    pub(crate) payload: usize,
    pub(crate) group: usize,
    pub(crate) place: Place,
    pub(crate) sent_at: Instant,
    /// When a message becomes visible, or when the producer sends it.
    pub(crate) visible_at: Instant,
    pub(crate) is_out: bool,
    pub(crate) receives: u32,
    pub(crate) receipt: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// The message's number, which is its id.
    pub(crate) message: usize,
    pub(crate) key: usize,
    pub(crate) payload: usize,
    pub(crate) group: usize,
    pub(crate) sent_at: Instant,
    pub(crate) receives: u32,
    pub(crate) receipt: u64,
}

/// A queue with its dead-letter queue. Messages are numbered in the order of sending.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) messages: Vec<Message>,
    is_fifo: bool,
    visibility: Duration,
    max_receives: u32,
    receipts: u64,
}

impl Queue {
    pub(crate) fn new(is_fifo: bool, visibility: Duration, max_receives: u32) -> Self {
        Self {
            messages: Vec::new(),
            is_fifo,
            visibility,
            max_receives,
            receipts: 0,
        }
    }

    pub(crate) fn send(
        &mut self,
        (key, payload): (usize, usize),
        group: usize,
        at: Instant,
        place: Place,
    ) -> usize {
        self.messages.push(Message {
            key,
            payload,
            group,
            place,
            sent_at: at,
            visible_at: at,
            is_out: false,
            receives: 0,
            receipt: 0,
        });
        self.messages.len() - 1
    }

    /// Moves messages that were received too often to the dead-letter queue, and returns them.
    pub(crate) fn redrive(&mut self, now: Instant) -> Vec<usize> {
        let mut moved = Vec::new();
        for (at, message) in self.messages.iter_mut().enumerate() {
            let is_back = message.place == Place::Queue && message.visible_at <= now;
            if is_back && message.receives >= self.max_receives {
                message.place = Place::DeadLetters;
                message.is_out = false;
                moved.push(at);
            }
        }
        moved
    }

    /// Delivers up to `most` visible messages. With `trouble`, it may skip some and deliver in-flight or deleted
    /// messages too, which are counted.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        chance: &Chance,
        trouble: bool,
        most: usize,
    ) -> Vec<(Delivery, Option<Count>)> {
        let mut batch = Vec::new();
        let mut locked = Vec::new();
        for at in 0..self.messages.len() {
            if batch.len() == most {
                break;
            }
            let message = &self.messages[at];
            let is_visible = message.visible_at <= now;
            let odd = match message.place {
                Place::Queue if self.is_fifo => {
                    // A message that is in flight or skipped blocks its group.
                    let is_first = !locked.contains(&message.group);
                    if !is_visible || !is_first || (trouble && chance.once_in(6)) {
                        locked.push(message.group);
                        continue;
                    }
                    None
                }
                Place::Queue if is_visible => match trouble && chance.once_in(4) {
                    true => continue,
                    false => None,
                },
                Place::Queue if trouble && message.is_out && chance.once_in(8) => {
                    Some(Count::DeliveredInFlight)
                }
                Place::Deleted if trouble && !self.is_fifo && chance.once_in(16) => {
                    Some(Count::DeliveredDeleted)
                }
                _ => continue,
            };
            batch.push((self.deliver(at, now), odd));
        }
        batch
    }

    pub(crate) fn deliver(&mut self, at: usize, now: Instant) -> Delivery {
        self.receipts += 1;
        let message = &mut self.messages[at];
        message.receives += 1;
        message.receipt = self.receipts;
        message.is_out = true;
        message.visible_at = now + self.visibility;
        Delivery {
            message: at,
            key: message.key,
            payload: message.payload,
            group: message.group,
            sent_at: message.sent_at,
            receives: message.receives,
            receipt: message.receipt,
        }
    }

    /// Deletes a delivered message. Returns whether this deletion removed it.
    pub(crate) fn delete(&mut self, delivery: Delivery, now: Instant) -> bool {
        let message = &mut self.messages[delivery.message];
        let is_current = message.receipt == delivery.receipt && now < message.visible_at;
        if message.place != Place::Queue || (self.is_fifo && !is_current) {
            return false;
        }
        message.place = Place::Deleted;
        message.is_out = false;
        true
    }

    /// Sets when a message becomes visible, if this receipt is its latest.
    pub(crate) fn change_visibility(&mut self, message: usize, receipt: u64, at: Instant) -> bool {
        let message = &mut self.messages[message];
        let is_current = message.receipt == receipt && message.place == Place::Queue;
        if is_current {
            message.visible_at = at;
        }
        is_current
    }

    /// Sends every dead letter again, as a new message, unless an operator drops it. Returns how many were sent.
    pub(crate) fn redrive_dead_letters(
        &mut self,
        now: Instant,
        drops: impl Fn(&Message) -> bool,
    ) -> usize {
        let sent = self.messages.len();
        for at in 0..sent {
            let dead = &mut self.messages[at];
            if dead.place == Place::DeadLetters {
                dead.place = Place::Deleted;
                if !drops(dead) {
                    let (what, group) = ((dead.key, dead.payload), dead.group);
                    self.send(what, group, now, Place::Queue);
                }
            }
        }
        self.messages.len() - sent
    }

    pub(crate) fn next_visible(&self) -> Option<Instant> {
        let queued = self
            .messages
            .iter()
            .filter(|message| message.place == Place::Queue);
        queued.map(|message| message.visible_at).min()
    }

    pub(crate) fn has(&self, place: Place) -> bool {
        self.messages.iter().any(|message| message.place == place)
    }
}
