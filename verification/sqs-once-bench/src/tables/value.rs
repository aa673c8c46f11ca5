//! Attribute values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::number::Number;

/// The attributes of an item, or of a key. Items share the names.
pub(crate) type Item = BTreeMap<Arc<str>, Value>;

/// A value, in DynamoDB's JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Value {
    S(String),
    N(Number),
}

impl Value {
    /// The order of two values of one type.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::S(one), Self::S(other)) => Some(one.cmp(other)),
            (Self::N(one), Self::N(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::S(text) => text.len(),
            Self::N(number) => number.size(),
        }
    }
}

/// The size of an item in bytes: its names and its values.
pub(super) fn item_size(item: &Item) -> usize {
    let sizes = item.iter().map(|(name, value)| name.len() + value.size());
    sizes.sum()
}
