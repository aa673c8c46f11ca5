//! How a record ended.

use std::fmt;

/// How a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler ran, and its completion is recorded. Acknowledged.
    Processed,
    /// The event was handled before. Acknowledged.
    Duplicate,
    /// Its [`Envelope`](crate::body::Envelope) found no event in it, such as in S3's test event. Acknowledged without a
    /// handler.
    Ignored,
    /// Another worker has claimed its key. Returned to the queue.
    InProgress,
    /// It failed this time. Returned to the queue.
    Failed,
    /// It failed, and no retry can help. Acknowledged if it was moved to the dead-letter queue, otherwise returned to the
    /// queue.
    Terminal,
}

impl Outcome {
    /// The name in logs: `processed`, `duplicate`, `ignored`, `in_progress`, `failed` or `terminal`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
            Self::InProgress => "in_progress",
            Self::Failed => "failed",
            Self::Terminal => "terminal",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
