//! The messages and invocations of a story, kept within its limits.

use super::limits::Limits;
use super::message::{Details, Entry, Invocation, Message, State, Timeline, What};
use super::title::{opened, title};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// The most characters of a content in the list of messages.
const PREVIEW: usize = 80;
/// Approximate size of a message without its texts.
const MESSAGE: usize = 512;
/// How many events and log lines to keep that belong to no invocation.
const FUNCTION_LINES: usize = 200;

/// How many messages the story has forgotten.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Forgotten {
    /// Those that a producer sent.
    pub(super) sent: u64,
    /// Of all of these, those whose effect happened.
    pub(super) effects: u64,
    /// Of all of these, those of which a delivery was stopped as a duplicate.
    pub(super) duplicates: u64,
    pub(super) done: u64,
    pub(super) redriven: u64,
    pub(super) purged: u64,
    pub(super) expired: u64,
    /// Unfinished messages without a later event. The story dropped them because too many were open at once.
    pub(super) unfinished: u64,
}

#[derive(Default)]
pub(super) struct Kept {
    limits: Limits,
    /// Increases with every change.
    pub(super) sequence: u64,
    next: u64,
    /// Shared with the views that are being sent.
    pub(super) messages: BTreeMap<u64, Arc<Message>>,
    ids: HashMap<Arc<str>, Vec<u64>>,
    /// Every message, ordered by its last change.
    changes: BTreeMap<u64, u64>,
    /// The finished messages, ordered by when they finished.
    finished: BTreeSet<(u64, u64)>,
    pub(super) invocations: HashMap<u64, Invocation>,
    requests: HashMap<Arc<str>, u64>,
    /// The numbers of forgotten messages, ordered by when they were forgotten. Complete from `removed_since` on.
    removed: VecDeque<(u64, u64)>,
    removed_since: u64,
    pub(super) forgotten: Forgotten,
    pub(super) function: VecDeque<Entry>,
    pub(super) function_changed: u64,
    bytes: usize,
}

impl Kept {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: 1,
            ..Self::default()
        }
    }

    fn tick(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Adds a message and returns the number assigned to it.
    pub(super) fn insert(&mut self, mut message: Message) -> u64 {
        let number = self.next;
        self.next += 1;
        let Details {
            body, attributes, ..
        } = &message.details;
        let attributes = attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.to_string().len());
        message.number = number;
        message.bytes = MESSAGE + message.id.len() + body.len() + attributes.sum::<usize>();
        let content = opened(body);
        message.title = title(&content);
        message.preview = content.chars().take(PREVIEW).collect();
        if let Cow::Owned(content) = content {
            message.bytes += content.len();
            message.details.opened = Some(Arc::from(content));
        }
        message.changed = self.tick();
        self.bytes += message.bytes;
        self.changes.insert(message.changed, number);
        let of_this_id = self.ids.entry(Arc::clone(&message.id)).or_default();
        of_this_id.push(number);
        self.messages.insert(number, Arc::new(message));
        number
    }

    /// The messages with this id, oldest first.
    pub(super) fn of_id(&self, id: &str) -> impl Iterator<Item = &Message> {
        let numbers = self.ids.get(id).map_or(&[][..], Vec::as_slice);
        numbers
            .iter()
            .filter_map(|number| Some(&**self.messages.get(number)?))
    }

    pub(super) fn change(&mut self, number: u64, how: impl FnOnce(&mut Message)) {
        let now = self.tick();
        let Some(message) = self.messages.get_mut(&number) else {
            return;
        };
        let message = Arc::make_mut(message);
        self.changes.remove(&message.changed);
        self.changes.insert(now, number);
        message.changed = now;
        how(message);
        if message.finished.is_none() && message.state.is_finished() {
            message.finished = Some(now);
            self.finished.insert((now, number));
        }
    }

    pub(super) fn note(&mut self, number: u64, at: u64, what: What) {
        self.update(number, at, what, |_| {});
    }

    /// Changes a message and adds an entry to its timeline.
    pub(super) fn update(
        &mut self,
        number: u64,
        at: u64,
        what: What,
        how: impl FnOnce(&mut Message),
    ) {
        let order = self.tick();
        let entry = Entry { at, order, what };
        let most = self.limits.lines.get();
        let (mut before, mut after) = (0, 0);
        self.change(number, |message| {
            how(message);
            message.at = at;
            before = message.bytes;
            after = message.details.timeline.push(entry, most, before);
            message.bytes = after;
        });
        self.bytes = (self.bytes + after).saturating_sub(before);
    }

    pub(super) fn invoke(&mut self, request_id: Arc<str>, queue: &str, of: &[u64]) -> u64 {
        let number = self.tick();
        self.requests.insert(Arc::clone(&request_id), number);
        let invocation = Invocation {
            request_id,
            messages: of.to_vec(),
            is_open: true,
            lines: Timeline::default(),
            holders: of.len(),
            bytes: 0,
        };
        self.invocations.insert(number, invocation);
        let most = self.limits.lines.get();
        for message in of {
            let mut dropped = None;
            self.change(*message, |message| {
                // Otherwise a copy of it is invoked.
                if message.is_unfinished_in(queue) {
                    message.invocation = Some(number);
                    message.reported = false;
                }
                message.invocations.push_back(number);
                if message.invocations.len() > most {
                    dropped = message.invocations.pop_front();
                }
            });
            if let Some(dropped) = dropped {
                self.release(dropped);
            }
        }
        number
    }

    pub(super) fn of_request(&self, request_id: &str) -> Option<u64> {
        self.requests.get(request_id).copied()
    }

    /// Adds an entry to an invocation's timeline, which the timelines of all its messages include.
    pub(super) fn note_invocation(&mut self, number: u64, at: u64, what: What) {
        let order = self.tick();
        let entry = Entry { at, order, what };
        let most = self.limits.lines.get();
        let Some(invocation) = self.invocations.get_mut(&number) else {
            return;
        };
        let bytes = invocation.lines.push(entry, most, invocation.bytes);
        self.bytes = (self.bytes + bytes).saturating_sub(invocation.bytes);
        invocation.bytes = bytes;
    }

    /// Adds an entry that belongs to no invocation.
    pub(super) fn note_function(&mut self, at: u64, what: What) {
        let order = self.tick();
        self.function_changed = order;
        self.function.push_back(Entry { at, order, what });
        if self.function.len() > FUNCTION_LINES {
            self.function.pop_front();
        }
    }

    /// Forgets messages until the story is within its limits.
    pub(super) fn make_room(&mut self) {
        let (messages, bytes) = (self.limits.messages.get(), self.limits.bytes.get());
        while self.messages.len() > messages || (self.bytes > bytes && self.messages.len() > 1) {
            let finished = self.finished.first().map(|(_, number)| *number);
            // Waiting messages have the least history. Keep dead letters longest, because users look for them.
            let waiting = || self.messages.values().find(|message| !message.dead);
            let oldest = || waiting().or_else(|| self.messages.values().next());
            let Some(number) = finished.or_else(|| oldest().map(|message| message.number)) else {
                return;
            };
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(message) = self.messages.remove(&number) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(message.bytes);
        self.changes.remove(&message.changed);
        if let Some(finished) = message.finished {
            self.finished.remove(&(finished, number));
        }
        if let Some(of_this_id) = self.ids.get_mut(&message.id) {
            of_this_id.retain(|other| *other != number);
            if of_this_id.is_empty() {
                self.ids.remove(&message.id);
            }
        }
        for invocation in &message.invocations {
            self.release(*invocation);
        }
        self.forgotten.sent += u64::from(!message.goes_on);
        self.forgotten.effects += u64::from(message.effects > 0);
        self.forgotten.duplicates += u64::from(message.duplicates > 0);
        let count = match message.state {
            // Its dead letter counts.
            State::Done if message.moved => &mut self.forgotten.redriven,
            State::Done => &mut self.forgotten.done,
            State::Redriven => &mut self.forgotten.redriven,
            State::Purged => &mut self.forgotten.purged,
            State::Expired => &mut self.forgotten.expired,
            _ => &mut self.forgotten.unfinished,
        };
        *count += 1;
        let now = self.tick();
        self.removed.push_back((now, number));
        if self.removed.len() > self.limits.messages.get() {
            let oldest = self.removed.pop_front();
            self.removed_since = oldest.map_or(now, |(at, _)| at);
        }
    }

    /// Drops one message's reference to an invocation. Removes the invocation with its last reference.
    fn release(&mut self, number: u64) {
        let Some(invocation) = self.invocations.get_mut(&number) else {
            return;
        };
        invocation.holders = invocation.holders.saturating_sub(1);
        if invocation.holders == 0
            && let Some(invocation) = self.invocations.remove(&number)
        {
            self.requests.remove(&invocation.request_id);
            self.bytes = self.bytes.saturating_sub(invocation.bytes);
        }
    }

    /// Returns the messages that changed after `since`, and the numbers of the messages that were forgotten after it.
    /// Returns `None` if the list of forgotten messages no longer reaches back that far.
    pub(super) fn changed(&self, since: u64) -> Option<(Vec<Arc<Message>>, Vec<u64>)> {
        if since < self.removed_since {
            return None;
        }
        let changed = self.changes.range(since + 1..);
        let changed = changed.filter_map(|(_, number)| self.messages.get(number).cloned());
        let removed = self.removed.iter().rev();
        let removed = removed.take_while(|(at, _)| *at > since);
        let removed = removed.map(|(_, number)| *number);
        Some((changed.collect(), removed.collect()))
    }
}
