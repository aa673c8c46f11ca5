//! The errors of `Invocation::run`.

use std::error::Error as StdError;

use thiserror::Error;

use crate::error::ConfigError;
use crate::error::Disposition;
use crate::handler::ErrorDisposition;
use crate::key::KeyError;
use crate::store::StoreError;
use crate::time::Timestamp;

/// The error of [`Invocation::run`](crate::once::Invocation::run) and its variants. Let the invocation fail with it, so that
/// the caller invokes the function again.
///
/// Work that returns [`Writes`](crate::Writes) runs before its key is known to be free. Errors about the key then mean
/// that nothing was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A setting is missing or malformed, or does not fit work that returns `Writes` or takes a transaction. Nothing ran.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key is not usable, and a retry can't change that. Nothing ran, and the store got no request.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The invocation has no deadline, so its claim could have no lease. Nothing ran.
    #[error(
        "the invocation's deadline is not known, and a claim without an end would lock its key: pass the deadline of Lambda's context"
    )]
    NoDeadline,
    /// There was no time left. Nothing ran.
    #[error("the deadline came before the work was started")]
    NotStarted,
    /// Another worker works on the key. The effect did not happen here.
    #[error("another worker has the key: fail, so that the event is tried again")]
    InProgress {
        /// The end of the other worker's lease, if the item has one.
        lease_until: Option<Timestamp>,
    },
    /// The key is completed with another [fingerprint](crate::once::Invocation::fingerprint): two different
    /// events share it. The effect did not happen here.
    #[error("the key was processed for another payload: two different events share it")]
    PayloadMismatch,
    /// This version does not know the item's status, so the key is neither done nor free. The effect did not happen here.
    #[error("the key's item has the status {0:?}, which this version does not know")]
    UnknownStatus(String),
    /// The store did not confirm the claim. Nothing ran.
    #[error("the key could not be claimed: {0}")]
    NotClaimed(#[source] StoreError),
    /// The work's own error, or its `Writes` break a limit. The key is free again.
    #[error("{error}")]
    Work {
        /// What the work's code or the [type](trait@crate::handler::ErrorDisposition) of its error chose. If it is terminal,
        /// another attempt can't help: keep the event for a person, and end the invocation without an error.
        disposition: Disposition,
        /// Whether the effect may have happened all the same. The key is free, so the next attempt repeats it.
        outcome_unknown: bool,
        /// The work's error.
        #[source]
        error: Box<dyn StdError + Send + Sync>,
    },
    /// The condition of one of the work's [`Writes`](crate::Writes) was not met. Nothing was written, and the key is free.
    #[error("{reason}")]
    Conflict {
        /// What [`Writes::on_conflict`](crate::Writes::on_conflict) chose. If it is terminal, another attempt can't help:
        /// keep the event for a person, and end the invocation without an error.
        disposition: Disposition,
        /// The write whose condition was not met.
        reason: String,
    },
    /// The deadline came while the work ran, and it was cancelled. Its effect may be in flight, so the
    /// key becomes free when its lease lapses. `Writes` and a transaction have had no effect, and their key is free.
    #[error("cancelled at the deadline while the work ran")]
    Cancelled,
    /// The work succeeded, and the store did not confirm its completion. If the key is not completed, the work runs
    /// again.
    #[error("the work succeeded, but its key could not be completed: {0}")]
    NotCompleted(#[source] StoreError),
    /// The work succeeded, and the store did not confirm the commit of its effect. The effect and the completion of the key
    /// are both committed, or neither is. The next attempt is a duplicate, or does the work.
    #[error("the work succeeded, but the commit of its effect was not confirmed: {0}")]
    NotCommitted(#[source] StoreError),
    /// The work succeeded, but only after its lease had lapsed and another worker had claimed the key.
    #[error("the work succeeded, but another worker had taken over its key")]
    LeaseLost,
}

/// For work inside a handler that passes the error on with `?`: declare it with
/// [`errors::<RunError>()`](crate::Handler::errors). Every handler knows without it that the outcome is unknown.
impl ErrorDisposition for RunError {
    /// Returns what the work or [`Writes::on_conflict`](crate::Writes::on_conflict) chose. Unusable keys and payloads that
    /// differ are terminal. Everything else is retried.
    fn disposition(&self) -> Option<Disposition> {
        match self {
            Self::Key(_) | Self::PayloadMismatch => Some(Disposition::Terminal),
            Self::Work { disposition, .. } | Self::Conflict { disposition, .. } => {
                Some(disposition.clone())
            }
            _ => None,
        }
    }

    fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Work {
                outcome_unknown, ..
            } => *outcome_unknown,
            Self::Cancelled | Self::NotCompleted(_) | Self::LeaseLost => true,
            _ => false,
        }
    }
}
