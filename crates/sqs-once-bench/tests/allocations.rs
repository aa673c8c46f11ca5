//! How many allocations a record costs, from Lambda's event to its answer. The count is exact: one
//! thread, the memory store, a clock that stands still.

#![allow(clippy::unwrap_used, reason = "a test")]

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::{Consumer, HandlerError, MemoryStore};
use sqs_once_bench::contract::{self, Order};
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The most allocations that a record may cost. Lower it when the count sinks.
const AT_MOST: f64 = 48.0;

fn consumer() -> Consumer {
    sqs_once::consumer::<Order>()
        .key(|order: &Order| order.order_id.clone())
        .namespace("bench")
        .store(MemoryStore::new())
        .handler(async |_: Order| Ok::<(), HandlerError>(()))
}

/// How many allocations a batch takes, as the process does it: parse, handle, answer.
async fn allocations(consumer: &mut Consumer, event: &[u8]) -> u64 {
    let before = dhat::HeapStats::get().total_blocks;
    let event: SqsEvent = serde_json::from_slice(event).unwrap();
    let mut context = Context::default();
    context.deadline = contract::now_ms() + 60_000;
    let response = consumer
        .call(LambdaEvent::new(event, context))
        .await
        .unwrap();
    assert!(response.batch_item_failures.is_empty());
    drop(serde_json::to_vec(&response).unwrap());
    dhat::HeapStats::get().total_blocks - before
}

/// The same for a batch of `records` in a process that has handled such a batch before.
fn of_batch(records: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut consumer = consumer();
        allocations(&mut consumer, &contract::event(0..records)).await;
        allocations(&mut consumer, &contract::event(records..2 * records)).await
    })
}

/// One test, because the count is the process's.
#[test]
fn a_record_costs_few_allocations_and_always_as_many() {
    // With DHAT_HEAP=1 it writes `dhat-heap.json`: every allocation, by its call site.
    let _profiler = match std::env::var_os("DHAT_HEAP") {
        Some(_) => dhat::Profiler::builder().trim_backtraces(Some(30)).build(),
        None => dhat::Profiler::builder().testing().build(),
    };
    let (small, large) = (of_batch(100), of_batch(1100));
    assert_eq!(of_batch(100), small);
    let per_record = (large - small) as f64 / 1000.0;
    assert!(
        per_record <= AT_MOST,
        "{per_record} allocations a record, at most {AT_MOST}"
    );
}
