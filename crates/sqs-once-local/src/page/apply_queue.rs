//! Applies the events of a queue to a story.

use super::apply::Told;
use super::message::{Link, Message, State, What, millis};
use crate::local_event::LocalEvent;
use std::cmp::Reverse;
use std::sync::Arc;

/// The attribute in which the function's dead letters carry the original message id.
const DEAD_LETTER_OF: &str = "sqs-once-message-id";

impl Told {
    pub(super) fn queue_did(&mut self, at: u64, happening: &LocalEvent) {
        match happening {
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
                message.body = Arc::from(body.as_str());
                message.attributes = Arc::new(attributes.clone());
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
                self.kept.change(number, |message| {
                    message.state = State::InFlight;
                    message.visible_at = visible_at;
                    message.receives = *receive_count;
                    message.invocation = None;
                    message.reported = false;
                });
                let received = What::Received {
                    queue: Arc::from(queue.as_str()),
                    receive_count: *receive_count,
                    visible_at,
                    environment: None,
                    request_id: None,
                };
                self.kept.note(number, at, received);
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
                self.kept
                    .change(number, |message| message.visible_at = visible_at);
                self.kept
                    .note(number, at, What::VisibilityChanged { visible_at });
            }
            LocalEvent::Deleted { queue, message_id } => {
                let number = self.find(at, queue, message_id, |message| {
                    (message.state != State::InFlight, !message.reported)
                });
                self.kept
                    .change(number, |message| message.state = State::Done);
                let queue = Arc::from(queue.as_str());
                self.kept.note(number, at, What::Deleted { queue });
            }
            LocalEvent::Expired { queue, message_id } => {
                let number = self.find(at, queue, message_id, |message| message.sent_at);
                self.kept
                    .change(number, |message| message.state = State::Expired);
                let queue = Arc::from(queue.as_str());
                self.kept.note(number, at, What::Expired { queue });
            }
            LocalEvent::DeadLettered {
                queue,
                to,
                message_id,
            } => {
                let number = self.find(at, queue, message_id, |message| Reverse(message.receives));
                let to: Arc<str> = Arc::from(to.as_str());
                self.dead_letters.insert(Arc::clone(&to));
                self.kept.change(number, |message| {
                    message.state = State::DeadLettered;
                    message.queue = Arc::clone(&to);
                    message.dead = true;
                    message.visible_at = at;
                });
                self.kept.note(number, at, What::DeadLettered { to });
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
                let open = open
                    .filter(|message| *message.queue == **queue && !message.state.is_finished());
                let open: Vec<_> = open.map(|message| message.number).collect();
                for number in open {
                    self.kept
                        .change(number, |message| message.state = State::Purged);
                    let queue = Arc::from(queue.as_str());
                    self.kept.note(number, at, What::Purged { queue });
                }
            }
            _ => {}
        }
    }

    /// Creates a message that the story sees for the first time.
    pub(super) fn unknown(&self, queue: &str, id: &str, at: u64) -> Message {
        let mut message = Message::new(Arc::from(queue), Arc::from(id), at);
        message.dead = self.dead_letters.contains(queue);
        if message.dead {
            message.state = State::DeadLettered;
        }
        message
    }

    fn sent(&mut self, at: u64, message: Message) {
        let sent = What::Sent {
            queue: Arc::clone(&message.queue),
            visible_at: message.visible_at,
        };
        let dead_letter_of = message.attributes.get(DEAD_LETTER_OF);
        let original = dead_letter_of
            .and_then(|attribute| attribute["StringValue"].as_str())
            .filter(|_| message.dead)
            .and_then(|id| {
                let all = self.kept.of_id(id).filter(|message| !message.dead);
                all.last().map(Message::link)
            });
        let number = self.kept.insert(message);
        self.kept.note(number, at, sent);
        let Some(original) = original else {
            return;
        };
        if let Some(message) = self.kept.messages.get(&number) {
            let (to, link) = (Arc::clone(&message.queue), message.link());
            let sent = What::DeadLetterSent {
                to,
                link: link.clone(),
            };
            self.kept
                .change(original.number, |message| message.to = Some(link));
            self.kept.note(original.number, at, sent);
            self.kept
                .change(number, |message| message.from = Some(original));
        }
    }

    fn redriven(&mut self, at: u64, from: &str, to: &str, id: &str, new_id: &str) {
        let number = self.find(at, from, id, |_| ());
        let Some(old) = self.kept.messages.get(&number) else {
            return;
        };
        let mut message = self.unknown(to, new_id, at);
        message.body = Arc::clone(&old.body);
        message.attributes = Arc::clone(&old.attributes);
        message.group_id.clone_from(&old.group_id);
        message.key.clone_from(&old.key);
        let link = old.link();
        message.from = Some(link.clone());
        let new = self.kept.insert(message);
        let queue = Arc::from(from);
        self.kept.note(new, at, What::RedrivenFrom { queue, link });
        let link = Link {
            number: new,
            message_id: Arc::from(new_id),
        };
        self.kept.change(number, |message| {
            message.state = State::Redriven;
            message.to = Some(link.clone());
        });
        let to = Arc::from(to);
        self.kept.note(number, at, What::Redriven { to, link });
    }
}
