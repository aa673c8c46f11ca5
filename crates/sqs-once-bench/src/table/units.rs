//! What requests consume, as DynamoDB bills them.

use std::ops::{Add, Sub};

use serde::Serialize;

/// Request units of items below 1 KB, as all of the benchmark's are: a write takes one, whether its
/// condition holds or not, a consistent read takes one, and any other read half a unit.
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

    pub(super) fn of_writes(writes: usize) -> Self {
        Self {
            write: writes as f64,
            read: 0.0,
        }
    }

    pub(super) fn of_reads(reads: usize, consistent: bool) -> Self {
        Self {
            write: 0.0,
            read: reads as f64 * if consistent { 1.0 } else { 0.5 },
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
