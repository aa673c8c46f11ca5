//! Hooks: when they are called, and the effect of their failures.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, FIFO, Order, body, event, grouped, order, outcomes};
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{FifoFailure, PayloadMismatch};
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::telemetry::Outcome;
use sqs_once::time::Clock;
use sqs_once::{Consumer, HandlerError, IdempotencyToken, Recorded, ResultExt};
use tokio::time::sleep;

/// The message ID, outcome and recorded data that a hook received.
type Ends = Arc<Mutex<Vec<(String, Outcome, Option<String>)>>>;

fn note(ends: &Ends) -> impl Fn(RecordEnd) -> std::future::Ready<Result<(), HandlerError>> + use<> {
    let ends = Arc::clone(ends);
    move |end| {
        let id = end.message().id().to_owned();
        let recorded = end.recorded().unwrap();
        ends.lock().unwrap().push((id, end.outcome(), recorded));
        std::future::ready(Ok(()))
    }
}

fn taken(ends: &Ends) -> Vec<(String, Outcome, Option<String>)> {
    std::mem::take(&mut ends.lock().unwrap())
}

/// Orders named `bad-…` fail, `slow-…` never end, and the others record a receipt.
fn receipts(bench: &Bench) -> Consumer {
    bench.consumer(
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(async |order: Order| -> Result<_, HandlerError> {
                if order.id.starts_with("slow") {
                    sleep(Duration::MAX).await;
                }
                if order.id.starts_with("bad") {
                    return Err("no such card".into());
                }
                Ok(Recorded(format!("r-{}", order.id)))
            }),
    )
}

async fn refuse(_: RecordEnd) -> Result<(), HandlerError> {
    Err("the mail server is away".into())
}

#[tokio::test(start_paused = true)]
async fn success_and_duplicate_hooks_get_what_the_handler_recorded() {
    let bench = Bench::new();
    let (successes, duplicates) = (Ends::default(), Ends::default());
    let consumer = receipts(&bench)
        .on_success(note(&successes))
        .on_duplicate(note(&duplicates));
    let receipt = Some("r-o-1".to_owned());

    let batch = [order("o-1"), order("o-1")];
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(
        taken(&successes),
        [("m-0".to_owned(), Outcome::Processed, receipt.clone())]
    );
    let in_batch = [("m-1".to_owned(), Outcome::Duplicate, receipt.clone())];
    assert_eq!(taken(&duplicates), in_batch);

    assert!(
        bench
            .invoke(&consumer, event([order("o-1")]))
            .await
            .is_empty()
    );
    assert_eq!(
        taken(&duplicates),
        [("m-0".to_owned(), Outcome::Duplicate, receipt)]
    );
    assert_eq!(taken(&successes), []);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_hook_is_called_though_nothing_was_recorded() {
    let bench = Bench::new();
    let duplicates = Ends::default();
    let (consumer, seen) = crate::support::noting(&bench);
    let consumer = consumer.on_duplicate(note(&duplicates));
    bench.invoke(&consumer, event([order("o-1")])).await;
    assert_eq!(taken(&duplicates), []);
    bench.invoke(&consumer, event([order("o-1")])).await;
    assert_eq!(
        taken(&duplicates),
        [("m-0".to_owned(), Outcome::Duplicate, None)]
    );
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hook_gets_the_token_of_its_events_handler() {
    let bench = Bench::new();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&tokens);
    let consumer = bench
        .consumer(
            sqs_once::consumer::<Order>()
                .key(|order: &Order| order.id.clone())
                .handler(async |_: Order, token: IdempotencyToken| Recorded(token.to_string())),
        )
        .on_duplicate(move |end| {
            let token = end.token().map(ToString::to_string);
            noted.lock().unwrap().push((token, end.recorded().unwrap()));
            async { Ok(()) }
        });
    bench.invoke(&consumer, event([order("o-1")])).await;
    bench.invoke(&consumer, event([order("o-1")])).await;
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].0.is_some());
    assert_eq!(tokens[0].0, tokens[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_success_hook_is_called_when_the_completion_is_on_record_and_never_before() {
    let bench = Bench::new();
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let look = {
        let (store, statuses) = (bench.store.clone(), Arc::clone(&statuses));
        move |_| {
            let status = store.item("o-1").map(|item| item.status);
            statuses.lock().unwrap().push(status);
            async { Ok(()) }
        }
    };
    let consumer = receipts(&bench).on_success(look);
    bench.store.fail("settle", StoreErrorKind::AccessDenied, 1);
    assert_eq!(
        bench.invoke(&consumer, event([order("o-1")])).await,
        ["m-0"]
    );
    assert_eq!(*statuses.lock().unwrap(), []);

    sleep(Duration::from_secs(60)).await;
    assert!(
        bench
            .invoke(&consumer, event([order("o-1")]))
            .await
            .is_empty()
    );
    assert_eq!(*statuses.lock().unwrap(), [Some(Status::Completed)]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_success_hook_fails_its_record_alone_and_never_repeats_the_effect() {
    let bench = Bench::new();
    let duplicates = Ends::default();
    let consumer = receipts(&bench)
        .on_success(async |end: RecordEnd| match end.message().id() {
            "m-0" => Err("the mail server is away".into()),
            _ => Ok(()),
        })
        .on_duplicate(note(&duplicates));
    let batch = [order("o-1"), order("o-2")];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    assert!(
        lines.iter().any(|line| line.get("reason").is_some_and(
            |reason| reason == "processed, but its hook failed: the mail server is away"
        )),
        "{lines:?}"
    );

    // The next delivery is a duplicate.
    assert!(
        bench
            .invoke(&consumer, event([order("o-1")]))
            .await
            .is_empty()
    );
    let receipt = Some("r-o-1".to_owned());
    assert_eq!(
        taken(&duplicates),
        [("m-0".to_owned(), Outcome::Duplicate, receipt)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_duplicate_hook_fails_its_record() {
    let bench = Bench::new();
    let consumer = receipts(&bench).on_duplicate(refuse);
    let batch = [order("o-1"), order("o-1")];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-1"]);
    assert_eq!(
        bench.invoke(&consumer, event([order("o-1")])).await,
        ["m-0"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_never_ends_fails_its_record_alone_and_in_time() {
    let bench = Bench::new();
    let consumer = receipts(&bench).on_success(async |end: RecordEnd| {
        match end.message().id() {
            "m-0" => panic!("not now"),
            "m-1" => sleep(Duration::MAX).await,
            _ => {}
        }
        Ok(())
    });
    let begun = bench.clock.now();
    let batch = ["o-1", "o-2", "o-3"].map(order);
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-0", "m-1"]);
    // Half of the default margin remains.
    let took = bench.clock.now().since(begun);
    assert_eq!(took, bench.timeout - Duration::from_millis(500));
    // All three effects are recorded.
    for id in ["o-1", "o-2", "o-3"] {
        assert_eq!(bench.store.item(id).unwrap().status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_is_called_for_every_record_that_was_tried_in_vain() {
    let bench = Bench::new();
    let failures = Ends::default();
    let consumer = receipts(&bench).on_failure(note(&failures));
    let batch = [
        order("o-1"),
        order("bad-1"),
        body("not JSON"),
        order("slow-1"),
    ];
    let failed = bench.invoke(&consumer, event(batch)).await;
    assert_eq!(failed, ["m-1", "m-2", "m-3"]);
    let mut called = taken(&failures);
    called.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        called,
        [
            ("m-1".to_owned(), Outcome::Failed, None),
            ("m-2".to_owned(), Outcome::Terminal, None),
            ("m-3".to_owned(), Outcome::Failed, None),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_gets_no_result_that_nobody_recorded() {
    let bench = Bench::new();
    let failures = Ends::default();
    let consumer = receipts(&bench).on_failure(note(&failures));
    bench.store.fail("settle", StoreErrorKind::AccessDenied, 1);
    assert_eq!(
        bench.invoke(&consumer, event([order("o-1")])).await,
        ["m-0"]
    );
    assert_eq!(
        taken(&failures),
        [("m-0".to_owned(), Outcome::Failed, None)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_failure_hook_changes_nothing() {
    for hook in ["error", "panic", "endless"] {
        let bench = Bench::new();
        let consumer = receipts(&bench).on_failure(move |_| async move {
            match hook {
                "error" => Err("the pager is away".into()),
                "panic" => panic!("the pager is on fire"),
                _ => {
                    sleep(Duration::MAX).await;
                    Ok(())
                }
            }
        });
        let batch = [order("bad-1"), order("o-1")];
        assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-0"]);
        let expected = outcomes([("m-0", "failed"), ("m-1", "processed")]);
        assert_eq!(bench.outcomes(), expected);
        assert_eq!(bench.store.item("o-1").unwrap().status, Status::Completed);
        assert!(bench.log.all().contains("a failure hook failed"), "{hook}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_a_failure_hook_and_no_longer() {
    for (takes, waits) in [(2, 2_000), (3600, 29_500)] {
        let bench = Bench::new();
        let consumer = receipts(&bench).on_failure(move |_| async move {
            sleep(Duration::from_secs(takes)).await;
            Ok(())
        });
        let begun = bench.clock.now();
        bench.invoke(&consumer, event([order("bad-1")])).await;
        let waited = bench.clock.now().since(begun);
        assert_eq!(waited, Duration::from_millis(waits));
    }
}

#[tokio::test(start_paused = true)]
async fn no_failure_hook_is_called_for_records_that_return_untried() {
    let bench = Bench::new();
    let failures = Ends::default();
    let consumer = receipts(&bench).on_failure(note(&failures));
    let batch = [
        grouped("a", "bad-1"),
        grouped("a", "o-1"),
        grouped("a", "o-2"),
    ];
    let failed = bench.invoke(&consumer, event(batch.clone())).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2"]);
    assert_eq!(taken(&failures).len(), 1);

    let strict = consumer.fifo(FifoFailure::ReturnBatch).concurrency(1);
    let batch = [
        grouped("a", "bad-1"),
        grouped("b", "o-1"),
        grouped("b", "o-2"),
    ];
    assert_eq!(bench.invoke(&strict, event(batch)).await.len(), 3);
    assert_eq!(taken(&failures).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_group_waits_for_its_hook_and_stops_when_that_fails() {
    let bench = Bench::new();
    let order_of_events = Arc::new(Mutex::new(Vec::new()));
    let noted = {
        let events = Arc::clone(&order_of_events);
        move |what: String| events.lock().unwrap().push(what)
    };
    let handled = noted.clone();
    let consumer = bench
        .consumer(
            sqs_once::consumer::<Order>()
                .key(|order: &Order| order.id.clone())
                .handler(move |order: Order| {
                    handled(order.id);
                    async {}
                }),
        )
        .on_success(move |end: RecordEnd| {
            let noted = noted.clone();
            async move {
                sleep(Duration::from_secs(1)).await;
                noted(format!("hook {}", end.message().id()));
                match end.message().id() {
                    "m-1" => Err("no".into()),
                    _ => Ok(()),
                }
            }
        });
    let batch = ["o-1", "o-2", "o-3"].map(|id| grouped("a", id));
    assert!(batch[0]["eventSourceARN"] == FIFO);
    let failed = bench.invoke(&consumer, event(batch)).await;
    assert_eq!(failed, ["m-1", "m-2"]);
    assert_eq!(
        *order_of_events.lock().unwrap(),
        ["o-1", "hook m-0", "o-2", "hook m-1"]
    );
}

#[tokio::test(start_paused = true)]
async fn another_events_result_is_never_handed_to_a_hook() {
    let bench = Bench::new();
    let duplicates = Ends::default();
    let consumer = receipts(&bench)
        .payload_mismatch(PayloadMismatch::Warn)
        .on_duplicate(note(&duplicates));
    let batch = [order("o-1"), body(r#"{"id": "o-1", "total": 7}"#)];
    assert!(
        bench
            .invoke(&consumer, event(batch.clone()))
            .await
            .is_empty()
    );
    assert!(
        bench
            .invoke(&consumer, event([batch[1].clone()]))
            .await
            .is_empty()
    );
    bench.log.take("sqs_once::record");
    // The second record has the same payload and ends like the first. Neither ran the handler.
    let copies = event([batch[1].clone(), batch[1].clone()]);
    assert!(bench.invoke(&consumer, copies).await.is_empty());
    let lines = bench.log.take("sqs_once::record");
    let levels = lines.iter().map(|line| &line["level"]);
    assert!(levels.eq(["WARN", "WARN"]), "{lines:?}");
    assert_eq!(taken(&duplicates), []);
}

#[tokio::test(start_paused = true)]
async fn as_many_hooks_run_at_once_as_handlers_may() {
    let bench = Bench::new();
    let at_once = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&at_once);
    let consumer = receipts(&bench).concurrency(3).on_success(move |_| {
        let counted = Arc::clone(&counted);
        async move {
            {
                let mut counts = counted.lock().unwrap();
                counts.0 += 1;
                counts.1 = counts.0.max(counts.1);
            }
            sleep(Duration::from_secs(1)).await;
            counted.lock().unwrap().0 -= 1;
            Ok(())
        }
    });
    let batch = (0..10).map(|at| order(&format!("o-{at}")));
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(*at_once.lock().unwrap(), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_hooks_terminal_error_makes_its_record_terminal() {
    let bench = Bench::new();
    let consumer = receipts(&bench).on_success(async |_: RecordEnd| Err("gone").terminal());
    assert_eq!(
        bench.invoke(&consumer, event([order("o-1")])).await,
        ["m-0"]
    );
    assert_eq!(bench.outcomes(), outcomes([("m-0", "terminal")]));
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_is_not_logged_when_a_hook_asks_for_another_type() {
    let bench = Bench::new();
    let consumer = receipts(&bench).on_success(async |end: RecordEnd| {
        let _: Option<u64> = end.recorded()?;
        Ok(())
    });
    assert_eq!(
        bench.invoke(&consumer, event([order("o-1")])).await,
        ["m-0"]
    );
    let all = bench.log.all();
    assert!(all.contains("another type than asked for"), "{all}");
    assert!(!all.contains("o-1"), "{all}");
}
