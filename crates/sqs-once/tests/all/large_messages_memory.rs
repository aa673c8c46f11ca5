//! The memory that bodies from S3 may take.

use futures_util::FutureExt;
use serde_json::json;
use sqs_once::consumer::Keyed;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Batch, Consumer};
use tokio::time::sleep;

use crate::large_messages::{BUCKET, pointer, settings};
use crate::support::process::passes;
use crate::support::s3::S3;
use crate::support::{AtOnce, Order, SECOND, orders};

const MIB: usize = 1024 * 1024;

/// A body of this many bytes.
fn body(id: &str, bytes: usize) -> String {
    let frame = json!({ "id": id, "rest": "" }).to_string().len();
    json!({ "id": id, "rest": "x".repeat(bytes - frame) }).to_string()
}

/// An S3 with these bodies, and an event with a pointer to each.
fn stored(bodies: impl IntoIterator<Item = String>) -> (S3, Event) {
    let s3 = S3::default();
    let records = bodies.into_iter().enumerate().map(|(at, body)| {
        s3.put(&format!("large-messages/{at}"), body);
        Record::text(pointer(BUCKET, &at.to_string()))
    });
    let event = Event::new(records.collect::<Vec<_>>());
    (s3, event)
}

/// The process's largest memory so far, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().trim().parse::<usize>().unwrap() / 1024
}

/// A consumer that reads bodies of up to `max_size` bytes into `max_memory`, and a bench for it.
fn limited(
    s3: &S3,
    [max_size, max_memory]: [usize; 2],
    handler: impl FnOnce(Consumer<Keyed<Order, fn(&Order) -> String>>) -> Consumer,
) -> Bench {
    let settings = settings(s3).max_size(max_size).max_memory(max_memory);
    let orders = orders().large_messages(settings).namespace("orders");
    Bench::new(handler(orders)).timeout(120 * SECOND)
}

/// Only in a process of its own.
#[tokio::test(start_paused = true)]
async fn in_a_process_that_measures_its_memory() {
    let Ok(distinct) = std::env::var("DISTINCT") else {
        return;
    };
    let distinct: usize = distinct.parse().unwrap();
    let (s3, _) = stored((0..distinct).map(|at| body(&format!("o-{at}"), MIB)));
    let bench = limited(&s3, [MIB, 8 * MIB], |orders| {
        let orders = orders.handler(async |_: Order| sleep(SECOND).await);
        orders.on_duplicate(async |_| Ok(()))
    });
    let records = (0..100).map(|at| Record::text(pointer(BUCKET, &(at % distinct).to_string())));
    let event = Event::new(records);
    let before = peak();
    bench.run(event).await.assert_all_acknowledged();
    let grown = peak() - before;
    // The stand-in's answers and the allocator take some more. 100 bodies would take 100 MiB.
    assert!(grown < 60, "{grown} MiB");
}

#[test]
fn the_bodies_of_a_batch_take_no_more_memory_than_allowed() {
    for distinct in ["1", "20"] {
        let this = "in_a_process_that_measures_its_memory";
        passes(module_path!(), this, &[("DISTINCT", distinct)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_memory_until_others_have_ended() {
    let (s3, event) = stored((0..30).map(|at| format!(r#"{{"id":"o-{at}"}}"#)));
    let at_once = AtOnce::default();
    let bench = limited(&s3, [1000, 2000], |orders| {
        let counted = at_once.clone();
        orders.handler(move |_: Order| {
            let counted = counted.enter();
            sleep(SECOND).map(|()| drop(counted))
        })
    });
    bench.run(event).await.assert_all_acknowledged();
    let said = "bodies that are here count as large as they are";
    assert_eq!(at_once.most(), 10, "{said}");
}

#[tokio::test(start_paused = true)]
async fn bodies_that_hooks_hold_count_until_the_hooks_have_ended() {
    let (s3, event) = stored((0..6).map(|at| body(&format!("bad-{at}"), 900)));
    let handled = AtOnce::default();
    let bench = limited(&s3, [1000, 2000], |orders| {
        let counted = handled.clone();
        let orders = orders.handler(async |order: Order| order.obey().await);
        orders.on_failure(move |end| {
            let counted = (counted.enter(), end);
            sleep(SECOND).map(|()| {
                drop(counted);
                Ok(())
            })
        })
    });
    let answer = bench.run(event).await;
    assert_eq!((answer.retried().len(), handled.most()), (6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_returns_the_records_for_whose_bodies_there_is_no_memory() {
    let (s3, event) = stored((0..30).map(|at| body(&format!("o-{at:02}"), 100)));
    let bench = limited(&s3, [500, 2000], |orders| {
        orders.batch_handler(async |orders: Batch<Order>| orders.all_succeeded())
    });
    let answer = bench.run(event).await;
    // A further body could have 500 bytes.
    assert_eq!(answer.retried().len(), 30 - 1 - (2000 - 500) / 100);
    for id in answer.retried() {
        answer.assert_reason(id, "leave no memory for its own body");
    }
}
