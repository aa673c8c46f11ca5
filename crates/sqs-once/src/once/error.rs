//! Why work did not happen, or is not known to have happened.

use std::error::Error as StdError;

use thiserror::Error;

use crate::error::ConfigError;
use crate::key::KeyError;
use crate::store::StoreError;
use crate::time::Timestamp;

/// Why [`Invocation::run`](crate::Invocation::run) brought no value. Let the invocation fail with it, so
/// that whoever invoked the function tries again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A setting is missing or malformed. Nothing ran.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no usable key, and there will be none the next time. Nothing ran, and the store was not
    /// asked.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A lease ends with its invocation, so one without an end can't be given. Nothing ran.
    #[error(
        "the invocation's deadline is not known, and a claim without an end would lock its key: pass the deadline of Lambda's context"
    )]
    NoDeadline,
    /// There was no time left. Nothing ran.
    #[error("the deadline came before the work was started")]
    NotStarted,
    /// Somebody else works on the key. Nothing ran here.
    #[error("another worker has the key: fail, so that the event is tried again")]
    InProgress {
        /// When the other's lease ends, where the item says so.
        lease_until: Option<Timestamp>,
    },
    /// The key is completed with another [fingerprint](crate::Invocation::fingerprint): two different
    /// events share it. Nothing ran.
    #[error("the key was processed for another payload: two different events share it")]
    PayloadMismatch,
    /// The item's status is none that this version knows: not done, and not free. Nothing ran.
    #[error("the key's item has the status {0:?}, which this version does not know")]
    UnknownStatus(String),
    /// The store could not say whose the key is. Nothing ran.
    #[error("the key could not be claimed: {0}")]
    NotClaimed(#[source] StoreError),
    /// The work's own error. The key is free again.
    #[error(transparent)]
    Work(Box<dyn StdError + Send + Sync>),
    /// The deadline came while the work ran, and it was cancelled. Its effect may be on its way, so the
    /// key is free only when its lease has lapsed.
    #[error("cancelled at the deadline while the work ran")]
    Cancelled,
    /// The work succeeded, and the store could not say whether that is on record. If it is not, the work
    /// runs again.
    #[error("the work succeeded, but that could not be recorded: {0}")]
    NotRecorded(#[source] StoreError),
    /// The work succeeded, but only after its lease had lapsed and another worker had claimed the key.
    #[error("the work succeeded, but another worker had taken over its key meanwhile")]
    LeaseLost,
}
