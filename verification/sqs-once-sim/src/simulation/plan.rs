//! What one schedule is made of: everything that its seed decides beforehand.

use std::time::Duration;

use sqs_once::policy::Mode;

use crate::chance::Chance;

use super::mutant::Mutant;
use super::network::Weather;
use super::options::{Options, Way};

/// How far a clock may be off, in milliseconds: that and the latest kill are less than a lease's margin.
const SKEW: i64 = 1900;
/// The same, and how late a kill may come, where the margins don't hold.
const HOSTILE_SKEW: i64 = 30_000;
const HOSTILE_KILL: u64 = 40_000;

/// No schedule has more keys.
pub(crate) const MOST_KEYS: usize = 120;

/// A message that a producer sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) key: usize,
    pub(crate) sent_after: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) is_fifo: bool,
    pub(crate) keys: usize,
    pub(crate) groups: usize,
    pub(crate) messages: Vec<Planned>,
    /// How many messages a batch has at most.
    pub(crate) batch: usize,
    pub(crate) weather: Weather,
    /// From here on nothing goes wrong any more.
    pub(crate) clears_after: Duration,
    /// Whether anything but requests fails.
    pub(crate) is_troubled: bool,
    pub(crate) processes: usize,
    /// Whether a process takes an invocation while it has another.
    pub(crate) overlaps: bool,
    pub(crate) timeout: Duration,
    /// How late a process may be killed, in milliseconds.
    pub(crate) late_kill: u64,
    pub(crate) visibility: Duration,
    /// Whether what an answer names is visible at once.
    pub(crate) returns_at_once: bool,
    pub(crate) max_receives: u32,
    pub(crate) skew: i64,
    /// Whether a request whose answer is missing is sent again as it was, below the consumer.
    pub(crate) resends: bool,
    pub(crate) cache: bool,
    pub(crate) waits: bool,
    pub(crate) singly: bool,
    pub(crate) record_timeout: bool,
    pub(crate) concurrency: usize,
    /// Whether the consumer has a client for SQS.
    pub(crate) has_sqs: bool,
    /// Whether a message group goes on after a dead letter.
    pub(crate) goes_on: bool,
}

impl Plan {
    pub(crate) fn draw(chance: &Chance, options: &Options) -> Self {
        let is_fifo = chance.once_in(3);
        // Enough for several requests, and for records that are taken up when others are done; but a few show most.
        let is_crowd = chance.once_in(256);
        let (keys, messages, batch) = match is_crowd {
            true => (1 + chance.index(MOST_KEYS), 30 + chance.index(300), 400),
            false => (1 + chance.index(3), 1 + chance.index(5), 5),
        };
        let mut sent_after = Duration::ZERO;
        let messages = (0..messages).map(|_| {
            if chance.once_in(4) {
                sent_after += chance.millis(1..20_000);
            }
            Planned {
                key: chance.index(keys),
                sent_after,
            }
        });
        let messages = messages.collect();
        let timeout = chance.pick(&[3, 6, 10]);
        Self {
            way: options
                .way
                .unwrap_or_else(|| chance.pick(options.depth.ways())),
            is_fifo,
            keys,
            groups: 1 + chance.index(keys),
            messages,
            batch: if is_fifo { batch.min(10) } else { batch },
            weather: Weather::any(chance),
            clears_after: chance.millis(20_000..90_000),
            is_troubled: !chance.once_in(4),
            processes: 1 + chance.index(3),
            overlaps: chance.once_in(3),
            timeout: Duration::from_secs(timeout),
            late_kill: match options.is_hostile {
                true => 1 + chance.below(HOSTILE_KILL),
                false => chance.pick(&[1, 1000]),
            },
            visibility: Duration::from_secs(timeout) + chance.millis(2000..40_000),
            returns_at_once: chance.once_in(2),
            max_receives: match is_crowd {
                true => 8,
                false => chance.pick(&[2, 3, 5, 8]),
            },
            skew: match options.is_hostile {
                true => HOSTILE_SKEW,
                false => chance.pick(&[0, SKEW]),
            },
            resends: chance.once_in(2),
            cache: chance.once_in(3),
            waits: chance.once_in(4),
            singly: chance.once_in(6),
            record_timeout: chance.once_in(6),
            concurrency: match is_crowd {
                true => chance.pick(&[10, 50]),
                false => chance.pick(&[1, 2, 10]),
            },
            has_sqs: match options.mutant {
                Some(Mutant::AcknowledgeBeforeSend) => true,
                _ => chance.once_in(12),
            },
            goes_on: chance.once_in(2),
        }
    }

    pub(crate) fn group_of(&self, key: usize) -> usize {
        key % self.groups
    }

    pub(crate) fn mode(&self) -> Mode {
        self.way.mode()
    }

    /// A clock's error, in milliseconds.
    pub(crate) fn ahead(&self, chance: &Chance) -> i64 {
        let width = self.skew.unsigned_abs() * 2 + 1;
        chance.below(width).cast_signed() - self.skew
    }
}
