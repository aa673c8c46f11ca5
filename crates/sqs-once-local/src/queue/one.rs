//! One queue: its visible messages and those in flight.

use super::error::QueueError;
use super::settings::{Counts, QueueSettings};
use crate::message::{NewMessage, Received};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, SystemTime};

/// How long a FIFO queue remembers a deduplication id.
const DEDUPLICATION: Duration = Duration::from_secs(5 * 60);
/// The longest time that a message may be invisible, counted from when it was received.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

#[derive(Default)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) settings: QueueSettings,
    messages: BTreeMap<u64, Stored>,
    /// Every message, ordered by when it becomes visible.
    visible: BTreeSet<(SystemTime, u64)>,
    /// Every message, ordered by when it was sent.
    aged: BTreeSet<(SystemTime, u64)>,
    next: u64,
    /// For each deduplication id: when it arrived, and the message's id and sequence number.
    deduplication: HashMap<String, (SystemTime, String, u64)>,
    /// The deduplication ids in order of arrival.
    deduplicated: VecDeque<(SystemTime, String)>,
}

pub(super) struct Sent {
    /// The id that the sender gets.
    pub(super) id: String,
    /// Its position in the queue.
    pub(super) sequence_number: u64,
    /// When it can first be received. `None` for a duplicate, which is not stored.
    pub(super) visible_at: Option<SystemTime>,
}

pub(super) struct Delivery {
    pub(super) received: Vec<Received>,
    /// When the received messages become visible again.
    pub(super) visible_at: SystemTime,
    /// Messages that exceeded the maximum receive count and have left the queue.
    pub(super) dead: Vec<Stored>,
}

pub(super) struct Stored {
    pub(super) message: NewMessage,
    pub(super) sent_at: SystemTime,
    receive_count: u32,
    first_received_at: SystemTime,
    received_at: SystemTime,
    visible_at: SystemTime,
    pub(super) dead_letter_source: Option<String>,
}

impl Stored {
    pub(super) fn new(message: NewMessage, sent_at: SystemTime, visible_at: SystemTime) -> Self {
        Self {
            message,
            sent_at,
            receive_count: 0,
            first_received_at: sent_at,
            received_at: sent_at,
            visible_at,
            dead_letter_source: None,
        }
    }
}

impl Queue {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn is_fifo(&self) -> bool {
        is_fifo(&self.name)
    }

    /// Stores a message, unless it is a duplicate.
    pub(super) fn send(
        &mut self,
        mut message: NewMessage,
        now: SystemTime,
    ) -> Result<Sent, QueueError> {
        if self.is_fifo()
            && let Some(before) = self.sent_before(&mut message, now)?
        {
            return Ok(before);
        }
        let id = message.id.clone();
        let delay = message.delay.unwrap_or(self.settings.delay);
        let visible_at = now + delay.min(LONGEST);
        let sequence_number = self.store(Stored::new(message, now, visible_at));
        Ok(Sent {
            id,
            sequence_number,
            visible_at: Some(visible_at),
        })
    }

    /// Returns the earlier message that this one duplicates on a FIFO queue. Otherwise remembers its deduplication id.
    fn sent_before(
        &mut self,
        message: &mut NewMessage,
        now: SystemTime,
    ) -> Result<Option<Sent>, QueueError> {
        if message.group_id.is_none() {
            return Err(QueueError::Fifo("a message group"));
        }
        if message.deduplication_id.is_none() && self.settings.content_based_deduplication {
            let hash = Sha256::digest(&message.body);
            let hex = hash.iter().map(|byte| format!("{byte:02x}"));
            message.deduplication_id = Some(hex.collect());
        }
        let Some(deduplication_id) = &message.deduplication_id else {
            return Err(QueueError::NoDeduplication);
        };
        let is_over = |(sent_at, _): &mut (SystemTime, String)| *sent_at + DEDUPLICATION <= now;
        while let Some((_, over)) = self.deduplicated.pop_front_if(is_over) {
            self.deduplication.remove(&over);
        }
        if let Some((_, id, sequence_number)) = self.deduplication.get(deduplication_id) {
            return Ok(Some(Sent {
                id: id.clone(),
                sequence_number: *sequence_number,
                visible_at: None,
            }));
        }
        let first = (now, message.id.clone(), self.next);
        self.deduplication.insert(deduplication_id.clone(), first);
        self.deduplicated.push_back((now, deduplication_id.clone()));
        Ok(None)
    }

    /// Appends a message to the queue and returns its sequence number.
    pub(super) fn store(&mut self, stored: Stored) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.visible.insert((stored.visible_at, sequence));
        self.aged.insert((stored.sent_at, sequence));
        self.messages.insert(sequence, stored);
        sequence
    }

    /// Removes and returns the messages that exceed the retention period.
    pub(super) fn expire(&mut self, now: SystemTime) -> Vec<Stored> {
        let mut expired = Vec::new();
        while let Some(&(sent_at, sequence)) = self.aged.first() {
            let age = now.duration_since(sent_at).unwrap_or_default();
            if age < self.settings.retention {
                break;
            }
            expired.extend(self.remove(sequence));
        }
        expired
    }

    /// Receives up to `most` messages. Removes messages that exceed the maximum receive count, in addition to these.
    pub(super) fn receive(
        &mut self,
        most: usize,
        visibility_timeout: Option<Duration>,
        now: SystemTime,
    ) -> Delivery {
        let redrive = self.settings.redrive.as_ref();
        let limit = redrive.map_or(u32::MAX, |redrive| redrive.max_receive_count);
        let (mut next, mut dead) = (Vec::new(), Vec::new());
        for sequence in self.receivable(now) {
            if next.len() == most {
                break;
            }
            match self.messages[&sequence].receive_count >= limit {
                true => dead.push(sequence),
                false => next.push(sequence),
            }
        }
        let timeout = visibility_timeout.unwrap_or(self.settings.visibility_timeout);
        let visible_at = now + timeout.min(LONGEST);
        let next = next.into_iter();
        let received = next.filter_map(|sequence| self.deliver(sequence, visible_at, now));
        Delivery {
            received: received.collect(),
            visible_at,
            dead: dead.into_iter().filter_map(|it| self.remove(it)).collect(),
        }
    }

    /// The messages that can be received now, in the order of delivery.
    fn receivable(&self, now: SystemTime) -> Box<dyn Iterator<Item = u64> + '_> {
        if !self.is_fifo() {
            let visible = self.visible.range(..=(now, u64::MAX));
            return Box::new(visible.map(|(_, sequence)| *sequence));
        }
        let in_flight = self.in_flight(now);
        let blocked = in_flight.filter_map(|stored| stored.message.group_id.as_deref());
        let blocked: HashSet<_> = blocked.collect();
        let is_next = move |stored: &Stored| {
            let group = stored.message.group_id.as_deref().unwrap_or_default();
            stored.visible_at <= now && !blocked.contains(group)
        };
        let next = self.messages.iter().filter(move |(_, one)| is_next(one));
        Box::new(next.map(|(sequence, _)| *sequence))
    }

    fn invisible(&self, now: SystemTime) -> impl Iterator<Item = &Stored> {
        let invisible = self.visible.range((now, u64::MAX)..);
        invisible.map(|(_, sequence)| &self.messages[sequence])
    }

    fn in_flight(&self, now: SystemTime) -> impl Iterator<Item = &Stored> {
        let invisible = self.invisible(now);
        invisible.filter(|stored| stored.receive_count > 0)
    }

    fn deliver(
        &mut self,
        sequence: u64,
        visible_at: SystemTime,
        now: SystemTime,
    ) -> Option<Received> {
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
        self.hide(sequence, visible_at);
        Some(received)
    }

    fn hide(&mut self, sequence: u64, until: SystemTime) {
        if let Some(stored) = self.messages.get_mut(&sequence) {
            self.visible.remove(&(stored.visible_at, sequence));
            self.visible.insert((until, sequence));
            stored.visible_at = until;
        }
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<Stored> {
        let stored = self.messages.remove(&sequence)?;
        self.visible.remove(&(stored.visible_at, sequence));
        self.aged.remove(&(stored.sent_at, sequence));
        Some(stored)
    }

    /// Finds the message of a receipt handle. Returns `None` unless the handle is the message's latest.
    fn find(&self, handle: &str) -> Result<Option<(u64, &Stored)>, QueueError> {
        let parsed = handle
            .strip_prefix(&self.name)
            .and_then(|rest| rest.strip_prefix('/')?.split_once('/'))
            .and_then(|(sequence, count)| Some((sequence.parse().ok()?, count.parse().ok()?)));
        let (sequence, receive_count): (u64, u32) =
            parsed.ok_or_else(|| QueueError::Handle(self.name.clone()))?;
        let stored = self.messages.get(&sequence);
        let latest = stored.filter(|stored| stored.receive_count == receive_count);
        Ok(latest.map(|stored| (sequence, stored)))
    }

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
        Ok(self.remove(sequence).map(|stored| stored.message.id))
    }

    /// Changes a message's visibility. Returns its id and when it becomes visible.
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

    /// The first messages that can be received now, each with the queue from which it was moved here.
    pub(super) fn first(&self, most: usize, now: SystemTime) -> Vec<(u64, Option<String>)> {
        let source = |sequence| self.messages[&sequence].dead_letter_source.clone();
        let first = self.receivable(now).take(most);
        first.map(|sequence| (sequence, source(sequence))).collect()
    }

    pub(super) fn purge(&mut self) {
        self.messages.clear();
        self.visible.clear();
        self.aged.clear();
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &NewMessage> {
        self.messages.values().map(|stored| &stored.message)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn counts(&self, now: SystemTime) -> Counts {
        let invisible = self.invisible(now).count();
        let in_flight = self.in_flight(now).count();
        Counts {
            visible: self.len() - invisible,
            in_flight,
            delayed: invisible - in_flight,
        }
    }

    /// When the next invisible message becomes visible.
    pub(super) fn next_visible_at(&self, now: SystemTime) -> Option<SystemTime> {
        let mut later = self.visible.range((now, u64::MAX)..);
        later.next().map(|(visible_at, _)| *visible_at)
    }
}

pub(super) fn is_fifo(name: &str) -> bool {
    name.ends_with(".fifo")
}
