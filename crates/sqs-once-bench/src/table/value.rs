//! Attribute values, and how they compare.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::ApiError;

/// The attributes of an item, or of its key. Items share their names.
pub(super) type Item = BTreeMap<Arc<str>, Value>;

/// The name of the partition key, which is the whole key.
pub(super) const KEY: &str = "id";

/// A value as DynamoDB writes it in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Value {
    /// Text.
    S(String),
    /// A number, by its text.
    N(String),
    /// Bytes in base64.
    B(String),
    /// A boolean.
    #[serde(rename = "BOOL")]
    Bool(bool),
    /// Null.
    #[serde(rename = "NULL")]
    Null(bool),
    /// A list.
    L(Vec<Value>),
    /// A map.
    M(BTreeMap<String, Value>),
    /// A set of texts.
    #[serde(rename = "SS")]
    Texts(Vec<String>),
    /// A set of numbers.
    #[serde(rename = "NS")]
    Numbers(Vec<String>),
    /// A set of bytes.
    #[serde(rename = "BS")]
    Blobs(Vec<String>),
}

impl Value {
    /// Whether two values are equal: numbers by value, all else as it stands.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::N(_), Self::N(_)) => self.order(other) == Some(Ordering::Equal),
            _ => self == other,
        }
    }

    /// The order of two values; none where their types have no order in common.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::S(left), Self::S(right)) => Some(left.cmp(right)),
            (Self::N(left), Self::N(right)) => {
                match (left.parse::<i128>(), right.parse::<i128>()) {
                    (Ok(left), Ok(right)) => Some(left.cmp(&right)),
                    // Fractions come as times in seconds only, where a float is exact enough.
                    _ => left.parse::<f64>().ok()?.partial_cmp(&right.parse().ok()?),
                }
            }
            _ => None,
        }
    }

    /// The sum of two integers, or with `sign` -1 their difference.
    pub(super) fn plus(&self, other: &Self, sign: i128) -> Result<Self, ApiError> {
        let integer = |value: &Self| match value {
            Self::N(number) => number.parse::<i128>().ok(),
            _ => None,
        };
        match (integer(self), integer(other)) {
            (Some(left), Some(right)) => Ok(Self::N((left + sign * right).to_string())),
            _ => Err(ApiError::validation("an operand of + or - is no integer")),
        }
    }
}

/// The key of an item.
pub(super) fn key(item: &Item) -> Result<&str, ApiError> {
    match item.get(KEY) {
        Some(Value::S(key)) if !key.is_empty() => Ok(key),
        _ => Err(ApiError::validation(
            "The provided key element does not match the schema",
        )),
    }
}
