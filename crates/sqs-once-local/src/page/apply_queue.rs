//! Applies the events of a queue to a story.

use super::apply::StoryState;
use super::message::{Link, Message, State, What};
use crate::local_event::LocalEvent;
use crate::millis;
use std::cmp::Reverse;
use std::sync::Arc;

/// The attribute in which the function's dead letters carry the original message id.
const DEAD_LETTER_OF: &str = "sqs-once-message-id";

impl StoryState {
    pub(super) fn apply_queue(&mut self, at: u64, event: &LocalEvent) {
        match event {
            LocalEvent::Sent {
                queue,
                message_id,
                body,
                attributes,
                group_id,
                visible_at,
            } => {
                let mut message = self.unknown(queue, message_id, at);
                message.visible_at = millis(*visible_at);
                message.details.body = Arc::from(body.as_str());
                message.details.attributes = Arc::new(attributes.clone());
                message.group_id = group_id.as_deref().map(Arc::from);
                self.sent(at, message);
            }
            LocalEvent::Received {
                queue,
                message_id,
                receive_count,
                visible_at,
            } => {
                // If two messages share an id, choose the one whose receive count was one lower.
                let number = self.find(at, queue, message_id, |message| {
                    message.receives.checked_add(1) != Some(*receive_count)
                });
                let visible_at = millis(*visible_at);
                let received = What::Received {
                    queue: Arc::from(queue.as_str()),
                    receive_count: *receive_count,
                    visible_at,
                    invocation: None,
                };
                self.change_in(queue, number, at, received, |message| {
                    message.state = State::InFlight;
                    message.visible_at = visible_at;
                    message.receives = *receive_count;
                    message.invocation = None;
                    message.reported = false;
                });
            }
            LocalEvent::VisibilityChanged {
                queue,
                message_id,
                visible_at,
            } => {
                let number = self.find(at, queue, message_id, |message| {
                    message.state != State::InFlight
                });
                let visible_at = millis(*visible_at);
                let changed = What::VisibilityChanged { visible_at };
                let change = |message: &mut Message| message.visible_at = visible_at;
                self.change_in(queue, number, at, changed, change);
            }
            LocalEvent::Deleted { queue, message_id } => {
                let number = self.find(at, queue, message_id, |message| {
                    (message.state != State::InFlight, !message.reported)
                });
                let deleted = |queue| What::Deleted { queue };
                self.end(queue, number, at, State::Done, deleted);
            }
            LocalEvent::Expired { queue, message_id } => {
                let number = self.find(at, queue, message_id, |one| one.details.sent_at);
                let expired = |queue| What::Expired { queue };
                self.end(queue, number, at, State::Expired, expired);
            }
            LocalEvent::DeadLettered {
                queue,
                to,
                message_id,
            } => {
                let number = self.find(at, queue, message_id, |message| Reverse(message.receives));
                let to: Arc<str> = Arc::from(to.as_str());
                self.dead_letters.insert(Arc::clone(&to));
                let dead_lettered = What::DeadLettered { to: to.clone() };
                self.change_in(queue, number, at, dead_lettered, |message| {
                    message.state = State::DeadLettered;
                    message.queue = to;
                    message.dead = true;
                    message.visible_at = at;
                });
            }
            LocalEvent::Redriven {
                queue,
                to,
                message_id,
                new_message_id,
            } => self.redriven(at, queue, to, message_id, new_message_id),
            LocalEvent::Purged { queue } => {
                if *self.queue == **queue {
                    let forgotten = &mut self.kept.forgotten;
                    forgotten.purged += std::mem::take(&mut forgotten.unfinished);
                }
                let open = self.kept.messages.values();
                let open = open.filter(|message| message.is_unfinished_in(queue));
                let open: Vec<_> = open.map(|message| message.number).collect();
                for number in open {
                    let purged = |queue| What::Purged { queue };
                    self.end(queue, number, at, State::Purged, purged);
                }
            }
            _ => {}
        }
    }

    fn end(
        &mut self,
        queue: &str,
        number: u64,
        at: u64,
        state: State,
        what: impl FnOnce(Arc<str>) -> What,
    ) {
        let what = what(Arc::from(queue));
        self.change_in(queue, number, at, what, |message| message.state = state);
    }

    /// Adds an entry to a message's timeline, and changes the message unless the event concerns a copy of it.
    fn change_in(
        &mut self,
        queue: &str,
        number: u64,
        at: u64,
        what: What,
        how: impl FnOnce(&mut Message),
    ) {
        self.kept.update(number, at, what, |message| {
            if message.is_unfinished_in(queue) {
                how(message);
            }
        });
    }

    /// Creates a message that the story sees for the first time.
    pub(super) fn unknown(&self, queue: &str, id: &str, at: u64) -> Message {
        let dead = self.dead_letters.contains(queue);
        let mut message = Message {
            id: Arc::from(id),
            queue: Arc::from(queue),
            dead,
            visible_at: at,
            at,
            ..Message::default()
        };
        message.details.sent_at = at;
        if dead {
            message.state = State::DeadLettered;
        }
        message
    }

    fn sent(&mut self, at: u64, mut message: Message) {
        let sent = What::Sent {
            queue: Arc::clone(&message.queue),
            visible_at: message.visible_at,
        };
        let dead_letter_of = message.details.attributes.get(DEAD_LETTER_OF);
        let original = dead_letter_of
            .and_then(|attribute| attribute["StringValue"].as_str())
            .filter(|_| message.dead)
            .and_then(|id| {
                let all = self.kept.of_id(id).filter(|message| !message.dead);
                all.last().map(Message::link)
            });
        message.goes_on = original.is_some();
        let number = self.kept.insert(message);
        self.kept.note(number, at, sent);
        let Some(original) = original else {
            return;
        };
        if let Some(message) = self.kept.messages.get(&number) {
            let (to, link) = (Arc::clone(&message.queue), message.link());
            let reason = self.kept.messages.get(&original.number);
            let reason = reason.and_then(|original| original.reason.clone());
            let sent = What::DeadLetterSent {
                to,
                link: link.clone(),
            };
            let change = |message: &mut Message| {
                message.details.to = Some(link);
                message.moved = true;
            };
            self.kept.update(original.number, at, sent, change);
            let change = |message: &mut Message| {
                message.details.from = Some(original);
                message.reason = reason;
            };
            self.kept.change(number, change);
        }
    }

    fn redriven(&mut self, at: u64, from: &str, to: &str, id: &str, new_id: &str) {
        let number = self.find(at, from, id, |_| ());
        let Some(old) = self.kept.messages.get(&number) else {
            return;
        };
        let mut message = self.unknown(to, new_id, at);
        message.details.body = Arc::clone(&old.details.body);
        message.details.attributes = Arc::clone(&old.details.attributes);
        message.group_id.clone_from(&old.group_id);
        message.key.clone_from(&old.key);
        message.goes_on = true;
        let link = old.link();
        message.details.from = Some(link.clone());
        let new = self.kept.insert(message);
        let queue = Arc::from(from);
        self.kept.note(new, at, What::RedrivenFrom { queue, link });
        let link = Link {
            number: new,
            message_id: Arc::from(new_id),
        };
        let redriven = What::Redriven {
            to: Arc::from(to),
            link: link.clone(),
        };
        self.change_in(from, number, at, redriven, |message| {
            message.state = State::Redriven;
            message.details.to = Some(link);
        });
    }
}
