//! The test kit for users' consumers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::support::database::Ledger;
use crate::support::{DLQ, Notes, Order, assert_contains, held, one, orders, several, values};
use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use serde_json::{Value, json};
use sqs_once::consumer::{EventError, Queue};
use sqs_once::extract::{Context, FromRecord, Remaining};
use sqs_once::handler::{Done, IntoOutcome};
use sqs_once::policy::Disposition;
use sqs_once::store::{Status, StoreErrorKind, Timestamp};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Answer, Bench, Event, Operation, Record};
use sqs_once::{Batch, Consumer, Handler, HandlerError, IdempotencyToken, State, Writes};
use tokio::time::sleep;

/// A handler whose orders end as they request.
fn obedient() -> Handler {
    orders().call(async |order: Order| order.obey().await)
}

/// An assertion about a batch whose first record is processed and whose second one fails, and what it says.
type Assertion = (fn(&Answer) -> &Answer, &'static str);

#[tokio::test(start_paused = true)]
async fn an_assertion_that_fails_says_what_should_be_and_shows_the_batch() {
    let all = "\n\nthe batch:\n  m-1  processed, acknowledged\n  m-2  failed, retried: no luck";
    let other_end = "m-2 should be processed, but is failed: no luck";
    let no_message = "no message has the id \"m-3\"";
    let other_ends = "the outcomes should be [Processed], but are [Processed, Failed]";
    let others_retried = "exactly [\"m-1\"] should be retried, but [\"m-2\"] are";
    let no_reason = "the reason of m-1 should say \"luck\", but is None";
    let assertions: [Assertion; 5] = [
        (|it| it.assert_processed("m-2"), other_end),
        (|it| it.assert_processed("m-3"), no_message),
        (|it| it.assert_outcomes([Outcome::Processed]), other_ends),
        (|it| it.assert_retried(["m-1"]), others_retried),
        (|it| it.assert_reason("m-1", "luck"), no_reason),
    ];
    for (assertion, says) in assertions {
        let answer = Bench::new(obedient()).run(several(["a", "bad"])).await;
        let failed = catch_unwind(AssertUnwindSafe(|| assertion(&answer)));
        let said = failed.expect_err(says).downcast::<String>().unwrap();
        assert!(said.starts_with(&format!("{says}{all}")), "{said}");
    }
}

#[test]
fn a_record_says_what_sqs_says() {
    let plain = Record::text("{}").attribute("tenant", "t-7");
    let fifo = Record::text("{}").fifo("g").receive_count(3);
    let plain = (plain, 1, Some("t-7"), None);
    for (record, receive_count, tenant, group) in [plain, (fifo, 3, None, Some("g"))] {
        let parts = record.parts("a", ());
        let message = parts.message();
        assert_eq!(message.receive_count(), Some(receive_count));
        assert_eq!(message.attribute("tenant"), tenant);
        assert_eq!(message.group_id(), group);
        let is_fifo = group.is_some();
        assert_eq!(message.is_fifo(), is_fifo);
        let has = |name: &str| message.system_attribute(name).is_some();
        assert_eq!(has("SequenceNumber") && has("SenderId"), is_fifo);
        assert!(message.sent_at().unwrap() <= message.first_received_at().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_function_gets_the_extractors_that_the_bench_would_give() {
    let (tokens, notes) = Notes::pair();
    let noting = values().call(notes.of_both(|_: Value, token: IdempotencyToken| token));
    let record = Record::json(&json!({ "id": "a" })).message_id("first");
    let record = record.fifo("g");
    Bench::new(noting).run(Event::new([record.clone()])).await;

    let parts = record.parts("a", 7);
    let token = IdempotencyToken::from_record(&parts).await.unwrap();
    assert_eq!(token.as_str().len(), 32);
    assert_eq!(token.as_str(), token.to_string());
    assert_eq!(tokens.all(), [token]);
    assert_eq!(parts.message().id(), "first");
    assert_eq!(parts.message().group_id(), Some("g"));
    let State(state) = State::from_record(&parts).await.unwrap();
    assert_eq!(state, 7);
    let remaining = Remaining::from_record(&parts).await.unwrap();
    assert_eq!(remaining.duration(), Duration::from_secs(29));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "tests/all/testing_kit.rs")]
async fn a_record_that_lambda_could_not_have_sent_is_refused_with_the_line_of_the_test() {
    let bench = Bench::new(obedient());
    let unnamed = Event::from_json(r#"{ "Records": [{ "body": "{}" }] }"#);
    let refused = bench.try_run(&unnamed).await;
    assert!(matches!(refused, Err(EventError::NoMessageId { index: 0 })));
    bench.run(unnamed).await;
}

#[test]
#[should_panic(expected = "this is not an SQS event")]
fn json_that_is_no_event_is_refused() {
    let _ = Event::from_json(r#"{ "detail-type": "OrderPlaced" }"#);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "did not die, because no handler succeeded")]
async fn a_process_without_an_effect_does_not_crash_after_it() {
    let bench = Bench::new(obedient());
    bench.run_and_crash(one("bad")).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_process_reaches_the_store_no_more() {
    let bench = Bench::new(obedient());
    bench.run_and_crash(several(["a", "bad", "slow"])).await;
    let requests = bench.store().requests();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.store().requests(), requests);
    for key in ["a", "slow"] {
        let item = bench.item(key).await.unwrap();
        assert_eq!(item.status, Status::InProgress, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_worker_takes_over_is_acknowledged_only_if_that_one_completes() {
    for completes in [false, true] {
        let (handler, begun, go_on) = held();
        let bench = Bench::new(handler);
        let other = async {
            begun.notified().await;
            let mine = bench.item("a").await.unwrap();
            match completes {
                true => bench.another_worker_completes("a").await,
                false => bench.another_worker_claims("a").await,
            }
            let theirs = bench.item("a").await.unwrap();
            assert_ne!(theirs.owner, mine.owner);
            assert!(theirs.fence > mine.fence);
            go_on.notify_one();
        };
        let (answer, ()) = tokio::join!(bench.run(one("a")), other);
        match completes {
            true => answer.assert_processed("m-1"),
            false => answer.assert_reason("m-1", "another worker had taken over its key"),
        };
    }
}

#[tokio::test(start_paused = true)]
async fn faults_hit_the_operation_they_are_for_and_end_by_themselves() {
    let bench = Bench::new(obedient());
    let event = |id: &str| several([id, "bad"]);

    let store = bench.store();
    store.fail(Operation::Claim, StoreErrorKind::AccessDenied, 1);
    let answer = bench.run(event("a")).await;
    answer.assert_reason("m-1", "the store denies access");
    answer.assert_retried(["m-1", "m-2"]);
    assert!(bench.item("a").await.is_none());

    store.fail(Operation::Complete, StoreErrorKind::Other, 1);
    let answer = bench.run(event("a")).await;
    answer.assert_reason("m-1", "could not be completed");
    // The release in the same request arrived.
    let released = bench.item("bad").await.unwrap();
    assert_eq!(released.lease_until, Some(Timestamp::default()));

    store.fail(Operation::Release, StoreErrorKind::Other, 1);
    bench.run(event("b")).await.assert_processed("m-1");
    bench.run(event("b")).await.assert_in_progress("m-2");

    store.lose_answers(Operation::Claim, 1);
    bench.run(event("c")).await.assert_processed("m-1");
    store.lose_answers(Operation::Complete, 1);
    bench.run(event("d")).await.assert_processed("m-1");
}

/// Without the stand-in, this would send requests to a queue in AWS.
#[tokio::test(start_paused = true)]
async fn dead_letters_and_pauses_stay_on_the_bench() {
    let (floor, ceiling) = (Duration::from_secs(5), Duration::from_secs(600));
    let handler = obedient().backoff(floor..=ceiling);
    let bench = Bench::new(Consumer::new(handler).queue(Queue::any().dead_letter_queue(DLQ)));
    let begun = bench.clock().now();
    let answer = bench.run(several(["hopeless", "bad"])).await;
    answer.assert_terminal("m-1").assert_retried(["m-2"]);
    let delay = answer.delay("m-2").unwrap();
    assert!((floor..=2 * floor).contains(&delay), "{delay:?}");
    assert_eq!(bench.clock().now(), begun);
}

/// Real time and real threads.
#[tokio::test(flavor = "multi_thread")]
async fn the_kit_needs_no_paused_time() {
    let bench = Bench::new(obedient());
    let event = one("a");
    bench.run_and_crash(&event).await;
    bench.clock().advance(Duration::from_secs(60));
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
}

/// Stores the order and takes it from the stock. If the stock is empty, retries no earlier than tomorrow.
#[sqs_once::handler(key = order.id, namespace = "test")]
async fn reserve(order: Order) -> Result<Writes, HandlerError> {
    let id = || AttributeValue::S(order.id.clone());
    let put = Put::builder().table_name("orders").item("id", id());
    let update = Update::builder().table_name("stock").key("id", id());
    let update = update.update_expression("ADD pieces :less");
    Ok(Writes::new()
        .put_item(put.build()?)
        .on_conflict(|_| Disposition::Terminal)
        .update(update.build()?)
        .on_conflict(|_| Disposition::RetryAfter(Duration::from_secs(86_400))))
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_writes_nothing_and_its_rule_decides() {
    let (bench, event) = (Bench::new(reserve::consumer()), one("o-1"));
    bench.store().fail_condition(1, 1);
    let answer = bench.run(&event).await;
    answer.assert_failed("m-1");
    answer.assert_reason("m-1", "write 1 (update of table `stock`)");
    assert_eq!(answer.delay("m-1"), Some(Duration::from_secs(86_400)));
    assert!(bench.store().writes().is_empty());
    assert_eq!(bench.item("o-1").await, None);

    bench.store().fail_condition(0, 1);
    bench.store().fail_condition(1, 1);
    bench.run(&event).await.assert_terminal("m-1");

    // Each fault occurred once, and one of a write that is none waits for it.
    bench.store().fail_condition(2, 1);
    bench.run(&event).await.assert_processed("m-1");
    assert_eq!(bench.store().writes().len(), 2);
}

/// A success of the handler's own, whose type does not show that it contains writes.
pub(crate) struct Hidden(pub(crate) Writes);

impl IntoOutcome for Hidden {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        self.0.into_outcome()
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_batch_handler_that_its_type_hides_are_terminal_and_not_written() {
    let hiding = async |orders: Batch<Order>| {
        let mut outcome = orders.all_succeeded();
        outcome.ended(&orders.records()[0], Hidden(Writes::new()));
        outcome
    };
    let bench = Bench::new(orders().call_batch(hiding));
    let answer = bench.run(several(["o-1", "o-2"])).await;
    answer.assert_terminal("m-1").assert_processed("m-2");
    answer.assert_reason("m-1", "report them in `BatchWrites`");
    assert!(bench.store().writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_nothing_behind_and_nothing_to_wait_for() {
    let (bench, event) = (Bench::new(reserve::consumer()), one("o-1"));
    bench.run_and_crash(&event).await;
    assert!(bench.store().writes().is_empty());
    assert_eq!(bench.item("o-1").await, None);
    bench.run(&event).await.assert_processed("m-1");
    assert_eq!(bench.store().writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_a_transaction_is_told_that_the_kit_has_none() {
    let handler = orders().call(async |_: Order, _: Ledger| {});
    let error = Bench::new(handler).try_run(one("a")).await.unwrap_err();
    assert_contains!(error.to_string(), "has no transactions");
}

#[tokio::test(start_paused = true)]
async fn a_handler_and_a_batch_handler_can_ask_for_the_context_of_their_invocation() {
    let (seen, notes) = Notes::pair();
    let note = |context: &Context| (context.request_id.clone(), context.deadline);
    let noting = notes
        .clone()
        .of_both(move |_: Order, context: Context| note(&context));
    let handler = orders().call(noting);
    let together = orders().call_batch(move |orders: Batch<Order>, context: Context| {
        notes.add(note(&context));
        async move { orders.all_succeeded() }
    });
    let alone = Bench::new(handler);
    let ends_at = (alone.clock().now() + Duration::from_secs(30)).as_millis();
    for bench in [alone, Bench::new(together)] {
        bench.run(one("a")).await.assert_all_acknowledged();
    }
    let parts = Record::text("a").parts("a", ());
    let context = Context::from_record(&parts).await.unwrap();
    let id = context.request_id.clone();
    assert!(!id.is_empty() && context.invoked_function_arn.starts_with("arn:aws:lambda:"));
    assert_eq!(context.deadline, ends_at);
    assert_eq!(seen.take(), [(id.clone(), ends_at), (id, ends_at)]);
}
