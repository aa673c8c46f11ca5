//! One queue: which of its messages can be received, and which are in flight.

use super::error::QueueError;
use super::message::{NewMessage, Received};
use super::queues::QueueSettings;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, SystemTime};

/// For how long a FIFO queue knows a deduplication id.
const DEDUPLICATION: Duration = Duration::from_secs(5 * 60);
/// How long a message may be invisible, counted from when it was received.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

pub(super) struct Queue {
    pub(super) name: String,
    pub(super) settings: QueueSettings,
    messages: BTreeMap<u64, Stored>,
    /// Every message by when it can be received.
    visible: BTreeSet<(SystemTime, u64)>,
    next: u64,
    deduplication: HashMap<String, (SystemTime, String)>,
}

/// What sending a message came to.
pub(super) enum Sent {
    /// It is in the queue.
    Now { id: String, visible_at: SystemTime },
    /// It is a duplicate of a message that has this id.
    Before(String),
}

/// What receiving comes to for one message.
pub(super) enum Delivery {
    Received {
        received: Received,
        visible_at: SystemTime,
    },
    /// It was received too often, and is in the queue no more.
    Dead(NewMessage),
}

struct Stored {
    message: NewMessage,
    sent_at: SystemTime,
    receive_count: u32,
    first_received_at: SystemTime,
    received_at: SystemTime,
    visible_at: SystemTime,
    dead_letter_source: Option<String>,
}

impl Queue {
    pub(super) fn new(name: &str, settings: QueueSettings) -> Self {
        Self {
            name: name.to_owned(),
            settings,
            messages: BTreeMap::new(),
            visible: BTreeSet::new(),
            next: 0,
            deduplication: HashMap::new(),
        }
    }

    pub(super) fn is_fifo(&self) -> bool {
        is_fifo(&self.name)
    }

    /// Takes a message, unless it is a duplicate.
    pub(super) fn send(
        &mut self,
        message: NewMessage,
        now: SystemTime,
    ) -> Result<Sent, QueueError> {
        let id = message.id.clone();
        if self.is_fifo() {
            if message.group_id.is_none() {
                return Err(QueueError::Fifo("a message group"));
            }
            let Some(deduplication_id) = &message.deduplication_id else {
                return Err(QueueError::Fifo("a deduplication id"));
            };
            self.deduplication
                .retain(|_, (sent_at, _)| *sent_at + DEDUPLICATION > now);
            if let Some((_, first)) = self.deduplication.get(deduplication_id) {
                return Ok(Sent::Before(first.clone()));
            }
            self.deduplication
                .insert(deduplication_id.clone(), (now, id.clone()));
        }
        self.store(message, None, now);
        Ok(Sent::Now {
            id,
            visible_at: now,
        })
    }

    /// Puts a message at the end of the queue.
    pub(super) fn store(&mut self, message: NewMessage, source: Option<String>, now: SystemTime) {
        let sequence = self.next;
        self.next += 1;
        self.visible.insert((now, sequence));
        let stored = Stored {
            message,
            sent_at: now,
            receive_count: 0,
            first_received_at: now,
            received_at: now,
            visible_at: now,
            dead_letter_source: source,
        };
        self.messages.insert(sequence, stored);
    }

    /// Receives up to `most` messages; those that were received too often leave the queue.
    pub(super) fn receive(&mut self, most: usize, now: SystemTime) -> Vec<Delivery> {
        let redrive = self.settings.redrive.as_ref();
        let limit = redrive.map_or(u32::MAX, |redrive| redrive.max_receive_count);
        let (mut next, mut left) = (Vec::new(), most);
        for sequence in self.receivable(now) {
            if left == 0 {
                break;
            }
            let is_dead = self.messages[&sequence].receive_count >= limit;
            left -= usize::from(!is_dead);
            next.push((sequence, is_dead));
        }
        let deliveries = next.into_iter().filter_map(|(sequence, is_dead)| {
            if is_dead {
                self.remove(sequence).map(Delivery::Dead)
            } else {
                self.deliver(sequence, now)
            }
        });
        deliveries.collect()
    }

    /// The messages that can be received now, in the order in which they are.
    fn receivable(&self, now: SystemTime) -> Box<dyn Iterator<Item = u64> + '_> {
        if !self.is_fifo() {
            let visible = self.visible.range(..=(now, u64::MAX));
            return Box::new(visible.map(|(_, sequence)| *sequence));
        }
        let blocked = self.groups_in_flight(now);
        let is_next = move |stored: &Stored| {
            let group = stored.message.group_id.as_deref().unwrap_or_default();
            stored.visible_at <= now && !blocked.contains(group)
        };
        let next = self.messages.iter().filter(move |(_, one)| is_next(one));
        Box::new(next.map(|(sequence, _)| *sequence))
    }

    /// The message groups of a FIFO queue that give nothing before what they have in flight is done.
    fn groups_in_flight(&self, now: SystemTime) -> HashSet<String> {
        if !self.is_fifo() {
            return HashSet::new();
        }
        let in_flight = self.visible.range((now, u64::MAX)..);
        in_flight
            .filter_map(|(_, sequence)| self.messages[sequence].message.group_id.clone())
            .collect()
    }

    fn deliver(&mut self, sequence: u64, now: SystemTime) -> Option<Delivery> {
        let stored = self.messages.get_mut(&sequence)?;
        if stored.receive_count == 0 {
            stored.first_received_at = now;
        }
        stored.receive_count += 1;
        stored.received_at = now;
        let received = Received {
            receipt_handle: format!("{}/{sequence}/{}", self.name, stored.receive_count),
            message: stored.message.clone(),
            receive_count: stored.receive_count,
            sent_at: stored.sent_at,
            first_received_at: stored.first_received_at,
            sequence_number: sequence,
            dead_letter_source: stored.dead_letter_source.clone(),
        };
        let visible_at = now + self.settings.visibility_timeout;
        self.hide(sequence, visible_at);
        Some(Delivery::Received {
            received,
            visible_at,
        })
    }

    fn hide(&mut self, sequence: u64, until: SystemTime) {
        if let Some(stored) = self.messages.get_mut(&sequence) {
            self.visible.remove(&(stored.visible_at, sequence));
            self.visible.insert((until, sequence));
            stored.visible_at = until;
        }
    }

    fn remove(&mut self, sequence: u64) -> Option<NewMessage> {
        let stored = self.messages.remove(&sequence)?;
        self.visible.remove(&(stored.visible_at, sequence));
        Some(stored.message)
    }

    /// The message that a receipt handle names, if it is the message's last.
    fn find(&self, handle: &str) -> Result<Option<(u64, &Stored)>, QueueError> {
        let (sequence, receive_count) = self
            .parse(handle)
            .ok_or_else(|| QueueError::Handle(self.name.clone()))?;
        let stored = self.messages.get(&sequence);
        let latest = stored.filter(|stored| stored.receive_count == receive_count);
        Ok(latest.map(|stored| (sequence, stored)))
    }

    fn parse(&self, handle: &str) -> Option<(u64, u32)> {
        let rest = handle.strip_prefix(&self.name)?.strip_prefix('/')?;
        let (sequence, receive_count) = rest.split_once('/')?;
        Some((sequence.parse().ok()?, receive_count.parse().ok()?))
    }

    /// Gives the id of the message that it deletes.
    pub(super) fn delete(
        &mut self,
        handle: &str,
        now: SystemTime,
    ) -> Result<Option<String>, QueueError> {
        let Some((sequence, stored)) = self.find(handle)? else {
            return Ok(None);
        };
        if self.is_fifo() && stored.visible_at <= now {
            return Err(QueueError::Expired);
        }
        Ok(self.remove(sequence).map(|message| message.id))
    }

    /// Gives the id of the message, and when it becomes visible.
    pub(super) fn change_visibility(
        &mut self,
        handle: &str,
        timeout: Duration,
        now: SystemTime,
    ) -> Result<(String, SystemTime), QueueError> {
        let (sequence, stored) = self.find(handle)?.ok_or(QueueError::NotInFlight)?;
        if stored.visible_at <= now {
            return Err(QueueError::NotInFlight);
        }
        let visible_at = now.checked_add(timeout).ok_or(QueueError::TooLong)?;
        if visible_at > stored.received_at + LONGEST {
            return Err(QueueError::TooLong);
        }
        let id = stored.message.id.clone();
        self.hide(sequence, visible_at);
        Ok((id, visible_at))
    }

    /// Takes every message out that can be received now.
    pub(super) fn take_visible(&mut self, now: SystemTime) -> Vec<NewMessage> {
        let visible: Vec<_> = self.receivable(now).collect();
        visible
            .into_iter()
            .filter_map(|sequence| self.remove(sequence))
            .collect()
    }

    pub(super) fn purge(&mut self) {
        self.messages.clear();
        self.visible.clear();
    }

    /// Every message in the order in which they were sent.
    pub(super) fn messages(&self) -> impl Iterator<Item = &NewMessage> {
        self.messages.values().map(|stored| &stored.message)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn in_flight(&self, now: SystemTime) -> usize {
        self.visible.range((now, u64::MAX)..).count()
    }
}

pub(super) fn is_fifo(name: &str) -> bool {
    name.ends_with(".fifo")
}
