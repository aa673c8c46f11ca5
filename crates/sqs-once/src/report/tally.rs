//! Counts of one batch.

use std::time::Duration;

/// Counts of one batch, for its metrics.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Records whose envelope, body, key or fingerprint could not be read.
    pub(crate) undecodable: u64,
    /// Records whose key was completed for another payload.
    pub(crate) payload_mismatches: u64,
    /// Records whose handler succeeded after another worker had taken over their key.
    pub(crate) leases_lost: u64,
    /// Requests to the store. One that the store itself splits or repeats counts once.
    pub(crate) store_requests: u64,
    /// Keys for which the store had no answer, counted at each attempt.
    pub(crate) store_errors: u64,
    /// Records that had no outcome when the deadline came.
    pub(crate) deadline_hits: u64,
    /// Calls of the handler, and blocking code that it started, that still ran when the batch was answered.
    pub(crate) still_running: u64,
    /// How long each call of the handler took.
    pub(crate) handler_durations: Vec<Duration>,
}
