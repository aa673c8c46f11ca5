//! Numbers as DynamoDB keeps them: decimal, exact, of up to 38 digits.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const MOST_DIGITS: u32 = 38;
/// A number is below 10 to this power, and if it is not zero at least 10 to the other.
const LARGEST: i64 = 126;
const SMALLEST: i64 = -130;

/// A number. However it was written, there is one of each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Number {
    is_negative: bool,
    /// Without zeros at its end, so that equal numbers are alike.
    digits: u128,
    exponent: i32,
}

impl Number {
    /// `None` where DynamoDB would not keep it.
    fn new(is_negative: bool, mut digits: u128, mut exponent: i64) -> Option<Self> {
        if digits == 0 {
            return Some(Self::default());
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        let count = count(digits);
        let magnitude = i64::from(count) + exponent;
        let fits = count <= MOST_DIGITS && magnitude <= LARGEST && magnitude > SMALLEST;
        let exponent = i32::try_from(exponent).ok().filter(|_| fits)?;
        Some(Self {
            is_negative,
            digits,
            exponent,
        })
    }

    /// The sum, or `None` where DynamoDB has no number for it.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        if self.digits == 0 || other.digits == 0 {
            return Some(if self.digits == 0 { other } else { self });
        }
        let exponent = self.exponent.min(other.exponent);
        let aligned = |number: Self| {
            let zeros = number.exponent.abs_diff(exponent);
            let digits = number.digits.checked_mul(10_u128.checked_pow(zeros)?)?;
            let digits = i128::try_from(digits).ok()?;
            Some(if number.is_negative { -digits } else { digits })
        };
        let sum = aligned(self)?.checked_add(aligned(other)?)?;
        Self::new(sum < 0, sum.unsigned_abs(), exponent.into())
    }

    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(Self {
            is_negative: !other.is_negative && other.digits > 0,
            ..other
        })
    }

    /// How many bytes of an item it takes.
    pub(crate) fn size(self) -> usize {
        // Two digits a byte, by where they stand, one byte for itself, and one for a sign.
        let digits = count(self.digits).max(1) as usize;
        digits.div_ceil(2) + 1 + usize::from(self.is_negative)
    }

    fn magnitude_order(self, other: Self) -> Ordering {
        let magnitude = |number: Self| match number.digits {
            0 => i64::MIN,
            digits => i64::from(count(digits)) + i64::from(number.exponent),
        };
        // Of the same magnitude, they differ by the digits that one has more.
        let filled = |number: Self, to: u32| {
            let zeros = to.saturating_sub(count(number.digits));
            number.digits.saturating_mul(10_u128.saturating_pow(zeros))
        };
        let longer = count(self.digits).max(count(other.digits));
        magnitude(self)
            .cmp(&magnitude(other))
            .then_with(|| filled(self, longer).cmp(&filled(other, longer)))
    }
}

fn count(digits: u128) -> u32 {
    digits.checked_ilog10().map_or(0, |log| log + 1)
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.magnitude_order(*other),
            (true, true) => other.magnitude_order(*self),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        // No count of anything has 38 digits.
        Self::new(false, number as u128, 0).unwrap_or_default()
    }
}

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("The parameter cannot be converted to a numeric value, or not kept: {text:?}")
        };
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| wrong())?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() == 0 {
            return Err(wrong());
        }
        let (mut digits, mut dropped) = (0_u128, 0_i64);
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return Err(wrong());
            }
            match digits.checked_mul(10) {
                Some(tens) if count(digits) <= MOST_DIGITS && dropped == 0 => {
                    digits = tens.checked_add(digit.into()).ok_or_else(wrong)?;
                }
                // Zeros behind all that a number may have; anything else is too much.
                _ if digit == 0 => dropped += 1,
                _ => return Err(wrong()),
            }
        }
        let exponent = i64::from(exponent) + dropped - fraction.len() as i64;
        Self::new(text.starts_with('-'), digits, exponent).ok_or_else(wrong)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let digits = self.digits.to_string();
        if let Ok(zeros) = usize::try_from(self.exponent) {
            return write!(f, "{sign}{digits}{:0<zeros$}", "");
        }
        let fraction = self.exponent.unsigned_abs() as usize;
        match digits.len().checked_sub(fraction).filter(|at| *at > 0) {
            Some(at) => write!(f, "{sign}{}.{}", &digits[..at], &digits[at..]),
            None => write!(f, "{sign}0.{digits:0>fraction$}"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
