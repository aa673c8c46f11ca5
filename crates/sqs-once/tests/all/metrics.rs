//! The metrics of a batch on stdout.

use std::future::ready;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::executions::{MACHINE, machine};
use crate::support::process::{Process, is_logging};
use crate::support::sqs::Sqs;
use crate::support::{DLQ, TestStore, invoke, lapsed, pay, set, values};
use lambda_runtime::Context;
use serde_json::{Value, json};
use sqs_once::key::{ItemId, Namespace};
use sqs_once::policy::{Dependency, PayloadMismatch, UnknownOutcome};
use sqs_once::store::{Claim, Item, MemoryStore, Owner, Status, StoreError, StoreErrorKind};
use sqs_once::telemetry::{Metrics, Telemetry};
use sqs_once::testing::{Event, Record, TestClock};
use sqs_once::unstable::breaker::item_id;
use sqs_once::{BusinessKey, Consumer, ResultExt, Router, Writes, spawn_blocking};
use sqs_once_local::LocalExecutions;

const RUN: &str = "in_a_process_that_handles_batches";
const RUNS: &str = "TEST_RUNS";
const EMF: (&str, &str) = ("SQS_ONCE_METRICS", "emf");
const LAMBDA: (&str, &str) = ("AWS_LAMBDA_FUNCTION_NAME", "payments-function");

async fn handle(consumer: &Consumer, records: Vec<Record>) {
    invoke(consumer, &Event::new(records), Context::default()).await;
}

#[tokio::test]
async fn in_a_process_that_handles_batches() {
    if !is_logging().await {
        return;
    }
    let order = |id: &str, does: &str| Record::json(&json!({ "id": id, "does": does }));
    let handler = || values().call(pay).namespace("payments");
    let off = Telemetry::new().metrics(Metrics::Off);
    let run = std::env::var(RUNS).unwrap_or_default();
    let off = Some(off).filter(|_| run == "OFF_BY_CODE");
    let paying = Consumer::new(handler()).store(MemoryStore::new());
    let paying = set(paying, off, Consumer::telemetry);
    let alone: Option<(Consumer, &[&str])> = match &*run {
        "OVERRUN" => {
            let (tell, told) = channel();
            let told = Arc::new(Mutex::new(told));
            let overrunning = values().call(move |_: Value| {
                let told = Arc::clone(&told);
                drop(spawn_blocking(move || told.lock().unwrap().recv()));
                async {}
            });
            let overrunning = overrunning.attempt_timeout(Duration::from_millis(50));
            let overrunning = overrunning.on_failure(move |_| {
                tell.send(()).unwrap();
                async { Ok(()) }
            });
            let overrunning = Consumer::new(overrunning.namespace("payments")).concurrency(1);
            Some((overrunning.store(MemoryStore::new()), &["pay"; 3]))
        }
        "UNKNOWN" => {
            let store = MemoryStore::new();
            let key = BusinessKey::new("o-1").unwrap();
            store.put(lapsed(Namespace::new("payments").unwrap().item_id(&key)));
            let kept = handler().unknown_outcome(UnknownOutcome::dead_letter());
            let kept = Consumer::new(kept).store(store);
            Some((kept, &["panic", "pay", "fail", "refuse"]))
        }
        "EXECUTIONS" => {
            let aws: &_ = Box::leak(Box::new(LocalExecutions::start(0).await.unwrap()));
            let starting = |mismatch| {
                let target = machine(MACHINE).on(aws);
                let starting = values().call(move |order: Value| ready(target.start(&order)));
                let starting = starting.namespace("payments").payload_mismatch(mismatch);
                Consumer::new(starting).store(MemoryStore::new())
            };
            let first = starting(PayloadMismatch::Terminal);
            handle(&first, vec![order("o-0", "pay")]).await;
            // In a table that has lost the key, it starts with another input.
            let lost = starting(PayloadMismatch::Terminal);
            handle(&lost, vec![order("o-0", "fail")]).await;
            Some((starting(PayloadMismatch::Retry), &["fail"]))
        }
        "TAKEN" => {
            let store = MemoryStore::new();
            let items = store.clone();
            let overtaken = values().call(move |_: Value, item: ItemId| {
                // Another worker has claimed the key meanwhile.
                let mut item = Item::new(item.clone(), Status::InProgress);
                item.owner = Some(Owner::from_bits(1));
                items.put(item);
                async {}
            });
            let overtaken = Consumer::new(overtaken.namespace("payments"));
            Some((overtaken.store(store), &["pay"]))
        }
        "PROBED" => {
            let clock = TestClock::new();
            let is_down = Arc::new(AtomicBool::new(true));
            let down = is_down.clone();
            let calling = values().call(move |_: Value| {
                let is_down = down.load(Ordering::SeqCst);
                async move {
                    match is_down {
                        true => Err("no answer").unavailable("payments"),
                        false => Ok(()),
                    }
                }
            });
            let dependency = Dependency::new("payments").failures(1);
            let calling = Consumer::new(calling.namespace("payments").depends_on(dependency));
            let calling = calling.store(MemoryStore::new()).clock(clock.clone());
            let calling = calling.queue(Sqs::default().queue());
            for (batch, down) in [true, true, false, false, false].into_iter().enumerate() {
                is_down.store(down, Ordering::SeqCst);
                handle(&calling, vec![order(&format!("o-{batch}"), "pay")]).await;
                let pause = if batch == 3 { 1 } else { 31 };
                clock.advance(Duration::from_secs(pause));
            }
            std::process::exit(0);
        }
        "ORDER" => {
            let unread = TestStore::default();
            unread.always_fails("read", StoreErrorKind::AccessDenied);
            let queue = Sqs::default()
                .queue()
                .dead_letter_queue(format!("{DLQ}.fifo"));
            let queue = queue.keep_order(NonZeroU32::MIN);
            let keeping = Consumer::new(handler()).store(unread).queue(queue);
            handle(&keeping, vec![order("o-0", "pay").fifo("a")]).await;
            std::process::exit(0);
        }
        "OPENING" => {
            // The first copy of a claim wrote it, the store does not answer, or another worker's clock is ahead.
            let [repeated, silent, closed] = [(); 3].map(|()| TestStore::default());
            let items = repeated.inner.clone();
            let repeated = repeated.claims_take(move |claims| {
                let breakers = claims
                    .iter()
                    .filter(|claim| claim.id == item_id("payments"));
                breakers.for_each(|claim| items.put(claim.write(None)));
                Duration::ZERO
            });
            let lost = || StoreError::new(StoreErrorKind::Unanswered, "lost");
            let is_breakers = |claim: &Claim| claim.id == item_id("payments");
            let silent = silent.refusing_claims(move |claim| is_breakers(claim).then(lost));
            closed
                .inner
                .put(Item::new(item_id("payments"), Status::Completed));
            let down = |store| {
                let down = async |_: Value| Err::<(), _>("no answer").unavailable("payments");
                let down = values().call(down).namespace("payments");
                let down = down.depends_on(Dependency::new("payments").failures(1));
                let down = Consumer::new(down).store(store);
                down.queue(Sqs::default().queue())
            };
            for store in [repeated, silent] {
                handle(&down(store), vec![order("o-1", "pay")]).await;
            }
            Some((down(closed), &["pay"]))
        }
        "WRITES" => {
            let writing = values().call(async |_: Value| Writes::new());
            let writing = Consumer::new(writing.namespace("payments"));
            Some((writing.store(TestStore::default()), &["pay"]))
        }
        _ => None,
    };
    if let Some((consumer, orders)) = alone {
        let orders = orders.iter().enumerate();
        let orders = orders.map(|(at, does)| order(&format!("o-{at}"), does));
        handle(&consumer, orders.collect()).await;
        std::process::exit(0);
    }
    let first = vec![
        order("o-1", "pay"),
        order("o-2", "fail").receive_count(3),
        order("o-3", "refuse"),
        order("o-1", "pay"),
        Record::text("no JSON"),
    ];
    handle(&paying, first).await;
    handle(&paying, vec![order("o-1", "something else")]).await;
    let denied = || StoreError::new(StoreErrorKind::AccessDenied, "not allowed");
    let denying = TestStore::default().refusing_claims(move |_| Some(denied()));
    let denying = Consumer::new(handler()).store(denying);
    handle(&denying, vec![order("o-4", "pay")]).await;
    if run == "SILENT" {
        let unsettled = TestStore::default().settlements_take(|_| Duration::MAX);
        tokio::time::pause();
        for silent in [TestStore::default().silent(), unsettled] {
            let silent = Consumer::new(handler()).store(silent);
            handle(&silent, vec![order("o-6", "pay")]).await;
        }
        tokio::time::resume();
    }
    let store = MemoryStore::new();
    let items = store.clone();
    let overtaken = values().call(move |_: Value, item: ItemId| {
        // Another worker completes the key meanwhile.
        items.put(Item::new(item.clone(), Status::Completed));
        async {}
    });
    let overtaken = Consumer::new(overtaken.namespace("payments")).store(store);
    handle(&overtaken, vec![order("o-5", "pay")]).await;
    let many = (0..250).map(|number| order(&format!("many-{number}"), "pay"));
    handle(&paying, many.collect()).await;
    let down = async |_: Value| Err::<(), _>("no answer").unavailable("payments");
    let down = values().call(down).namespace("payments");
    let down = Consumer::new(down.depends_on("payments")).concurrency(1);
    let down = down.store(MemoryStore::new());
    let down = down.queue(Sqs::default().queue());
    let orders = (0..5).map(|number| order(&format!("down-{number}"), "pay"));
    handle(&down, orders.collect()).await;
    if run != "ROUTED" {
        std::process::exit(0);
    }
    let group = (0..3).map(|number| order(&format!("group-{number}"), "pay").fifo("a"));
    handle(&down, group.collect()).await;
    let routes = Router::by_attribute("type")
        .route("charge", handler())
        .route("idle", handler().namespace("idle"));
    let routing = Consumer::new(routes).store(MemoryStore::new());
    let charge = |id| order(id, "pay").attribute("type", "charge");
    let records = vec![charge("r-1"), order("r-2", "pay"), charge("r-3")];
    handle(&routing, records).await;
    std::process::exit(0);
}

fn documents(variables: &[(&str, &str)]) -> Vec<Value> {
    let lines = Process::start(module_path!(), RUN, variables).rest();
    let documents = lines.iter().filter(|line| line.contains("\"_aws\""));
    let documents = documents.map(|line| serde_json::from_str(line).unwrap());
    documents.collect()
}

/// Checks a document against CloudWatch's specification.
fn check(document: &Value) {
    let about = &document["_aws"];
    let milliseconds = about["Timestamp"].as_u64().unwrap();
    assert!(milliseconds > 1_600_000_000_000, "{about}");
    for directive in about["CloudWatchMetrics"].as_array().unwrap() {
        assert!((1..=1024).contains(&directive["Namespace"].as_str().unwrap().len()));
        let dimensions = directive["Dimensions"].as_array().unwrap();
        for name in dimensions.iter().flat_map(|set| set.as_array().unwrap()) {
            let value = document[name.as_str().unwrap()].as_str().unwrap();
            assert!((1..=1024).contains(&value.len()), "{document}");
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()));
        for metric in metrics {
            let unit = metric["Unit"].as_str().unwrap();
            assert!(["Count", "Milliseconds"].contains(&unit));
            match &document[metric["Name"].as_str().unwrap()] {
                Value::Array(values) => {
                    assert!((1..=100).contains(&values.len()), "{} values", values.len());
                    assert!(values.iter().all(Value::is_number), "{metric}");
                }
                value => assert!(value.is_number(), "{metric}: {value}"),
            }
        }
    }
}

#[test]
fn a_route_is_a_dimension_of_the_metrics_of_its_records() {
    let documents = documents(&[EMF, (RUNS, "ROUTED")]);
    let [.., deferred, charge, batch] = &documents[..] else {
        panic!("{documents:?}");
    };
    assert_eq!(deferred["Deferred"], 3);
    let dimensions =
        |document: &Value| document["_aws"]["CloudWatchMetrics"][0]["Dimensions"].clone();
    let of_route = json!([["service"], ["service", "route"]]);
    assert_eq!(dimensions(charge), of_route);
    assert_eq!(charge["route"], "charge");
    assert_eq!([&charge["RecordsReceived"], &charge["Processed"]], [2, 2]);
    assert_eq!(charge["HandlerDuration"].as_array().unwrap().len(), 2);
    assert!(charge.get("StoreRequests").is_none());
    // The record that no route takes, and what the whole batch has.
    assert_eq!(dimensions(batch), json!([["service"]]));
    assert_eq!([&batch["RecordsReceived"], &batch["Terminal"]], [1, 1]);
    assert_eq!(batch["StoreRequests"], 2);
}

#[test]
fn another_input_of_an_execution_counts_as_another_payload() {
    let documents = documents(&[EMF, (RUNS, "EXECUTIONS")]);
    let counts = documents.iter().map(|one| &one["PayloadMismatch"]);
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn a_batch_is_one_document_that_says_what_became_of_its_records() {
    let documents = documents(&[EMF]);
    documents.iter().for_each(check);
    let first = &documents[0];
    for (metric, value) in [
        ("RecordsReceived", 5),
        ("Processed", 1),
        ("Duplicates", 1),
        ("Failed", 1),
        ("Terminal", 2),
        ("Ignored", 0),
        ("InProgressConflicts", 0),
        ("Undecodable", 1),
        ("PayloadMismatch", 0),
        ("LeaseLost", 0),
        ("StoreErrors", 0),
        ("DeadlineHits", 0),
        ("StillRunning", 0),
        ("ColdStart", 1),
    ] {
        assert_eq!(first[metric], value, "{metric}: {first}");
    }
    // One claim request for three keys, and at least one request for completions.
    assert!(first["StoreRequests"].as_u64().unwrap() >= 2, "{first}");
    assert_eq!(first["HandlerDuration"].as_array().unwrap().len(), 3);
    assert_eq!(first["BatchDuration"].as_array().unwrap().len(), 1);
    let ages = first["MessageAge"].as_array().unwrap().iter();
    let ages: Vec<_> = ages.map(|age| age.as_f64().unwrap()).collect();
    // Each record was sent a millisecond after the one before.
    let ages: Vec<_> = ages.iter().map(|age| ages[0] - age).collect();
    assert_eq!(ages, [0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(first["ReceiveCount"], json!([1.0, 3.0, 1.0, 1.0, 1.0]));
}

#[test]
fn every_trouble_is_counted_where_it_is_and_costs_nothing_elsewhere() {
    let mismatch = &[("PayloadMismatch", 1), ("ColdStart", 0)][..];
    let refused = &[("StoreErrors", 1), ("Failed", 1)];
    // Another worker completed the effect as well.
    let lost = &[("LeaseLost", 1), ("Processed", 1)];
    let overrun = &[("NoRoom", 2), ("Failed", 3)];
    let unknown = &[("OutcomeUnknown", 2), ("Terminal", 3), ("Failed", 1)];
    let unanswered = &[("StoreErrors", 1), ("Failed", 1), ("StillRunning", 0)];
    let unclaimed = &[("StoreRequests", 1)];
    let taken = &[("LeaseLost", 1), ("Failed", 1)];
    for (what, run, at, metrics) in [
        ("a mismatch", "", 1, mismatch),
        ("a store that refuses", "", 2, refused),
        ("a lost lease", "", 3, lost),
        ("overrunning code", "OVERRUN", 0, overrun),
        ("an unknown outcome", "UNKNOWN", 0, unknown),
        ("a claim without an answer", "SILENT", 3, unanswered),
        ("a completion without an answer", "SILENT", 4, unanswered),
        ("a handler without a claim", "WRITES", 0, unclaimed),
        ("a group that can't be read", "ORDER", 0, refused),
        ("a key that another worker has", "TAKEN", 0, taken),
    ] {
        let document = &documents(&[EMF, (RUNS, run)])[at];
        for (metric, value) in metrics {
            assert_eq!(document[metric], *value, "{what}: {metric}: {document}");
        }
    }
    let first = &documents(&[EMF])[0];
    assert!(first["NoRoom"].is_null() && first["OutcomeUnknown"].is_null());
}

#[test]
fn more_values_than_a_document_takes_go_into_further_ones_and_counts_into_the_first_only() {
    let documents = documents(&[EMF]);
    let many = &documents[4..7];
    for metric in ["HandlerDuration", "MessageAge"] {
        let arrays = many.iter().filter_map(|it| it[metric].as_array());
        assert_eq!(arrays.map(Vec::len).sum::<usize>(), 250, "{metric}");
    }
    let received = [0, 1, 2].map(|at| &many[at]["RecordsReceived"]);
    assert_eq!(received, [&json!(250), &Value::Null, &Value::Null]);
}

#[test]
fn only_a_consumer_with_a_dependency_counts_its_outages() {
    let documents = documents(&[EMF]);
    let (down, others) = documents.split_last().unwrap();
    let counts = ["Failed", "Deferred", "BreakerOpened"].map(|metric| &down[metric]);
    assert_eq!(counts, [5, 2, 1]);
    assert!(down["NoRoom"].is_null(), "{down}");
    // For keys, and for the breaker.
    assert_eq!(down["StoreRequests"], 4);
    for document in others {
        assert!(document["Deferred"].is_null() && document["BreakerOpened"].is_null());
    }
}

#[test]
fn a_breaker_counts_as_opened_whatever_the_store_answers() {
    let documents = documents(&[EMF, (RUNS, "OPENING")]);
    let counts = documents.iter().map(|one| &one["BreakerOpened"]);
    assert_eq!(counts.collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn the_requests_of_a_breaker_are_counted() {
    let documents = documents(&[EMF, (RUNS, "PROBED")]);
    let counts = documents
        .iter()
        .map(|it| [&it["StoreRequests"], &it["BreakerOpened"]]);
    // It opens, a probe fails, a probe closes it, it is read after a pause, and it is not read.
    let expected = [[3, 1], [3, 1], [4, 0], [3, 0], [2, 0]];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}

#[test]
fn the_service_is_the_only_dimension() {
    let shop = ("POWERTOOLS_METRICS_NAMESPACE", "Shop");
    let blank = ("SQS_ONCE_SERVICE", " ");
    let named = ("POWERTOOLS_SERVICE_NAME", "caf\u{e9} 1");
    for document in documents(&[EMF, shop, blank, named]) {
        let directive = &document["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([["service"]]));
        assert_eq!(directive["Namespace"], "Shop");
        // CloudWatch takes only ASCII.
        assert_eq!(document["service"], "caf_ 1");
    }
}

#[test]
fn metrics_are_written_on_lambda_unless_they_are_switched_off() {
    assert_ne!(documents(&[LAMBDA]).len(), 0);
    for variables in [
        &[][..],
        &[LAMBDA, ("SQS_ONCE_METRICS", "off")],
        &[LAMBDA, ("SQS_ONCE_METRICS", "opentelemetry")],
        &[LAMBDA, ("POWERTOOLS_METRICS_DISABLED", "true")],
    ] {
        assert_eq!(documents(variables).len(), 0, "{variables:?}");
    }
    assert_ne!(documents(&[EMF]).len(), 0);
    let disabled = ("POWERTOOLS_METRICS_DISABLED", "true");
    assert_ne!(documents(&[EMF, disabled]).len(), 0, "ours wins");
    // Only of the consumers that do not switch them off.
    let by_code = documents(&[LAMBDA, (RUNS, "OFF_BY_CODE")]);
    assert_eq!(by_code.len(), 3);
}
