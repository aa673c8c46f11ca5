//! The batches that are measured.

/// A kind of batch.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its name in results, such as `100 new`.
    pub name: &'static str,
    /// How many records it has.
    pub records: usize,
    /// How many of them were completed by an earlier batch.
    pub duplicates: usize,
    /// How long the work of a record takes, in milliseconds.
    pub handler_ms: u64,
    /// sqs-once's concurrency, where it is not left at its default.
    pub concurrency: Option<usize>,
}

impl Shape {
    /// All of them, from small to large.
    pub fn all() -> Vec<Self> {
        let new = |name, records| Self {
            name,
            records,
            duplicates: 0,
            handler_ms: 0,
            concurrency: None,
        };
        let duplicates = |name, records, duplicates| Self {
            duplicates,
            ..new(name, records)
        };
        vec![
            new("1 new", 1),
            new("10 new", 10),
            new("100 new", 100),
            duplicates("100, half duplicates", 100, 50),
            duplicates("100 duplicates", 100, 100),
            Self {
                handler_ms: 20,
                concurrency: Some(100),
                ..new("100 new, 20 ms each", 100)
            },
            new("1000 new", 1000),
            duplicates("1000, half duplicates", 1000, 500),
            new("10000 new", 10_000),
        ]
    }

    /// The batch whose first answer is the cold start.
    pub fn cold() -> Self {
        Self {
            name: "cold start, 10 new",
            records: 10,
            duplicates: 0,
            handler_ms: 0,
            concurrency: None,
        }
    }

    /// Whether it belongs to the plot: new keys, no work.
    pub fn is_plotted(&self) -> bool {
        self.duplicates == 0 && self.handler_ms == 0
    }
}
