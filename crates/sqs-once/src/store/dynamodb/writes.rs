//! What a handler wants written together with the record of its key.

use std::fmt;

use aws_sdk_dynamodb::types::TransactWriteItem;

use crate::error::Disposition;

use super::table::Attributes;

/// The DynamoDB writes that are a handler's whole effect: they commit together with the record of its
/// key, or not at all.
#[derive(Default)]
pub struct Writes {
    items: Vec<TransactWriteItem>,
}

impl Writes {
    /// No writes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a conflict means for the message.
    pub(crate) fn disposition(&self, _conflict: &Conflict) -> Disposition {
        Disposition::Retry
    }
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes")
            .field("items", &self.items)
            .finish()
    }
}

/// A write of the handler's whose condition was not met.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    index: usize,
    item: Option<Attributes>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the condition of write {} was not met", self.index)
    }
}
