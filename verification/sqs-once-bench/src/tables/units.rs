//! The request units of requests.

use std::ops::{Add, Sub};

use serde::Serialize;

/// The bytes of a write unit and of a read unit.
const WRITE: usize = 1024;
const READ: usize = 4096;

/// Request units as DynamoDB bills them. A write takes one for each KiB of the item, before or after the write, whichever
/// is larger, and at least one, even if its condition is not met. A consistent read takes one for each 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    /// Write request units.
    pub write: f64,
    /// Read request units.
    pub read: f64,
}

impl Units {
    /// The units of each of so many records.
    #[must_use]
    pub fn each_of(self, records: usize) -> Self {
        Self {
            write: self.write / records as f64,
            read: self.read / records as f64,
        }
    }

    /// The units of a write of `size` bytes.
    pub(super) fn of_write(size: usize) -> Self {
        Self {
            write: size.div_ceil(WRITE).max(1) as f64,
            ..Self::default()
        }
    }

    /// The units of a read of `size` bytes.
    pub(super) fn of_read(size: usize) -> Self {
        Self {
            read: size.div_ceil(READ).max(1) as f64,
            ..Self::default()
        }
    }
}

impl Add for Units {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            write: self.write + other.write,
            read: self.read + other.read,
        }
    }
}

impl Sub for Units {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            write: self.write - other.write,
            read: self.read - other.read,
        }
    }
}
