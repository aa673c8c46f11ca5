//! The measured batches.

use std::time::Duration;

use crate::contender::{BY_HAND_10, BY_HAND_50, Contender, LIMIT, OURS, OURS_SINGLE, PROTOTYPE};

/// A kind of batch.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in results, such as `100 new`.
    pub name: &'static str,
    /// The number of records.
    pub records: usize,
    /// How many of them an earlier batch completed.
    pub duplicates: usize,
    /// Whether contenders with a cache of completed keys use it.
    pub cached: bool,
    /// The duration of a record's work, in milliseconds.
    pub handler_ms: u64,
    /// sqs-once's concurrency, if not the default.
    pub concurrency: Option<usize>,
    /// The latency of each statement of a batch, in addition to the table's latency.
    pub statement: Duration,
    /// The share of a core that the process gets, if it is limited.
    pub share: Option<Share>,
    /// The names of the contenders to measure; all if empty.
    contenders: &'static [&'static str],
}

/// A share of a core, as Lambda gives it to a function with little memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its name in results.
    pub name: &'static str,
    /// The share.
    pub cores: f64,
    /// The function's memory, in MB.
    pub memory_mb: u32,
}

/// The measured shares. Lambda gives a function with 1769 MB one core, and others in proportion.
const SHARES: [Share; 3] = [
    Share {
        name: "0.07 of a core",
        cores: 0.07,
        memory_mb: 128,
    },
    Share {
        name: "0.145 of a core",
        cores: 0.145,
        memory_mb: 256,
    },
    Share {
        name: "0.29 of a core",
        cores: 0.29,
        memory_mb: 512,
    },
];

/// The contenders that statements affect, and contenders to compare them with.
const WITH_STATEMENTS: [&str; 6] = [LIMIT, PROTOTYPE, OURS, OURS_SINGLE, BY_HAND_50, BY_HAND_10];
/// The contenders on a share of a core.
const WITH_SHARES: [&str; 6] = [LIMIT, PROTOTYPE, OURS, BY_HAND_10, "typescript", "python-6"];
/// The contenders with a cache of completed keys.
const WITH_CACHE: [&str; 4] = [OURS, "typescript", "python-6", "python-1"];

/// The batches with which the comparison is repeated: their names, sizes, and the latency of a statement in microseconds.
const STATEMENTS: [(&str, usize, u64); 4] = [
    ("100 new, 0.2 ms a statement", 100, 200),
    ("1000 new, 0.2 ms a statement", 1000, 200),
    ("100 new, 1 ms a statement", 100, 1000),
    ("1000 new, 1 ms a statement", 1000, 1000),
];

/// The batches that are measured on each share, in the order of [`SHARES`]: their names and sizes.
const SHARED: [[(&str, usize); 2]; 3] = [
    [
        ("0.07 of a core, 10 new", 10),
        ("0.07 of a core, 100 new", 100),
    ],
    [
        ("0.145 of a core, 10 new", 10),
        ("0.145 of a core, 100 new", 100),
    ],
    [
        ("0.29 of a core, 10 new", 10),
        ("0.29 of a core, 100 new", 100),
    ],
];

impl Shape {
    /// Every shape: the comparison from small to large, then the other parts.
    pub fn all() -> Vec<Self> {
        let new = Self::new;
        let duplicates = |name, records, duplicates| Self {
            duplicates,
            ..new(name, records)
        };
        let mut all = vec![
            new("1 new", 1),
            new("10 new", 10),
            new("100 new", 100),
            duplicates("100, half duplicates", 100, 50),
            duplicates("100 duplicates", 100, 100),
            Self {
                cached: true,
                contenders: &WITH_CACHE,
                ..duplicates("100 duplicates, cached", 100, 100)
            },
            Self {
                handler_ms: 20,
                concurrency: Some(100),
                ..new("100 new, 20 ms each", 100)
            },
            new("1000 new", 1000),
            duplicates("1000, half duplicates", 1000, 500),
            new("10000 new", 10_000),
        ];
        all.extend(STATEMENTS.map(|(name, records, micros)| Self {
            statement: Duration::from_micros(micros),
            contenders: &WITH_STATEMENTS,
            ..new(name, records)
        }));
        for (share, batches) in SHARES.into_iter().zip(SHARED) {
            all.extend(batches.map(|(name, records)| Self {
                share: Some(share),
                contenders: &WITH_SHARES,
                ..new(name, records)
            }));
        }
        all
    }

    /// The batch whose first answer ends the cold start, on a whole core and on each share.
    pub fn cold_starts() -> Vec<Self> {
        let on = |share| Self {
            share,
            contenders: if share.is_some() { &WITH_SHARES } else { &[] },
            ..Self::cold()
        };
        let shares = SHARES.into_iter().map(Some);
        std::iter::once(None).chain(shares).map(on).collect()
    }

    /// The batch whose first answer ends the cold start.
    pub fn cold() -> Self {
        Self::new("cold start, 10 new", 10)
    }

    /// The batch for which sqs-once uses its cache of completed keys.
    pub fn cached() -> Self {
        Self {
            cached: true,
            ..Self::new("cached", 1)
        }
    }

    fn new(name: &'static str, records: usize) -> Self {
        Self {
            name,
            records,
            duplicates: 0,
            cached: false,
            handler_ms: 0,
            concurrency: None,
            statement: Duration::ZERO,
            share: None,
            contenders: &[],
        }
    }

    /// Whether the shape is measured with a contender.
    pub fn is_for(&self, contender: &Contender) -> bool {
        self.contenders.is_empty() || self.contenders.contains(&contender.name)
    }

    /// The number of different orders in the batch that no earlier batch had.
    pub fn fresh(&self) -> usize {
        self.records - self.duplicates
    }

    /// Whether the batch has only new keys, at the table's own latency, on whole cores. The time of such a batch predicts that
    /// of a larger one.
    pub fn has_only_new_keys(&self) -> bool {
        (self.duplicates, self.handler_ms) == (0, 0)
            && self.statement.is_zero()
            && self.share.is_none()
    }
}
