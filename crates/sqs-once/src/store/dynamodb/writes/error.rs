//! Errors of writes that DynamoDB would always refuse.

use std::sync::Arc;

use thiserror::Error;

use super::check::{MOST_BYTES, MOST_WRITES};

/// The reason why a handler's [`Writes`](super::Writes) can't be sent. The consumer checks returned writes before it sends
/// anything; an error makes the message terminal.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub(crate) enum WritesError {
    /// There are too many writes for one transaction with the completion of the key.
    #[error(
        "{count} writes: a transaction accepts {MOST_WRITES} in addition to the completion of its key"
    )]
    TooMany {
        /// The number found.
        count: usize,
    },
    /// The writes are too large for one transaction with the completion of the key.
    #[error(
        "the writes have {bytes} bytes together: a transaction accepts {MOST_BYTES} in addition to the completion \
         of its key"
    )]
    TooLarge {
        /// The size of the writes and of the completion's value, in bytes.
        bytes: usize,
    },
    /// Two writes change the same item.
    #[error(
        "{first} and {second} change the same item: a transaction accepts one write for each item, so combine them"
    )]
    SameItem {
        /// The earlier of the two.
        first: String,
        /// The later of the two.
        second: String,
    },
    /// A write names no table.
    #[error("{write} names no table")]
    NoTable {
        /// The write.
        write: String,
    },
    /// A write names no item.
    #[error("{write} has no key")]
    NoKey {
        /// The write.
        write: String,
    },
    /// [`on_conflict`](super::Writes::on_conflict) has no write before it.
    #[error(
        "`on_conflict` stands before all writes: it belongs behind the write whose condition it is about"
    )]
    NoWrite,
    /// A value can't be written as an item, for example because it has no fields.
    #[error("{write}: the value is not an item")]
    NotAnItem {
        /// The write.
        write: String,
        /// The error of the serializer.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}
