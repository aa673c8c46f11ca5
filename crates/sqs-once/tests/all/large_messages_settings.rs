//! Settings of messages whose body is in S3: the objects of each queue, and the memory that bodies may take.

use std::time::Duration;

use serde_json::json;
use sqs_once::body::{AsyncDecode, LargeMessages};
use sqs_once::consumer::Runnable;
use sqs_once::extract::Message;
use sqs_once::store::MemoryStore;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Batch, Consumer, Handler, HandlerError, Router};
use tokio::time::{Instant, sleep};

use crate::large_messages::{BUCKET, QUEUE, REFUNDS, noting, pointer, settings, with_order};
use crate::support::process::passes;
use crate::support::s3::S3;
use crate::support::{AtOnce, Log, Notes, Order, SECOND, assert_contains, codes, orders};

const VARIABLE: &str = "SQS_ONCE_LARGE_MESSAGES";

/// A variable applies to all tests of a process, so the test runs other processes.
#[tokio::test(start_paused = true)]
async fn the_variable_names_the_objects_of_each_queue() {
    let Ok(variable) = std::env::var(VARIABLE) else {
        let this = "the_variable_names_the_objects_of_each_queue";
        let both = format!("{QUEUE}=large-messages/orders/*,\n {REFUNDS}=large-messages/refunds/*");
        let nested = format!("{QUEUE}=large-messages/*,{REFUNDS}=large-messages/refunds/*");
        let no_arn = "orders=large-messages/orders/*";
        for text in [&both, &nested, "large-messages", no_arn] {
            passes(module_path!(), this, &[(VARIABLE, text)]);
        }
        return;
    };
    let s3 = with_order("refunds/1");
    let from_env = LargeMessages::from_env().client(s3.client());
    if !variable.contains("large-messages/orders/*") || !variable.contains(REFUNDS) {
        let why = match variable.contains(REFUNDS) {
            true => format!("{VARIABLE} has the objects \"large-messages/*\" for the queue"),
            false => format!("{VARIABLE} has the entry {variable:?}: expected the ARN of a queue"),
        };
        return assert_contains!(refusal(from_env).await, &why);
    }
    let bench = Bench::new(noting(from_env, &Notes::default()));
    let event = Event::new([Record::text(pointer(BUCKET, "refunds/1"))]);
    bench.run(&event).await.assert_terminal("m-1");
    let of_refunds = Event::from_json(event.as_json().replace(QUEUE, REFUNDS));
    bench.run(of_refunds).await.assert_processed("m-1");
}

async fn start(settings: LargeMessages) -> Result<(), String> {
    let consumer = noting(settings, &Notes::default()).store(MemoryStore::new());
    consumer.init().await.map_err(|error| error.to_string())
}

async fn refusal(settings: LargeMessages) -> String {
    start(settings).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_keep_the_function_from_starting() {
    let s3 = S3::default();
    let from_env = LargeMessages::from_env();
    let unset = "SQS_ONCE_LARGE_MESSAGES is not set";
    for (settings, why) in [
        (settings(&s3).max_size(0), "`max_size` is 0"),
        (from_env.clone().client(s3.client()), unset),
        (from_env.and_queue(QUEUE, "large-messages/*"), unset),
    ] {
        assert_contains!(refusal(settings).await, why);
    }
    let topic = "arn:aws:sns:eu-central-1:123456789012:orders";
    for (queue, objects) in [
        ("orders", "large-messages/*"),
        ("arn:aws:sqs:eu-central-1:123456789012:", "large-messages/*"),
        (topic, "large-messages/*"),
        (QUEUE, ""),
        (QUEUE, "large-messages"),
        (QUEUE, "large-messages/orders/"),
        (QUEUE, "large-messages/orders*"),
        (QUEUE, "large-messages/*/orders/*"),
        (QUEUE, "large-messages/a/../*"),
        (QUEUE, "large messages/*"),
        (QUEUE, "/orders/*"),
        (QUEUE, "arn:aws:s3:::large-messages/*"),
    ] {
        let settings = LargeMessages::for_queue(queue, objects).client(s3.client());
        let why = format!("the setting `large_messages` has the objects {objects:?}");
        assert_contains!(refusal(settings).await, &why);
    }
    let point = "arn:aws:s3:eu-central-1:123456789012:accesspoint/orders/orders/*";
    let settings = LargeMessages::for_queue(QUEUE, point);
    start(settings.client(s3.client())).await.unwrap();
}

#[tokio::test]
async fn a_queue_whose_prefix_contains_anothers_keeps_the_function_from_starting() {
    let s3 = S3::default();
    let of_two = |one: (&str, &str), other: (&str, &str)| {
        let settings = LargeMessages::for_queue(one.0, one.1).and_queue(other.0, other.1);
        settings.client(s3.client())
    };
    let nested = ("acme/orders/*", "acme/orders/refunds/*");
    for (outer, inner) in [("acme/*", "acme/refunds/*"), nested] {
        for [of_outer, of_inner] in [[QUEUE, REFUNDS], [REFUNDS, QUEUE]] {
            let (outer, inner) = ((of_outer, outer), (of_inner, inner));
            let why = format!(
                "the setting `large_messages` has the objects {:?} for the queue {:?}, which contain {:?} of the queue {:?}",
                outer.1, outer.0, inner.1, inner.0
            );
            for settings in [of_two(outer, inner), of_two(inner, outer)] {
                let error = refusal(settings).await;
                assert_contains!(error, &why, "expected a prefix for each queue");
            }
        }
    }
    for (orders, refunds) in [
        ("acme/orders/*", "acme/refunds/*"),
        ("acme/orders/*", "acme/orders-2/*"),
        ("acme/*", "acme/*"),
        ("acme/*", "acme-2/refunds/*"),
    ] {
        let settings = of_two((QUEUE, orders), (REFUNDS, refunds));
        start(settings).await.unwrap();
    }
    let settings = of_two((QUEUE, "acme/*"), (QUEUE, "acme/orders/*"));
    start(settings).await.unwrap();
}

const MIB: usize = 1024 * 1024;

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
fn limited(s3: &S3, [max_size, max_memory]: [usize; 2], handler: impl Runnable) -> Bench {
    let settings = settings(s3).max_size(max_size).max_memory(max_memory);
    let consumer = Consumer::new(handler).large_messages(settings);
    Bench::new(consumer).timeout(120 * SECOND)
}

/// In a process of its own.
#[tokio::test(start_paused = true)]
async fn the_bodies_of_a_batch_take_no_more_memory_than_allowed() {
    let Ok(distinct) = std::env::var("DISTINCT") else {
        for distinct in ["1", "20"] {
            let this = "the_bodies_of_a_batch_take_no_more_memory_than_allowed";
            passes(module_path!(), this, &[("DISTINCT", distinct)]);
        }
        return;
    };
    let distinct: usize = distinct.parse().unwrap();
    let (s3, _) = stored((0..distinct).map(|at| body(&format!("o-{at}"), MIB)));
    let handler = orders().call(async |_: Order| sleep(SECOND).await);
    let handler = handler.on_done(async |_| Ok(()));
    let bench = limited(&s3, [MIB, 8 * MIB], handler);
    let records = (0..100).map(|at| Record::text(pointer(BUCKET, &(at % distinct).to_string())));
    let event = Event::new(records);
    let before = peak();
    bench.run(event).await.assert_all_acknowledged();
    let grown = peak() - before;
    // The stand-in's answers and the allocator take some more. 100 bodies would take 100 MiB.
    assert!(grown < 60, "{grown} MiB");
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_memory_until_others_have_ended() {
    let (s3, event) = stored((0..30).map(|at| format!(r#"{{"id":"o-{at}"}}"#)));
    let at_once = AtOnce::default();
    let counted = at_once.clone();
    let handler = orders().call(move |_: Order| counted.during(sleep(SECOND)));
    let bench = limited(&s3, [1000, 2000], handler);
    bench.run(event).await.assert_all_acknowledged();
    let said = "bodies that are here count as large as they are";
    assert_eq!(at_once.most(), 10, "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_finds_no_memory_until_the_deadline_says_so() {
    let (s3, event) = stored((0..3).map(|at| body(&format!("o-{at}"), 900)));
    let handler = orders().call(async |_: Order| sleep(Duration::MAX).await);
    let bench = limited(&s3, [1000, 1000], handler.on_failure(async |_| Ok(())));
    let log = Log::capture();
    let answer = bench.run(event).await;
    let expected = "failed: deadline, failed: no-room, failed: no-room";
    assert_eq!(codes(&log.take("sqs_once::record")), expected);
    assert_eq!(answer.retried().len(), 3);
}

/// Fetches an order from elsewhere.
struct Elsewhere;

impl AsyncDecode<Order> for Elsewhere {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        sleep(SECOND).await;
        Ok(serde_json::from_str(body)?)
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_whose_bodies_fill_the_memory_holds_up_no_other() {
    let (s3, _) = stored((0..15).map(|at| body(&format!("o-{at}"), 900)));
    let slow = orders().call(async |_: Order| sleep(5 * SECOND).await);
    let slow = slow.on_done(async |_| Ok(())).namespace("slow");
    let (began, notes) = Notes::pair();
    let fast = Handler::decode(Elsewhere).key(|order: &Order| order.id.clone());
    let fast = fast.call(move |_: Order| {
        notes.add(Instant::now());
        async {}
    });
    let routes = Router::by_attribute("type").route("slow", slow);
    let routes = routes.route("fast", fast.namespace("fast"));
    let slow = (0..15).map(|at| pointer(BUCKET, &at.to_string()));
    let slow = slow.map(|pointer| Record::text(pointer).attribute("type", "slow"));
    let fast = Record::text(r#"{"id":"fast"}"#).attribute("type", "fast");
    let start = Instant::now();
    let bench = limited(&s3, [1000, 1000], routes);
    let answer = bench.run(Event::new(slow.chain([fast]))).await;
    answer.assert_all_acknowledged();
    assert_eq!(began.all(), [start + SECOND]);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_hooks_hold_count_until_the_hooks_have_ended() {
    let (s3, event) = stored((0..6).map(|at| body(&format!("bad-{at}"), 900)));
    let handled = AtOnce::default();
    let counted = handled.clone();
    let handler = orders().call(async |order: Order| order.obey().await);
    let handler = handler.on_failure(move |end| {
        counted.during(async move {
            let _held = end;
            sleep(SECOND).await;
            Ok(())
        })
    });
    let bench = limited(&s3, [1000, 2000], handler);
    let answer = bench.run(event).await;
    assert_eq!((answer.retried().len(), handled.most()), (6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_returns_the_records_for_whose_bodies_there_is_no_memory() {
    let (s3, event) = stored((0..30).map(|at| body(&format!("o-{at:02}"), 100)));
    let handler = orders().call_batch(async |orders: Batch<Order>| orders.all_succeeded());
    let bench = limited(&s3, [500, 2000], handler);
    let log = Log::capture();
    let answer = bench.run(event).await;
    let lines = log.take("sqs_once::record");
    assert_contains!(codes(&lines), "failed: no-room");
    // A further body could have 500 bytes.
    assert_eq!(answer.retried().len(), 30 - 1 - (2000 - 500) / 100);
    for id in answer.retried() {
        answer.assert_reason(id, "leave no memory for its own body");
    }
}
