//! Writes that DynamoDB would refuse in any case.

use thiserror::Error;

use super::WriteName;
use super::check::{MOST_BYTES, MOST_WRITES};

/// Why a handler's [`Writes`](super::Writes) can't be sent. Returned writes are checked before anything is sent,
/// and the record is then terminal; [`Writes::put`](super::Writes::put) says at once what it has to say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WritesError {
    /// There are more than fit into one transaction with the record of the key.
    #[error("{count} writes: a transaction takes {MOST_WRITES} beside the record of its key")]
    TooMany {
        /// The number found.
        count: usize,
    },
    /// They are larger than fits into one transaction with the record of the key.
    #[error(
        "the writes have {bytes} bytes together: a transaction takes {MOST_BYTES} beside the record of its key"
    )]
    TooLarge {
        /// The size of the writes and of the recorded data, in bytes.
        bytes: usize,
    },
    /// Two writes are of one item.
    #[error(
        "{first} and {second} are of the same item: a transaction takes one write of each, so make one of the two"
    )]
    SameItem {
        /// The earlier of the two.
        first: WriteName,
        /// The later.
        second: WriteName,
    },
    /// A write names no table.
    #[error("{write} names no table")]
    NoTable {
        /// The write.
        write: WriteName,
    },
    /// A write names no item.
    #[error("{write} has no key")]
    NoKey {
        /// The write.
        write: WriteName,
    },
    /// [`on_conflict`](super::Writes::on_conflict) speaks of a write that there is not.
    #[error("`on_conflict` is set for write {index}, but there are {count} writes, counted from 0")]
    NoSuchWrite {
        /// The place named.
        index: usize,
        /// How many writes there are.
        count: usize,
    },
    /// A value can't be written as an item, because it has no fields for instance.
    #[cfg(feature = "serde_dynamo")]
    #[error("{write}: the value is not an item")]
    NotAnItem {
        /// The write.
        write: WriteName,
        /// The error of the serializer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
