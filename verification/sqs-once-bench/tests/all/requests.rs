//! The number of requests per batch: no more than a limit, and the same as the bare client and the prototype send.

use std::collections::BTreeMap;
use std::time::Duration;

use sqs_once_bench::contender::{Contender, LIMIT, OURS, PROTOTYPE};
use sqs_once_bench::machine;
use sqs_once_bench::process::{Orders, Process};
use sqs_once_bench::shape::Shape;
use sqs_once_bench::table::{Latency, Table};

/// A batch, and the maximum number of its requests.
struct Case {
    name: &'static str,
    duplicates: usize,
    fresh: usize,
    /// The number of copies of each record in the batch.
    copies: usize,
    /// Whether the process caches completed keys.
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

/// The [`CASES`] that must take as many requests as the bare client and the prototype send.
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

/// The maximum number of attempts per batch; the fewest requests count. On a busy machine a completion may miss its
/// group and be sent alone.
const TIMES: usize = 50;

/// Starts the contender with this name.
fn start(name: &str, shape: &Shape, table: &Table) -> Process {
    let contenders = Contender::all();
    let contender = contenders.iter().find(|one| one.name == name).unwrap();
    // Cargo builds the contender with the tests.
    let program = contender.prepare().unwrap();
    Process::start(contender, &program, shape, &table.endpoint()).unwrap()
}

#[test]
fn a_batch_takes_no_more_requests_than_the_limit() {
    if !machine::IS_SUPPORTED {
        return;
    }
    let table = Table::start(Latency {
        request: Duration::from_millis(2),
        statement: Duration::ZERO,
    })
    .unwrap();
    let mut process = start(OURS, &Shape::cold(), &table);
    let mut remembering = start(OURS, &Shape::cached(), &table);
    let mut orders = Orders::default();
    let mut ours = BTreeMap::new();
    for case in &CASES {
        let process = if case.cached {
            &mut remembering
        } else {
            &mut process
        };
        let (fewest, operations) = requests(&table, process, &mut orders, case);
        ours.insert(case.name, fewest);
        assert!(
            fewest <= case.at_most,
            "{}: {fewest} requests, at most {}; the last time {operations:?}",
            case.name,
            case.at_most
        );
    }
    for name in [LIMIT, PROTOTYPE] {
        let mut process = start(name, &Shape::cold(), &table);
        let mut orders = Orders::default();
        for case in CASES.iter().filter(|case| COMPARED.contains(&case.name)) {
            let (theirs, _) = requests(&table, &mut process, &mut orders, case);
            assert_eq!(ours[case.name], theirs, "{} by {name}", case.name);
        }
    }
}

/// The fewest requests that a batch takes, and the last batch's requests by operation.
fn requests(
    table: &Table,
    process: &mut Process,
    orders: &mut Orders,
    case: &Case,
) -> (u64, BTreeMap<String, u64>) {
    // Requests before the first event belong to no batch.
    process.wait_until_idle().unwrap();
    let (event, known) = orders.event(&[], case.duplicates);
    if case.duplicates > 0 {
        process.invoke(&event).unwrap();
    }
    let mut fewest = u64::MAX;
    let mut operations = BTreeMap::new();
    for _ in 0..TIMES {
        let before = table.counts();
        process
            .invoke(&orders.batch(&known, case.fresh, case.copies))
            .unwrap();
        process.wait_until_idle().unwrap();
        let counts = table.counts().since(&before);
        fewest = fewest.min(counts.total());
        operations = counts.requests;
        if fewest <= case.at_most {
            break;
        }
    }
    (fewest, operations)
}
