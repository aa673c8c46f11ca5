//! A condition that was not met.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::WriteName;

/// A write of the handler's whose condition was not met, for [`Writes::on_conflict`](super::Writes::on_conflict).
#[derive(Clone, PartialEq)]
pub struct Conflict {
    write: WriteName,
    item: Option<HashMap<String, AttributeValue>>,
}

impl Conflict {
    pub(crate) fn new(write: WriteName, item: Option<HashMap<String, AttributeValue>>) -> Self {
        Self { write, item }
    }

    /// The place of the write among the handler's, counted from 0.
    pub fn index(&self) -> usize {
        self.write.index()
    }

    /// Which write it is.
    pub fn write(&self) -> &WriteName {
        &self.write
    }

    /// The item as it stood: where there was one, and the write asked for it with
    /// `return_values_on_condition_check_failure(AllOld)`.
    pub fn item(&self) -> Option<&HashMap<String, AttributeValue>> {
        self.item.as_ref()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: its condition was not met", self.write)
    }
}

/// Shows nothing of the item.
impl fmt::Debug for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conflict")
            .field("write", &self.write)
            .field("has_item", &self.item.is_some())
            .finish()
    }
}
