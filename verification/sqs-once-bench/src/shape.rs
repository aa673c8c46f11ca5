//! The batches that are measured.

use std::time::Duration;

use crate::contender::{BY_HAND_10, BY_HAND_50, Contender, LIMIT, OURS, OURS_SINGLE, PROTOTYPE};

/// A kind of batch.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in results, such as `100 new`.
    pub name: &'static str,
    /// What it is measured for.
    pub part: Part,
    /// How many records it has.
    pub records: usize,
    /// How many of them were completed by an earlier batch.
    pub duplicates: usize,
    /// How often each record stands in the batch.
    pub copies: usize,
    /// Whether contenders that can remember completed keys in their process do so.
    pub cached: bool,
    /// How long the work of a record takes, in milliseconds.
    pub handler_ms: u64,
    /// sqs-once's concurrency, where it is not left at its default.
    pub concurrency: Option<usize>,
    /// What each statement of a batch takes on top of the table's latency.
    pub statement: Duration,
    /// The names of those that it is measured with; all where there are none.
    contenders: &'static [&'static str],
}

/// What a shape is measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The comparison of the contenders.
    Comparison,
    /// How time grows with the batch: more sizes of those that the comparison has.
    Growth,
    /// What becomes of the comparison when statements take time on the real service.
    Statements,
}

/// Those whose growth is measured at every size.
pub const GROWING: [&str; 3] = [LIMIT, PROTOTYPE, OURS];
/// Those that statements matter to, and those to compare them with.
pub const WITH_STATEMENTS: [&str; 6] =
    [LIMIT, PROTOTYPE, OURS, OURS_SINGLE, BY_HAND_50, BY_HAND_10];
/// Those that can remember completed keys.
const WITH_CACHE: [&str; 4] = [OURS, "typescript", "python-6", "python-1"];

/// The latencies of a statement that the comparison is repeated with, in microseconds, and the names of
/// its batches.
const STATEMENTS: [(u64, [&str; 3]); 2] = [
    (
        200,
        [
            "10 new, 0.2 ms a statement",
            "100 new, 0.2 ms a statement",
            "1000 new, 0.2 ms a statement",
        ],
    ),
    (
        1000,
        [
            "10 new, 1 ms a statement",
            "100 new, 1 ms a statement",
            "1000 new, 1 ms a statement",
        ],
    ),
];

impl Shape {
    /// All of them: the comparison from small to large, then the other parts.
    pub fn all() -> Vec<Self> {
        let new = Self::new;
        let duplicates = |name, records, duplicates| Self {
            duplicates,
            ..new(name, records)
        };
        let growth = |name, records| Self {
            part: Part::Growth,
            contenders: &GROWING,
            ..new(name, records)
        };
        let mut all = vec![
            new("1 new", 1),
            new("10 new", 10),
            duplicates("10, half duplicates", 10, 5),
            new("100 new", 100),
            duplicates("100, half duplicates", 100, 50),
            duplicates("100 duplicates", 100, 100),
            Self {
                cached: true,
                contenders: &WITH_CACHE,
                ..duplicates("100 duplicates, cached", 100, 100)
            },
            Self {
                copies: 2,
                // The others take the second copy for one that is in progress, and return it.
                contenders: &GROWING,
                ..new("50 new, each twice", 100)
            },
            Self {
                handler_ms: 20,
                concurrency: Some(100),
                ..new("100 new, 20 ms each", 100)
            },
            new("1000 new", 1000),
            duplicates("1000, half duplicates", 1000, 500),
            new("10000 new", 10_000),
            growth("3 new", 3),
            growth("30 new", 30),
            growth("300 new", 300),
            growth("3000 new", 3000),
        ];
        for (micros, names) in STATEMENTS {
            all.extend(
                names
                    .into_iter()
                    .zip([10, 100, 1000])
                    .map(|(name, records)| Self {
                        part: Part::Statements,
                        statement: Duration::from_micros(micros),
                        contenders: &WITH_STATEMENTS,
                        ..new(name, records)
                    }),
            );
        }
        all
    }

    /// The batch whose first answer is the cold start.
    pub fn cold() -> Self {
        Self::new("cold start, 10 new", 10)
    }

    /// The batch with which sqs-once is told to remember completed keys.
    pub fn cached() -> Self {
        Self {
            cached: true,
            ..Self::new("cached", 1)
        }
    }

    fn new(name: &'static str, records: usize) -> Self {
        Self {
            name,
            part: Part::Comparison,
            records,
            duplicates: 0,
            copies: 1,
            cached: false,
            handler_ms: 0,
            concurrency: None,
            statement: Duration::ZERO,
            contenders: &[],
        }
    }

    /// Whether it is measured with a contender.
    pub fn is_for(&self, contender: &Contender) -> bool {
        self.contenders.is_empty() || self.contenders.contains(&contender.name)
    }

    /// How many of its records are for orders that no earlier batch had, each counted once.
    pub fn fresh(&self) -> usize {
        (self.records - self.duplicates) / self.copies
    }

    /// Whether it is nothing but new keys, at the table's own latency: a point of the plots.
    pub fn is_plotted(&self) -> bool {
        self.part != Part::Statements
            && (self.duplicates, self.copies, self.handler_ms) == (0, 1, 0)
    }

    /// The batches of new keys alone, from small to large.
    pub fn plotted() -> Vec<Self> {
        let mut plotted: Vec<_> = Self::all().into_iter().filter(Self::is_plotted).collect();
        plotted.sort_by_key(|shape| shape.records);
        plotted
    }
}
