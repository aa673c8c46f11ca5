//! The parts of a consumer that all its batches share.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::breaker::Breakers;
use crate::failed::FailedRecords;
use crate::handler::WithEnvelope;
use crate::idempotency::Driver;
use crate::report::RecordLevels;
use crate::telemetry::{Identity, Meter};

use super::earlier::TokenValidity;
use super::hooks::Hooks;

/// Chooses what happens to a message whose key was completed for another payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadMismatch {
    /// Acknowledges it as a duplicate, with a warning in the log (the default).
    #[default]
    Warn,
    /// Fails it, so that it reaches the dead-letter queue.
    Reject,
    /// Ignores the difference: no fingerprint is computed or stored, and the key alone decides.
    Ignore,
}

/// Chooses what happens to a record without a business key, whose extractor returns
/// [`KeyError::Missing`](crate::key::KeyError::Missing). Keys that are empty, too long or of the wrong kind, and
/// extractors that fail, are always terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// The record is terminal, because no retry can add a key (the default).
    #[default]
    Terminal,
    /// The record runs without a claim or a record of its completion, on every delivery of the message. Its log line is a
    /// warning.
    ///
    /// The extractors [`IdempotencyToken`](crate::IdempotencyToken) and [`Key`](crate::extract::Key) use the message id
    /// instead of the key. A message that is sent again or redriven has a new id. The fence is the same as for a first
    /// claim.
    ///
    /// A consumer whose handler returns [`Writes`](crate::Writes) or takes a transaction refuses to start with this
    /// policy, because its effect commits with the record of the key.
    ProcessUnprotected,
    /// The message returns to the queue until the queue's redrive policy moves it.
    Retry,
}

/// How much of a FIFO queue's batch is returned unprocessed after a record failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FifoFailure {
    /// The rest of the record's message group. Other groups continue (the default).
    #[default]
    ReturnGroup,
    /// Every record of the batch that has not started, in all groups.
    ReturnBatch,
}

/// Chooses what happens to a record whose key another worker has claimed.
///
/// In [`Mode::Transactional`](crate::policy::Mode::Transactional) a record returns to the queue at once if its key was claimed
/// without a transaction. A transaction waits for an earlier one on its key until the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InProgress {
    /// The message returns to the queue at once (the default). With the feature `sqs` it stays hidden until the other
    /// worker's lease has lapsed, otherwise until the queue's visibility timeout ends.
    #[default]
    ReturnToQueue,
    /// The consumer tries to claim the key again, with growing pauses, until the other worker is done or its lease has
    /// lapsed. The message returns to the queue if this takes longer than the given time. Each try costs as much as a
    /// duplicate. A waiting record does not count towards the concurrency. At most 100 records of a batch wait; others
    /// return to the queue at once.
    Wait(Duration),
}

/// Chooses how many keys a request to the store carries. The write units are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requests {
    /// Up to 25, with up to 8 requests for claims and 8 for completions in flight (the default). A lone key does not wait for
    /// others.
    #[default]
    Batched,
    /// One, with up to 32 requests for claims and 32 for completions in flight. This needs more connections and far
    /// more CPU. It helps only if the table answers requests with many keys very late.
    Single,
}

impl Requests {
    pub(super) const fn keys(self) -> usize {
        match self {
            Self::Batched => 25,
            Self::Single => 1,
        }
    }

    /// The most requests for claims in flight, and the most full requests for settlements.
    pub(super) const fn in_flight(self) -> usize {
        match self {
            Self::Batched => 8,
            Self::Single => 32,
        }
    }
}

/// The settings and parts that all batches of a consumer share.
pub(crate) struct Engine {
    pub(crate) handler: WithEnvelope,
    pub(crate) idempotency: Driver,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) record_timeout: Option<Duration>,
    pub(crate) mismatch: PayloadMismatch,
    pub(crate) fifo_failure: FifoFailure,
    pub(crate) in_progress: InProgress,
    pub(crate) requests: Requests,
    pub(crate) missing_key: MissingKey,
    pub(crate) failed: FailedRecords,
    pub(crate) breakers: Breakers,
    pub(crate) token_validity: TokenValidity,
    /// From the code or the environment.
    pub(crate) visibility_timeout: Option<Duration>,
    pub(crate) hooks: Hooks,
    pub(crate) record_levels: RecordLevels,
    pub(crate) identity: Identity,
    pub(crate) meter: Meter,
}
