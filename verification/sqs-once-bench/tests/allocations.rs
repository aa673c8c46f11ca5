//! The number of allocations per record, from Lambda's event to its answer, in the code that `run` runs. The count is
//! exact: one thread, the memory store, and paused clocks.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::ops::Range;

use sqs_once::testing::{Bench, Event};
use sqs_once::{Handler, HandlerError};
use sqs_once_bench::contract::{self, Order};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The maximum number of allocations per record. Lower it when the count decreases.
const AT_MOST: f64 = 37.0;
/// The part of them that reading the event may cost: the id, the body, two for the other texts, and one that is freed
/// after the record is read.
const AT_MOST_TO_READ: f64 = 5.1;

fn consumer() -> Handler {
    Handler::json::<Order>()
        .key(|order: &Order| order.order_id.clone())
        .call(async |_: Order| Ok::<(), HandlerError>(()))
        .namespace("bench")
}

/// Lambda's event as text.
fn json(orders: Range<u64>) -> String {
    String::from_utf8(contract::event(orders)).unwrap()
}

fn allocations(work: impl FnOnce()) -> u64 {
    let before = dhat::HeapStats::get().total_blocks;
    work();
    dhat::HeapStats::get().total_blocks - before
}

/// Allocations for reading an event with this many records.
fn of_reading(records: u64) -> u64 {
    let json = json(0..records);
    allocations(|| drop(Event::from_json(json)))
}

/// Allocations for reading, handling and answering an event, in a process that has handled such an event before.
fn of_batch(records: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Real time would sometimes send a group of completions early, which costs another request.
        .start_paused(true)
        .build()
        .unwrap();
    let bench = Bench::new(consumer());
    let handle = |event: &Event| {
        let answer = runtime.block_on(bench.run(event));
        answer.assert_all_acknowledged();
    };
    handle(&Event::from_json(json(0..records)));
    let event = Event::from_json(json(records..2 * records));
    allocations(|| handle(&event))
}

/// The allocations that each record adds.
fn per_record(of: impl Fn(u64) -> u64) -> f64 {
    let (small, large) = (of(100), of(1100));
    assert_eq!(of(100), small);
    (large - small) as f64 / 1000.0
}

/// A single test without the test harness, whose own thread also allocates: the count covers the whole process.
fn main() {
    a_record_costs_few_allocations_and_always_as_many();
}

fn a_record_costs_few_allocations_and_always_as_many() {
    // With DHAT_HEAP=1 it writes `dhat-heap.json`: every allocation, by its call site.
    let _profiler = match std::env::var_os("DHAT_HEAP") {
        Some(_) => dhat::Profiler::builder().trim_backtraces(Some(30)).build(),
        None => dhat::Profiler::builder().testing().build(),
    };
    let (reading, batch) = (per_record(of_reading), per_record(of_batch));
    assert!(
        reading <= AT_MOST_TO_READ,
        "{reading} allocations to read a record, at most {AT_MOST_TO_READ}"
    );
    assert!(
        batch <= AT_MOST,
        "{batch} allocations a record, at most {AT_MOST}"
    );
}
