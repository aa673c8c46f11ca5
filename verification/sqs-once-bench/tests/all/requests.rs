//! The number of requests per batch: no more than a limit, and the same as the bare client and the prototype send.

use std::collections::BTreeMap;

use sqs_once_bench::contender::{Contender, LIMIT, OURS, PROTOTYPE};
use sqs_once_bench::machine;
use sqs_once_bench::process::{Orders, Process};
use sqs_once_bench::shape::Shape;
use sqs_once_bench::table::{LATENCY, Table};

/// A batch: its name, its duplicates, its new keys, the copies of each record in it, whether the process caches completed
/// keys, and the maximum number of requests.
type Case = (&'static str, usize, usize, usize, bool, u64);

const CASES: [Case; 9] = [
    ("1 new key", 0, 1, 1, false, 2),
    ("10 new keys", 0, 10, 1, false, 2),
    ("100 new keys", 0, 100, 1, false, 8),
    ("1000 new keys", 0, 1000, 1, false, 80),
    ("1 duplicate", 1, 0, 1, false, 1),
    ("100 duplicates", 100, 0, 1, false, 8),
    ("50 new keys, each twice", 0, 50, 2, false, 4),
    ("1 duplicate, cached", 1, 0, 1, true, 0),
    ("100 duplicates, cached", 100, 0, 1, true, 0),
];

/// The [`CASES`] that must take as many requests as the bare client and the prototype send.
const COMPARED: [&str; 3] = ["10 new keys", "100 new keys", "1000 new keys"];

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
    let table = Table::start(LATENCY).unwrap();
    let mut process = start(OURS, &Shape::cold(), &table);
    let mut remembering = start(OURS, &Shape::cached(), &table);
    let mut orders = Orders::default();
    let mut ours = BTreeMap::new();
    for case @ (name, .., cached, at_most) in CASES {
        let process = if cached {
            &mut remembering
        } else {
            &mut process
        };
        let (fewest, operations) = requests(&table, process, &mut orders, case);
        ours.insert(name, fewest);
        assert!(
            fewest <= at_most,
            "{name}: {fewest} requests, at most {at_most}; the last time {operations:?}"
        );
    }
    for contender in [LIMIT, PROTOTYPE] {
        let mut process = start(contender, &Shape::cold(), &table);
        let mut orders = Orders::default();
        for case in CASES
            .into_iter()
            .filter(|(name, ..)| COMPARED.contains(name))
        {
            let (theirs, _) = requests(&table, &mut process, &mut orders, case);
            assert_eq!(ours[case.0], theirs, "{} by {contender}", case.0);
        }
    }
}

/// The fewest requests that a batch takes, and the last batch's requests by operation.
fn requests(
    table: &Table,
    process: &mut Process,
    orders: &mut Orders,
    (_, duplicates, fresh, copies, _, at_most): Case,
) -> (u64, BTreeMap<String, u64>) {
    // Requests before the first event belong to no batch.
    process.wait_until_idle().unwrap();
    let (event, known) = orders.event(&[], duplicates);
    if duplicates > 0 {
        process.invoke(&event).unwrap();
    }
    let mut fewest = u64::MAX;
    let mut operations = BTreeMap::new();
    for _ in 0..TIMES {
        let before = table.counts();
        process
            .invoke(&orders.batch(&known, fresh, copies))
            .unwrap();
        process.wait_until_idle().unwrap();
        let counts = table.counts().since(&before);
        fewest = fewest.min(counts.total());
        operations = counts.requests;
        if fewest <= at_most {
            break;
        }
    }
    (fewest, operations)
}
