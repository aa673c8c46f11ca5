//! What requests consume, as DynamoDB bills them.

use std::ops::{Add, Sub};

use serde::Serialize;

/// What a write unit writes, and what a read unit reads, in bytes.
const WRITE: usize = 1024;
const READ: usize = 4096;

/// Request units. A write takes one for each KiB of the larger of the two items, the one that was and the one that is,
/// whether its condition is met or not, and one if there is none; in a transaction it takes two. A consistent read
/// takes one for each 4 KiB, any other half of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Units {
    /// Write request units.
    pub write: f64,
    /// Read request units.
    pub read: f64,
}

impl Units {
    /// The same shared out among so many records.
    #[must_use]
    pub fn each_of(self, records: usize) -> Self {
        Self {
            write: self.write / records as f64,
            read: self.read / records as f64,
        }
    }

    pub(crate) fn total(self) -> f64 {
        self.write + self.read
    }

    /// Of a write of so many bytes.
    pub(crate) fn of_write(size: usize) -> Self {
        Self {
            write: size.div_ceil(WRITE).max(1) as f64,
            read: 0.0,
        }
    }

    /// Of a read of so many bytes.
    pub(crate) fn of_read(size: usize, is_consistent: bool) -> Self {
        let units = size.div_ceil(READ).max(1) as f64;
        Self {
            write: 0.0,
            read: if is_consistent { units } else { units / 2.0 },
        }
    }

    /// Of the same in a transaction.
    pub(crate) fn twice(self) -> Self {
        self + self
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
