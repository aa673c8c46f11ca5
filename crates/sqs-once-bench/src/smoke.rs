//! What must hold on any machine, however busy: how many requests sqs-once makes. No times.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use crate::contender::{Contender, MissingError, OURS};
use crate::process::{Orders, Process, ProcessError};
use crate::shape::Shape;
use crate::table::{Latency, Table};

/// A batch, and the most requests that it may take.
struct Case {
    name: &'static str,
    duplicates: usize,
    fresh: usize,
    /// How often each record stands in the batch.
    copies: usize,
    at_most: u64,
}

const CASES: [Case; 7] = [
    Case {
        name: "1 new key",
        duplicates: 0,
        fresh: 1,
        copies: 1,
        at_most: 2,
    },
    Case {
        name: "10 new keys",
        duplicates: 0,
        fresh: 10,
        copies: 1,
        at_most: 2,
    },
    Case {
        name: "100 new keys",
        duplicates: 0,
        fresh: 100,
        copies: 1,
        at_most: 8,
    },
    Case {
        name: "1000 new keys",
        duplicates: 0,
        fresh: 1000,
        copies: 1,
        at_most: 80,
    },
    Case {
        name: "1 duplicate",
        duplicates: 1,
        fresh: 0,
        copies: 1,
        at_most: 1,
    },
    Case {
        name: "100 duplicates",
        duplicates: 100,
        fresh: 0,
        copies: 1,
        at_most: 8,
    },
    Case {
        name: "50 new keys, each twice",
        duplicates: 0,
        fresh: 50,
        copies: 2,
        at_most: 4,
    },
];

/// How often each batch is handled; the median counts. On a busy machine a completion may be late for
/// its group, and travel alone.
const TIMES: usize = 20;

/// The smoke run could not be made.
#[derive(Debug, Error)]
pub enum SmokeError {
    /// The stand-in could not be started.
    #[error("no loopback port can be had")]
    Listen(#[from] std::io::Error),
    /// The consumer could not be built or found.
    #[error(transparent)]
    Missing(#[from] MissingError),
    /// The consumer failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Runs every batch; one line each, and whether all hold.
///
/// # Errors
/// [`SmokeError`].
pub fn smoke() -> Result<(Vec<String>, bool), SmokeError> {
    let table = Table::start(Latency {
        request: Duration::from_millis(2),
        statement: Duration::ZERO,
    })?;
    let mut lines = Vec::new();
    let mut all_hold = true;
    for contender in Contender::all()
        .iter()
        .filter(|contender| contender.name == OURS)
    {
        let program = contender.prepare()?;
        let mut process = Process::start(contender, &program, &Shape::cold(), &table.endpoint())?;
        let mut orders = Orders::default();
        for case in &CASES {
            let (event, known) = orders.event(&[], case.duplicates);
            if case.duplicates > 0 {
                process.invoke(&event)?;
            }
            let mut requests = Vec::new();
            let mut operations = BTreeMap::new();
            for _ in 0..TIMES {
                let before = table.counts();
                process.invoke(&orders.batch(&known, case.fresh, case.copies))?;
                process.wait_until_idle()?;
                let counts = table.counts().since(&before);
                requests.push(counts.total());
                operations = counts.requests;
            }
            requests.sort_unstable();
            let median = requests[requests.len() / 2];
            let holds = median <= case.at_most;
            all_hold &= holds;
            let verdict = if holds { "holds " } else { "BROKEN" };
            let (name, at_most) = (case.name, case.at_most);
            lines.push(format!(
                "{verdict} {name}: {median} requests, at most {at_most}; the last time {operations:?}"
            ));
        }
    }
    Ok((lines, all_hold))
}
