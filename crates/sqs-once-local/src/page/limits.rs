//! The limits of a story.

use std::num::NonZeroUsize;

/// How much a [`Story`](crate::Story) keeps.
///
/// Beyond a limit, the story forgets the oldest finished message. If none is finished, it forgets the oldest message, and
/// dead letters last. It counts the forgotten messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most messages. 25,000 by default.
    pub messages: NonZeroUsize,
    /// The most entries in one message's timeline, and the most log lines of one invocation. The last 300 by default.
    pub lines: NonZeroUsize,
    /// The approximate total size of bodies, attributes, entries and log lines, in bytes. 64 MiB by default.
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
