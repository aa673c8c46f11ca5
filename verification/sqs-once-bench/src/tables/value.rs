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

/// The decimal places of a number, and their unit.
const PLACES: usize = 9;
const ONE: i128 = 1_000_000_000;
/// The most digits before the point: those of `u64`.
const DIGITS: usize = 20;

/// A number, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Number(i128);

impl Number {
    pub(super) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The size in bytes: two digits a byte, one byte for itself, and one for a sign.
    pub(super) fn size(self) -> usize {
        let mut digits = self.0.unsigned_abs();
        while digits > 0 && digits.is_multiple_of(10) {
            digits /= 10;
        }
        let count = digits.checked_ilog10().map_or(1, |log| log as usize + 1);
        count.div_ceil(2) + 1 + usize::from(self.0 < 0)
    }
}

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let unsigned = text.strip_prefix('-').unwrap_or(&text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let fits = (1..=DIGITS).contains(&whole.len()) && fraction.len() <= PLACES;
        let mut digits = whole.bytes().chain(fraction.bytes());
        if !fits || !digits.all(|digit| digit.is_ascii_digit()) {
            return Err(format!("not a number that the stand-in reads: {text:?}"));
        }
        let zeros = std::iter::repeat_n(b'0', PLACES - fraction.len());
        let digits = whole.bytes().chain(fraction.bytes()).chain(zeros);
        let number = digits.fold(0, |number: i128, digit| {
            number * 10 + i128::from(digit - b'0')
        });
        Ok(Self(if unsigned == text { number } else { -number }))
    }
}

impl From<Number> for String {
    fn from(Number(number): Number) -> Self {
        let sign = if number < 0 { "-" } else { "" };
        let (whole, fraction) = (number.abs() / ONE, number.abs() % ONE);
        if fraction == 0 {
            return format!("{sign}{whole}");
        }
        let fraction = format!("{fraction:0PLACES$}");
        format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}
