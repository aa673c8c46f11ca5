//! What all records of a consumer share: the store, the clock and the random source.

use std::sync::Arc;

use crate::random::Random;
use crate::store::{Answers, Owner, Store, StoreError, StoreErrorKind};
use crate::time::{Clock, Timestamp};

use super::deadline::{Deadline, Margins};

/// Drives the protocol of all routes: sends their requests to one store.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(super) margins: Margins,
}

/// New owners for the claims of one batch: a random number and its successors. The operating system's generator takes a
/// system call, which would be a noticeable part of a record's CPU time.
pub(crate) struct Owners(u128);

impl Owners {
    pub(crate) fn next(&mut self) -> Owner {
        self.0 = self.0.wrapping_add(1);
        Owner::from_bits(self.0)
    }
}

impl Driver {
    pub(crate) fn owners(&self) -> Owners {
        Owners(self.random.bits())
    }

    pub(crate) fn deadline(&self, ends_at: Timestamp) -> Deadline {
        Deadline::new(ends_at, self.clock.now(), self.margins)
    }
}

/// The store no longer offers a capability that it offered at start.
pub(super) fn incapable(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, format!("this store can't {what}"))
}

/// Extends the answers to `count` entries. Adds an error for each entry that the store did not answer.
pub(super) fn all_of<T>(count: usize, mut answers: Answers<T>) -> Answers<T> {
    answers.resize_with(count, || Err(unanswered()));
    answers
}

/// Returns the answer to a request with one entry.
pub(crate) fn first_of<T>(answers: Answers<T>) -> Result<T, StoreError> {
    let first = answers.into_iter().next();
    first.unwrap_or_else(|| Err(unanswered()))
}

pub(super) fn unanswered() -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        "the store returned fewer answers than there were entries",
    )
}
