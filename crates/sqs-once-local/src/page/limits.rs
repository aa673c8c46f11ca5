//! How much a story keeps.

use std::num::NonZeroUsize;

/// How much a [`Story`](super::Story) keeps. Beyond that it forgets the oldest message that is finished, or where
/// none is the oldest that is no dead letter, and counts what it forgot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages: 25,000 by default.
    pub messages: NonZeroUsize,
    /// Entries of one message's timeline, and log lines of one invocation: the last 300 by default.
    pub lines: NonZeroUsize,
    /// Bytes of all bodies, attributes, entries and log lines together, about: 64 MiB by default.
    pub bytes: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        let at_least_one = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Self {
            messages: at_least_one(25_000),
            lines: at_least_one(300),
            bytes: at_least_one(64 * 1024 * 1024),
        }
    }
}
