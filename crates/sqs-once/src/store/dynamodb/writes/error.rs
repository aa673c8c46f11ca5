//! Errors of writes that DynamoDB would always refuse.

use thiserror::Error;

use super::check::{MOST_BYTES, MOST_WRITES};

/// The reason why a handler's [`Writes`](super::Writes) can't be sent. The consumer checks returned writes before it sends
/// anything; an error makes the message terminal. [`Writes::put`](super::Writes::put) returns its error immediately.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WritesError {
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
    /// [`on_conflict`](super::Writes::on_conflict) names a write that does not exist.
    #[error("`on_conflict` is set for write {index}, but there are {count} writes, counted from 0")]
    NoSuchWrite {
        /// The index given to `on_conflict`.
        index: usize,
        /// The number of writes.
        count: usize,
    },
    /// A value can't be written as an item, for example because it has no fields.
    #[error("{write}: the value is not an item")]
    NotAnItem {
        /// The write.
        write: String,
        /// The error of the serializer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
