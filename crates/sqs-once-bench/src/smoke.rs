//! What must hold on any machine, however busy: how many requests sqs-once makes, by itself and
//! beside the limit and the prototype. No times.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use crate::contender::{Contender, LIMIT, MissingError, OURS, PROTOTYPE};
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
    /// Whether completed keys are remembered in the process.
    cached: bool,
    at_most: u64,
}

const CASES: [Case; 9] = [
    Case::new("1 new key", 1, 2),
    Case::new("10 new keys", 10, 2),
    Case::new("100 new keys", 100, 8),
    Case::new("1000 new keys", 1000, 80),
    Case::duplicates("1 duplicate", 1, 1),
    Case::duplicates("100 duplicates", 100, 8),
    Case {
        copies: 2,
        ..Case::new("50 new keys, each twice", 50, 4)
    },
    Case {
        cached: true,
        ..Case::duplicates("1 duplicate, cached", 1, 0)
    },
    Case {
        cached: true,
        ..Case::duplicates("100 duplicates, cached", 100, 0)
    },
];

/// Those of [`CASES`] that must take as many requests as the limit and the prototype send.
const COMPARED: [&str; 3] = ["10 new keys", "100 new keys", "1000 new keys"];

impl Case {
    const fn new(name: &'static str, fresh: usize, at_most: u64) -> Self {
        Self {
            name,
            duplicates: 0,
            fresh,
            copies: 1,
            cached: false,
            at_most,
        }
    }

    const fn duplicates(name: &'static str, duplicates: usize, at_most: u64) -> Self {
        Self {
            duplicates,
            ..Self::new(name, 0, at_most)
        }
    }
}

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
    let mut judge = |holds: bool, line: String| {
        all_hold &= holds;
        let verdict = if holds { "holds " } else { "BROKEN" };
        lines.push(format!("{verdict} {line}"));
    };
    let contenders = Contender::all();
    let named = |name| contenders.iter().filter(move |one| one.name == name);
    let mut ours = BTreeMap::new();
    for contender in named(OURS) {
        let program = contender.prepare()?;
        let start = |shape| Process::start(contender, &program, &shape, &table.endpoint());
        let mut process = start(Shape::cold())?;
        let mut remembering = start(Shape::cached())?;
        let mut orders = Orders::default();
        for case in &CASES {
            let process = if case.cached {
                &mut remembering
            } else {
                &mut process
            };
            let (median, operations) = requests(&table, process, &mut orders, case)?;
            ours.insert(case.name, median);
            let (name, at_most) = (case.name, case.at_most);
            judge(
                median <= at_most,
                format!(
                    "{name}: {median} requests, at most {at_most}; the last time {operations:?}"
                ),
            );
        }
    }
    for contender in [LIMIT, PROTOTYPE].into_iter().flat_map(named) {
        let program = contender.prepare()?;
        let mut process = Process::start(contender, &program, &Shape::cold(), &table.endpoint())?;
        let mut orders = Orders::default();
        for case in CASES.iter().filter(|case| COMPARED.contains(&case.name)) {
            let (theirs, _) = requests(&table, &mut process, &mut orders, case)?;
            let ours = ours.get(case.name).copied().unwrap_or_default();
            let (name, other) = (case.name, contender.name);
            judge(
                ours == theirs,
                format!("{name}: {ours} requests, {other} {theirs}"),
            );
        }
    }
    Ok((lines, all_hold))
}

/// The median number of requests that a batch takes, and those of the last batch by operation.
fn requests(
    table: &Table,
    process: &mut Process,
    orders: &mut Orders,
    case: &Case,
) -> Result<(u64, BTreeMap<String, u64>), ProcessError> {
    // What a process asks for before its first event belongs to no batch.
    process.wait_until_idle()?;
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
    Ok((requests[requests.len() / 2], operations))
}
