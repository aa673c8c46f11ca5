//! What stays the same from batch to batch.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::disposition::{AfterDeadLetter, DeadLetters, Visibility};
use crate::handler::PrepareRecord;
use crate::idempotency::Driver;
use crate::report::RecordLevels;

use super::hooks::Hooks;

/// What becomes of a message whose key was completed for another payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadMismatch {
    /// Acknowledge it as the duplicate its key says it is, with a warning in the log (the default).
    #[default]
    Warn,
    /// Fail it: it ends in the dead-letter queue, where a person looks at it.
    Reject,
    /// Never notice it: no fingerprint is computed or stored, and the key alone makes a duplicate.
    Ignore,
}

/// What becomes of a record without a business key, that is, whose extractor says
/// [`KeyError::Missing`](crate::key::KeyError::Missing). A key that is empty, too long or of the wrong
/// kind, and an extractor that fails, are terminal whatever is set here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// It is terminal: no retry brings a key (the default).
    #[default]
    Terminal,
    /// It runs without any protection: nothing is claimed or recorded, and every delivery of the
    /// message runs. Its line in the log is a warning that says so.
    ///
    /// The extractors work all the same, for the single message in place of the event: the
    /// [`IdempotencyToken`](crate::IdempotencyToken) and the [`Key`](crate::extract::Key) are made of the
    /// message id, which a message that is sent again or redriven does not keep, and the fence is
    /// that of a first claim.
    ///
    /// Not for handlers whose effect commits with the record of their key, which return
    /// [`Writes`](crate::Writes) or take a transaction: such a consumer refuses to start.
    ProcessUnprotected,
    /// It goes back to the queue, until the queue's redrive policy moves it.
    Retry,
}

/// How much of a FIFO queue's batch is returned unprocessed after a record failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FifoFailure {
    /// The rest of that record's message group; other groups go on (the default).
    #[default]
    ReturnGroup,
    /// Everything of the batch that was not started yet, whatever its group.
    ReturnBatch,
}

/// What becomes of a record whose key another worker has.
///
/// In [`Mode::Transactional`](crate::policy::Mode::Transactional) a claim that was made without a transaction sends a record
/// back at once, whatever is set here. Of two transactions on one key the later waits for the earlier, until the
/// deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InProgress {
    /// It goes back to the queue at once (the default). With the feature `sqs` it stays away until the
    /// other worker's lease has lapsed; otherwise until the queue's visibility timeout ends.
    #[default]
    ReturnToQueue,
    /// Its key is asked for again, with growing pauses, until the other worker is done or its lease
    /// has lapsed; after this time at most, the record goes back to the queue all the same. Each
    /// question costs what a duplicate does. The record takes up none of the batch's concurrency meanwhile; no
    /// more than a hundred of a batch wait, and further ones go back to the queue at once.
    Wait(Duration),
}

/// How many keys a request to the store carries. What it costs in write units is the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// Up to 25, where there are that many, with up to 8 such requests for claims and 8 for completions
    /// under way at once (the default). A lone key does not wait for others.
    #[default]
    Batched,
    /// One, with up to 32 requests for claims and 32 for completions under way at once: more
    /// connections and far more CPU, for a table that answers a request of many keys so late that it is
    /// slower all the same.
    Single,
}

impl Requests {
    /// The most keys in one request.
    pub(super) const fn keys(self) -> usize {
        match self {
            Self::Batched => 25,
            Self::Single => 1,
        }
    }

    /// The most requests for claims under way at once, and the most full ones for settlements.
    pub(super) const fn under_way(self) -> usize {
        match self {
            Self::Batched => 8,
            Self::Single => 32,
        }
    }
}

/// What every batch of a consumer runs with.
pub(crate) struct Engine {
    pub(crate) handler: Arc<dyn PrepareRecord<()>>,
    pub(crate) idempotency: Driver,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) record_timeout: Option<Duration>,
    pub(crate) mismatch: PayloadMismatch,
    pub(crate) fifo_failure: FifoFailure,
    pub(crate) in_progress: InProgress,
    pub(crate) requests: Requests,
    pub(crate) missing_key: MissingKey,
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
    pub(crate) visibility: Option<Arc<dyn Visibility>>,
    /// Where the code or the environment says it.
    pub(crate) visibility_timeout: Option<Duration>,
    pub(crate) after_dead_letter: AfterDeadLetter,
    pub(crate) hooks: Hooks,
    pub(crate) record_levels: RecordLevels,
}
