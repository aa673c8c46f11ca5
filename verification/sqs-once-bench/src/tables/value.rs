//! Attribute values. Numbers are as exact as the contenders' numbers are: times and counts, with fractions of a second.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
            (Self::N(one), Self::N(other)) => one.partial_cmp(other),
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

/// A number. Those up to 2⁵³ are exact.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Number(f64);

impl Number {
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The size in bytes: two digits a byte, one byte for itself, and one for a sign.
    fn size(self) -> usize {
        let text = self.0.abs().to_string();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let count = digits.trim_matches('0').len().max(1);
        count.div_ceil(2) + 1 + usize::from(self.0 < 0.0)
    }
}

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number
            .map(Self)
            .ok_or_else(|| format!("not a number that the stand-in reads: {text:?}"))
    }
}

impl From<Number> for String {
    fn from(Number(number): Number) -> Self {
        number.to_string()
    }
}
