//! Judges a history of messages, workers and effects by `docs/guarantees.md`. The judge uses no function and no type of the
//! library, so a fault there can't hide itself. The simulation and the kill test tell it what they see.
//!
//! ```
//! use sqs_once_judge::{Attempt, Event, Judge, Wrong};
//!
//! let mut judge = Judge::default();
//! let (key, attempt) = (7, Attempt { key: 7, number: 0 });
//! assert_eq!(judge.see(Event::Sent { key, payload: 0, group: None }), []);
//! assert_eq!(judge.see(Event::Started { attempt, admitted: 1, owns: true }), []);
//! let wrong = judge.see(Event::Acknowledged(0));
//! assert_eq!(wrong, [Wrong::NoEffect { message: 0, key }]);
//! ```
//!
//! | guarantee | violation |
//! |---|---|
//! | a message is acknowledged only if its key is completed, or a copy is in the dead-letter queue | [`Wrong::NoEffect`], [`Wrong::NoRecord`] |
//! | a message with another payload under a known key becomes a dead letter | [`Wrong::NoEffect`] |
//! | a message whose hook fails returns to its queue | [`Wrong::NoHook`] |
//! | an effect that commits with its record happens once, and once more after an operator forgot the key | [`Wrong::CommittedAgain`] |
//! | two live workers never run one key, if keys are claimed first | [`Wrong::TwoOwners`] |
//! | in a FIFO queue, the effects of a message group keep its order | [`Wrong::Overtook`] |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// What an observer sees. The caller numbers keys and attempts. Messages have the numbers 0, 1, … in the order of their
/// [`Event::Sent`]. Times are of any one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message is sent to a queue. The messages of a group have the order of these events.
    Sent {
        /// Its business key.
        key: usize,
        /// A number for its payload. Messages with one key and one payload have one effect.
        payload: usize,
        /// Its message group, if its effects must keep the order of one.
        group: Option<usize>,
    },
    /// A message has left its queue: it is deleted, or moved to the dead-letter queue.
    Left(usize),
    /// The dead-letter queue has confirmed a copy of a message.
    Copied(usize),
    /// SQS delivers a message for the last time. Whatever becomes of it, the messages of its group need not wait for it.
    LastDelivery(usize),
    /// The consumer acknowledges a message.
    Acknowledged(usize),
    /// A hook after a message's success, or after its duplicate, has ended well.
    Hooked(usize),
    /// A handler starts.
    Started {
        /// Its attempt.
        attempt: Attempt,
        /// When its worker was admitted to the key.
        admitted: u64,
        /// Whether its mode allows only one live worker for each key.
        owns: bool,
    },
    /// The code of an attempt can't run from now on: it has ended, or its process is dead or frozen.
    Stopped(Attempt),
    /// The code of an attempt can run again.
    Resumed(Attempt),
    /// The code of an attempt runs on.
    RunsOn(Attempt),
    /// The effect of a key happens.
    Effect {
        /// The key.
        key: usize,
        /// The payload of the message that it is for.
        payload: usize,
        /// Whether it commits in one transaction with its record.
        commits: bool,
    },
    /// The effect that happened is this message's. The earlier messages of its group come first.
    EffectOf(usize),
    /// A key is completed.
    Recorded(usize),
    /// An operator forgets a key.
    Forgotten {
        /// The key.
        key: usize,
        /// When.
        at: u64,
    },
}

/// One run of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its key.
    pub key: usize,
    /// Its number, which no other attempt of the key has.
    pub number: usize,
}

/// A violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A message was acknowledged without its effect.
    NoEffect {
        /// The message.
        message: usize,
        /// Its key.
        key: usize,
    },
    /// A message was acknowledged with its effect, and without the record of its key.
    NoRecord {
        /// The message.
        message: usize,
        /// Its key.
        key: usize,
    },
    /// A message was acknowledged, and no hook of it has ended well.
    NoHook {
        /// The message.
        message: usize,
    },
    /// An effect was committed again.
    CommittedAgain {
        /// Its key.
        key: usize,
    },
    /// The code of two attempts ran for one key.
    TwoOwners {
        /// The attempt that should have ended before.
        stale: usize,
        /// The other one.
        owner: usize,
    },
    /// The effect of a message came before that of an earlier one in its group.
    Overtook {
        /// The message.
        message: usize,
        /// The earlier one.
        skipped: usize,
    },
}

/// The judge of one history.
#[derive(Debug, Default)]
pub struct Judge {
    awaits_hooks: bool,
    messages: Vec<Message>,
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Message {
    key: usize,
    payload: usize,
    group: Option<usize>,
    has_left: bool,
    is_copied: bool,
    is_last_delivery: bool,
    is_hooked: bool,
}

#[derive(Debug, Default)]
struct Key {
    /// The payloads whose effect has happened.
    effects: Vec<usize>,
    is_recorded: bool,
    /// Since it was forgotten.
    commits: usize,
    forgotten_at: Option<u64>,
    attempts: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    number: usize,
    admitted: u64,
    owns: bool,
    is_stopped: bool,
}

impl Judge {
    /// The consumer has hooks after successes and after duplicates.
    #[must_use]
    pub fn awaiting_hooks(self, awaits_hooks: bool) -> Self {
        Self {
            awaits_hooks,
            ..self
        }
    }

    /// Sees the next event, and returns what it violates.
    ///
    /// # Panics
    /// If the event is about a message that was not sent.
    pub fn see(&mut self, event: Event) -> Vec<Wrong> {
        match event {
            Event::Sent {
                key,
                payload,
                group,
            } => self.messages.push(Message {
                key,
                payload,
                group,
                has_left: false,
                is_copied: false,
                is_last_delivery: false,
                is_hooked: false,
            }),
            Event::Left(message) => self.messages[message].has_left = true,
            Event::Copied(message) => self.messages[message].is_copied = true,
            Event::LastDelivery(message) => self.messages[message].is_last_delivery = true,
            Event::Acknowledged(message) => return self.acknowledged(message),
            Event::Hooked(message) => {
                self.messages[message].is_hooked = true;
                return self.acknowledged(message);
            }
            Event::Started {
                attempt: Attempt { key, number },
                admitted,
                owns,
            } => {
                return self.key(key).started(Run {
                    number,
                    admitted,
                    owns,
                    is_stopped: false,
                });
            }
            Event::Stopped(one) => self.key(one.key).set_stopped(one.number, true),
            Event::Resumed(one) => self.key(one.key).set_stopped(one.number, false),
            Event::RunsOn(one) => return self.key(one.key).runs_on(one.number),
            Event::Effect {
                key,
                payload,
                commits,
            } => {
                let state = self.key(key);
                state.effects.push(payload);
                state.commits += usize::from(commits);
                if commits && state.commits > 1 {
                    return vec![Wrong::CommittedAgain { key }];
                }
            }
            Event::EffectOf(message) => {
                let skipped = self.skipped(message).into_iter();
                return skipped
                    .map(|skipped| Wrong::Overtook { message, skipped })
                    .collect();
            }
            Event::Recorded(key) => self.key(key).is_recorded = true,
            Event::Forgotten { key, at } => {
                let state = self.key(key);
                state.commits = 0;
                state.forgotten_at = Some(at);
            }
        }
        Vec::new()
    }

    /// Whether the effect of a key has happened.
    pub fn has_happened(&self, key: usize) -> bool {
        self.keys
            .get(key)
            .is_some_and(|key| !key.effects.is_empty())
    }

    fn key(&mut self, key: usize) -> &mut Key {
        if self.keys.len() <= key {
            self.keys.resize_with(key + 1, Key::default);
        }
        &mut self.keys[key]
    }

    fn acknowledged(&mut self, message: usize) -> Vec<Wrong> {
        let awaits_hook = self.awaits_hooks && !self.messages[message].is_hooked;
        let Message {
            key,
            payload,
            is_copied,
            ..
        } = self.messages[message];
        match self.key(key) {
            _ if is_copied => Vec::new(),
            state if !state.effects.contains(&payload) => vec![Wrong::NoEffect { message, key }],
            state if !state.is_recorded => vec![Wrong::NoRecord { message, key }],
            _ if awaits_hook => vec![Wrong::NoHook { message }],
            _ => Vec::new(),
        }
    }

    /// An earlier message of the group that still waits for its effect.
    fn skipped(&self, message: usize) -> Option<usize> {
        let this = &self.messages[message];
        this.group.filter(|_| !this.has_left)?;
        // An earlier message with the same key may have caused the effect.
        let mut earlier = self.messages[..message].iter();
        let first = earlier.position(|other| !other.has_left && other.key == this.key);
        let mut before = self.messages[..first.unwrap_or(message)].iter();
        before.position(|other| {
            let is_over = other.has_left || other.is_copied || other.is_last_delivery;
            let waits = !is_over && !self.has_happened(other.key);
            waits && other.group == this.group && other.key != this.key
        })
    }
}

impl Key {
    /// An attempt no longer counts once an operator has forgotten its key.
    fn counts(&self, attempt: &Run) -> bool {
        let forgotten_at = self.forgotten_at;
        attempt.owns && forgotten_at.is_none_or(|forgotten_at| forgotten_at < attempt.admitted)
    }

    fn started(&mut self, attempt: Run) -> Vec<Wrong> {
        let mut others = self.attempts.iter();
        let running = others.find(|other| !other.is_stopped && self.counts(other));
        let running = running.filter(|_| self.counts(&attempt));
        let beside = running.map(|other| Wrong::TwoOwners {
            stale: other.number,
            owner: attempt.number,
        });
        self.attempts.push(attempt);
        let after = self.runs_on(attempt.number);
        beside.into_iter().chain(after).collect()
    }

    /// The code of an attempt runs: no other attempt may have been admitted after it.
    fn runs_on(&self, number: usize) -> Vec<Wrong> {
        let mut attempts = self.attempts.iter();
        let this = attempts.find(|one| one.number == number && self.counts(one));
        let later = this.and_then(|this| {
            let mut others = self.attempts.iter();
            others.find(|other| other.admitted > this.admitted)
        });
        let wrong = later.map(|other| Wrong::TwoOwners {
            stale: number,
            owner: other.number,
        });
        wrong.into_iter().collect()
    }

    fn set_stopped(&mut self, number: usize, is_stopped: bool) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|one| one.number == number) {
            attempt.is_stopped = is_stopped;
        }
    }
}
