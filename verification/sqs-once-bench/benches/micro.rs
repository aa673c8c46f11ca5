//! Measures single steps for a batch of records: `cargo bench -p sqs-once-bench`.

use aws_lambda_events::event::sqs::SqsEvent;
use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::key::{Fingerprint, Namespace};
use sqs_once::testing::Event;
use sqs_once::{BusinessKey, Consumer, HandlerError, MemoryStore};
use sqs_once_bench::contract::{self, Order};
use tower_service::Service;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const RECORDS: [u64; 3] = [1, 100, 1000];

fn main() {
    divan::main();
}

/// Parses Lambda's event.
#[divan::bench(args = RECORDS)]
fn parse_event(bencher: Bencher<'_, '_>, records: u64) {
    let event = contract::event(0..records);
    let event = String::from_utf8(event).expect("it is text");
    bencher
        .counter(ItemsCount::new(records))
        .with_inputs(|| event.clone())
        .bench_values(Event::from_json);
}

/// Derives the item id from an order's number.
#[divan::bench]
fn hash_key(bencher: Bencher<'_, '_>) {
    let namespace = Namespace::new("bench").expect("it is a namespace");
    bencher.bench(|| {
        let key = BusinessKey::new(black_box("o-000000001234")).expect("it is a key");
        namespace.item_id(&key)
    });
}

/// Computes the fingerprint of an order.
#[divan::bench]
fn fingerprint(bencher: Bencher<'_, '_>) {
    let body = r#"{"order_id":"o-000000001234","customer_id":"c-234","amount_cents":1334,"currency":"EUR"}"#;
    bencher.bench(|| Fingerprint::from_body(black_box(body)));
}

/// Handles a batch with the memory store: scheduling, keys, handlers, answer.
#[divan::bench(args = RECORDS)]
fn batch(bencher: Bencher<'_, '_>, records: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let event = contract::event(0..records);
    bencher
        .counter(ItemsCount::new(records))
        .with_inputs(|| {
            let event: SqsEvent = serde_json::from_slice(&event).expect("it is an event");
            let mut context = Context::default();
            context.deadline = contract::now_ms() + 60_000;
            let consumer = consumer();
            runtime.block_on(consumer.init()).expect("it starts");
            (consumer, LambdaEvent::new(event, context))
        })
        .bench_local_values(|(mut consumer, event)| {
            runtime.block_on(async { consumer.call(event).await.expect("it answers") })
        });
}

fn consumer() -> Consumer {
    sqs_once::consumer::<Order>()
        .key(|order: &Order| order.order_id.clone())
        .namespace("bench")
        .store(MemoryStore::new())
        .handler(async |_: Order| Ok::<(), HandlerError>(()))
}
