//! The test kit for users' consumers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::extract::{FromRecord, MessageMeta};
use sqs_once::policy::Backoff;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Answer, Bench, Event, Operation, Record};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{
    Batch, Consumer, EventError, HandlerError, IdempotencyToken, Remaining, ResultExt, State,
    consumer,
};
use tokio::sync::Notify;
use tokio::time::sleep;

/// Does what an order's field `do` requests.
async fn obey(order: Value) -> Result<(), HandlerError> {
    match order["do"].as_str() {
        Some("fail") => Err("no luck")?,
        Some("wait") => Err("too many requests").retry_after(Duration::from_secs(7)),
        Some("give up") => Err("no use").terminal(),
        Some("sleep") => {
            sleep(Duration::MAX).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn obedient() -> Consumer {
    consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .handler(obey)
}

fn order(id: &str) -> Value {
    json!({ "id": id })
}

fn told(id: &str, what: &str) -> Value {
    json!({ "id": id, "do": what })
}

#[tokio::test(start_paused = true)]
async fn every_outcome_can_be_asserted() {
    let bench = Bench::new(obedient());
    bench.another_worker_claims("elsewhere").await;
    let event = Event::new([
        &order("a"),
        &order("a"),
        &told("b", "fail"),
        &told("c", "give up"),
        &order("elsewhere"),
        &told("d", "wait"),
    ]);
    let answer = bench.run(&event).await;
    answer
        .assert_processed("m-1")
        .assert_duplicate("m-2")
        .assert_failed("m-3")
        .assert_reason("m-3", "luck")
        .assert_terminal("m-4")
        .assert_in_progress("m-5")
        .assert_retried(["m-3", "m-4", "m-5", "m-6"]);
    assert_eq!(answer.outcome("m-4"), Outcome::Terminal);
    assert_eq!(answer.delay("m-6"), Some(Duration::from_secs(7)));
    bench
        .run(Event::new([&order("a")]))
        .await
        .assert_all_acknowledged();
}

async fn mixed() -> Answer {
    let bench = Bench::new(obedient());
    bench
        .run(Event::new([&order("a"), &told("b", "fail")]))
        .await
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "m-2 should be processed, but is failed: no luck\n\nthe batch:\n  m-1  processed, acknowledged\n  m-2  failed, retried: no luck"
)]
async fn an_assertion_that_fails_shows_the_batch() {
    mixed().await.assert_processed("m-2");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no record has the message id \"m-3\"\n\nthe batch:\n  m-1")]
async fn an_assertion_about_an_unknown_record_says_so() {
    mixed().await.assert_processed("m-3");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "exactly [\"m-1\"] should be retried, but [\"m-2\"] are")]
async fn retries_are_asserted_exactly() {
    mixed().await.assert_retried(["m-1"]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the reason of m-1 should say \"luck\", but is None")]
async fn a_reason_that_is_not_there_is_not_asserted() {
    mixed().await.assert_reason("m-1", "luck");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "tests/all/testing_kit.rs")]
async fn an_invocation_that_fails_names_the_line_of_the_test() {
    let failing = obedient().raise_on_total_failure(true);
    Bench::new(failing)
        .run(Event::new([&told("a", "fail")]))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_sqs_says() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let seen = Arc::clone(&seen);
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(move |_: Value, meta: MessageMeta| {
                let system = |name: &str| meta.system_attribute(name).map(str::to_owned);
                seen.lock().unwrap().push((
                    meta.id().to_owned(),
                    meta.receive_count(),
                    meta.attribute("tenant").map(str::to_owned),
                    meta.is_fifo(),
                    meta.group_id().map(str::to_owned),
                    system("SequenceNumber").is_some() && system("SenderId").is_some(),
                ));
                let sent_at = meta.sent_at().unwrap();
                assert!(sent_at <= meta.first_received_at().unwrap());
                async {}
            })
    };
    let bench = Bench::new(noting);
    let plain = Record::json(&order("a")).attribute("tenant", "t-7");
    let fifo = Record::json(&order("b"))
        .fifo("g")
        .message_id("b-1")
        .receive_count(3);
    for record in [plain, fifo] {
        bench
            .run(Event::new([record]))
            .await
            .assert_all_acknowledged();
    }
    let (tenant, group) = (Some("t-7".to_owned()), Some("g".to_owned()));
    let expected = [
        ("m-1".to_owned(), Some(1), tenant, false, None, false),
        ("b-1".to_owned(), Some(3), None, true, group, true),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_plain_function_gets_the_extractors_that_the_bench_would_give() {
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let tokens = Arc::clone(&tokens);
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(move |_: Value, token: IdempotencyToken| {
                tokens.lock().unwrap().push(token);
                async {}
            })
    };
    let record = Record::json(&order("a")).message_id("first").fifo("g");
    Bench::new(noting).run(Event::new([record.clone()])).await;

    let parts = record.parts("a", 7);
    let token = IdempotencyToken::from_record(&parts).await.unwrap();
    assert_eq!(*tokens.lock().unwrap(), [token]);
    assert_eq!(parts.message().id(), "first");
    assert_eq!(parts.message().group_id(), Some("g"));
    let State(state) = State::from_record(&parts).await.unwrap();
    assert_eq!(state, 7);
    let remaining = Remaining::from_record(&parts).await.unwrap();
    assert_eq!(remaining.duration(), Duration::from_secs(29));
}

#[tokio::test(start_paused = true)]
async fn an_event_survives_its_way_through_a_file() {
    let bench = Bench::new(obedient());
    let event = Event::new([Record::json(&order("a")).message_id("first")]);
    bench.run(&event).await.assert_processed("first");
    let copy = Event::from_json(event.as_json());
    bench.run(&copy).await.assert_duplicate("first");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_lambda_could_not_have_sent_is_refused_as_in_production() {
    let bench = Bench::new(obedient());
    let unnamed = Event::from_json(r#"{ "Records": [{ "body": "{}" }] }"#);
    let refused = bench.try_run(unnamed).await;
    assert!(matches!(refused, Err(EventError::NoMessageId { index: 0 })));
}

#[test]
#[should_panic(expected = "this is not an SQS event")]
fn json_that_is_no_event_is_refused() {
    let _ = Event::from_json(r#"{ "detail-type": "OrderPlaced" }"#);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_effect_is_not_on_record_and_its_claim_lapses_by_the_clock() {
    let bench = Bench::new(obedient()).timeout(Duration::from_secs(10));
    let event = Event::new([&order("a")]);
    bench.run_and_crash(&event).await;
    let item = bench.item("a").await.unwrap();
    assert_eq!(item.status, Status::InProgress);

    bench.clock().advance(Duration::from_secs(13));
    bench.run(&event).await.assert_in_progress("m-1");
    bench.clock().advance(Duration::from_millis(1));
    bench.run(&event).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "had no effect to die after")]
async fn a_process_without_an_effect_does_not_crash_after_it() {
    let bench = Bench::new(obedient());
    bench.run_and_crash(Event::new([&told("a", "fail")])).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_process_reaches_the_store_no_more() {
    let bench = Bench::new(obedient());
    let event = Event::new([&order("a"), &told("b", "fail"), &told("c", "sleep")]);
    bench.run_and_crash(&event).await;
    let requests = bench.store().requests();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.store().requests(), requests);
    for key in ["a", "c"] {
        let item = bench.item(key).await.unwrap();
        assert_eq!(item.status, Status::InProgress, "{key}");
    }
}

/// A consumer whose handler signals its start and waits for a signal to continue.
fn held() -> (Bench, Arc<Notify>, Arc<Notify>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holding = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(move |_: Value| {
                begun.notify_one();
                let go_on = Arc::clone(&go_on);
                async move { go_on.notified().await }
            })
    };
    (Bench::new(holding), begun, go_on)
}

#[tokio::test(start_paused = true)]
async fn a_key_taken_over_while_its_handler_runs_is_not_acknowledged() {
    let (bench, begun, go_on) = held();
    let other = async {
        begun.notified().await;
        bench.another_worker_claims("a").await;
        go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(bench.run(Event::new([&order("a")])), other);
    answer
        .assert_failed("m-1")
        .assert_reason("m-1", "another worker had taken over its key");
}

#[tokio::test(start_paused = true)]
async fn a_key_completed_by_another_worker_meanwhile_is_acknowledged() {
    let (bench, begun, go_on) = held();
    let other = async {
        begun.notified().await;
        let mine = bench.item("a").await.unwrap();
        bench.another_worker_completes("a").await;
        let theirs = bench.item("a").await.unwrap();
        assert_ne!(theirs.owner, mine.owner);
        assert!(theirs.fence > mine.fence);
        go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(bench.run(Event::new([&order("a")])), other);
    answer.assert_processed("m-1");

    bench.another_worker_completes("b").await;
    let later = bench.run(Event::new([&order("b")])).await;
    later.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn faults_hit_the_operation_they_are_for_and_end_by_themselves() {
    let bench = Bench::new(obedient());
    let event = |id: &str| Event::new([&order(id), &told("failing", "fail")]);

    bench
        .store()
        .fail(Operation::Claim, StoreErrorKind::AccessDenied, 1);
    let answer = bench.run(event("a")).await;
    answer
        .assert_reason("m-1", "the store denies access")
        .assert_retried(["m-1", "m-2"]);
    assert!(bench.item("a").await.is_none());

    bench
        .store()
        .fail(Operation::Complete, StoreErrorKind::Other, 1);
    let answer = bench.run(event("a")).await;
    answer.assert_reason("m-1", "could not be recorded");
    // The release in the same request arrived.
    let released = bench.item("failing").await.unwrap();
    assert_eq!(released.lease_until, Some(Timestamp::default()));

    bench
        .store()
        .fail(Operation::Release, StoreErrorKind::Other, 1);
    bench.run(event("b")).await.assert_processed("m-1");
    bench.run(event("b")).await.assert_in_progress("m-2");

    bench.store().lose_answers(Operation::Claim, 1);
    bench.run(event("c")).await.assert_processed("m-1");
    bench.store().lose_answers(Operation::Complete, 1);
    bench.run(event("d")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_lost_after_the_work() {
    let bench = Bench::new(obedient());
    bench.store().lose_answers(Operation::Complete, usize::MAX);
    let answer = bench.run(Event::new([&order("a")])).await;
    answer.assert_failed("m-1");
    let item = bench.item("a").await.unwrap();
    assert_eq!(item.status, Status::Completed);

    bench.store().lose_answers(Operation::Claim, usize::MAX);
    let answer = bench.run(Event::new([&order("b")])).await;
    answer.assert_reason("m-1", "the store did not answer");
    let item = bench.item("b").await.unwrap();
    assert_eq!(item.status, Status::InProgress);
}

#[tokio::test(start_paused = true)]
async fn benches_side_by_side_share_store_and_time() {
    let bench = Bench::new(obedient());
    let other = bench.beside(obedient());
    bench.run(Event::new([&order("a")])).await;
    other
        .run(Event::new([&order("a")]))
        .await
        .assert_duplicate("m-1");
    bench.clock().advance(Duration::from_secs(60));
    assert_eq!(other.clock().now(), bench.clock().now());
    assert_eq!(other.store().requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_cancelled_a_second_before_the_end_in_no_time() {
    let bench = Bench::new(obedient()).timeout(Duration::from_secs(20));
    let begun = bench.clock().now();
    let answer = bench
        .run(Event::new([&told("a", "sleep"), &order("b")]))
        .await;
    answer
        .assert_retried(["m-1"])
        .assert_reason("m-1", "cancelled at the deadline");
    let took = bench.clock().now().since(begun);
    assert_eq!(took, Duration::from_secs(19));
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_runs_on_the_bench_as_any_other() {
    let inserting = consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .batch_handler(async |orders: Batch<Value>| {
            let mut outcome = orders.outcome();
            for order in &orders {
                match order.payload()["do"].as_str() {
                    Some("fail") => outcome.failed(order, "no luck"),
                    _ => outcome.succeeded(order),
                }
            }
            outcome
        });
    let bench = Bench::new(inserting);
    let event = Event::new([&order("a"), &told("b", "fail")]);
    bench.run_and_crash(&event).await;
    bench
        .run(&event)
        .await
        .assert_in_progress("m-1")
        .assert_in_progress("m-2");
    bench.clock().advance(Duration::from_secs(34));
    bench
        .run(&event)
        .await
        .assert_processed("m-1")
        .assert_failed("m-2")
        .assert_reason("m-2", "no luck");
}

/// Without the stand-in, this would send requests to a queue in AWS.
#[tokio::test(start_paused = true)]
async fn dead_letters_and_pauses_stay_on_the_bench() {
    let (floor, ceiling) = (Duration::from_secs(5), Duration::from_secs(600));
    let consumer = obedient()
        .dead_letter_queue("https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq")
        .backoff(Backoff::exponential(floor, ceiling));
    let bench = Bench::new(consumer);
    let begun = bench.clock().now();
    let event = Event::new([&told("a", "give up"), &told("b", "fail")]);
    let answer = bench.run(event).await;
    answer.assert_terminal("m-1").assert_retried(["m-2"]);
    let delay = answer.delay("m-2").unwrap();
    assert!((floor..=2 * floor).contains(&delay), "{delay:?}");
    assert_eq!(bench.clock().now(), begun);
}

/// Real time and real threads.
#[tokio::test(flavor = "multi_thread")]
async fn the_kit_needs_no_paused_time() {
    let bench = Bench::new(obedient());
    let event = Event::new([&order("a")]);
    bench.run_and_crash(&event).await;
    bench.clock().advance(Duration::from_secs(60));
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
}
