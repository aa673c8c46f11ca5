//! Handlers that return `Writes`: the writes commit with the record of their key, or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::sqs::Sqs;
use crate::support::{Bench, Order, Seen, body, event, grouped, order, outcomes};
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{Cache, Disposition, Mode, PayloadMismatch};
use sqs_once::store::{Item, Owner, Status, StoreErrorKind};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Consumer, HandlerError, ResultExt, Writes, consumer};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const DLQ: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq";

/// An update of a table with the order's name.
fn update(id: &str) -> Update {
    Update::builder()
        .table_name(id)
        .key("id", AttributeValue::S(id.to_owned()))
        .update_expression("ADD pieces :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .build()
        .unwrap()
}

/// A consumer whose handler returns an update, and the orders of its calls. Orders named `bad…` fail, `hopeless…` are
/// terminal, `panics…` panic, `slow…` never end. A conflict is terminal for orders named `sold-out…`.
fn reserving(bench: &Bench) -> (Consumer, Seen) {
    let seen = Seen::default();
    let called = Arc::clone(&seen);
    let handler = move |order: Order| {
        called.lock().unwrap().push(order.id.clone());
        async move {
            match order
                .id
                .trim_end_matches(|end: char| end == '-' || end.is_ascii_digit())
            {
                "bad" => Err("no luck")?,
                "hopeless" => Err("no use").terminal()?,
                "panics" => panic!("what a surprise"),
                "slow" => sleep(Duration::MAX).await,
                _ => {}
            }
            let writes = Writes::new().update(update(&order.id));
            let writes = match order.id.starts_with("sold-out") {
                true => writes.on_conflict(0, |_| Disposition::Terminal),
                false => writes,
            };
            Ok::<_, HandlerError>(writes.recording(&format!("receipt of {}", order.id)))
        }
    };
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(handler);
    (bench.consumer(consumer), seen)
}

fn setup() -> (Bench, Consumer, Seen) {
    let bench = Bench::new();
    let (consumer, seen) = reserving(&bench);
    (bench, consumer, seen)
}

/// Replaces the key's item with another worker's.
fn foreign(bench: &Bench, id: &str, status: Status, lease: Duration) {
    let key = sqs_once::BusinessKey::new(id).unwrap();
    bench.store.inner.put({
        let mut item = Item::new(crate::support::item_id(&key), status);
        item.lease_until = Some(bench.clock.now() + lease);
        item.expiration = Some(bench.clock.now() + 3600 * SECOND);
        item.owner = Some(Owner::from_bits(7));
        item
    });
}

/// Handles one order and returns its outcome.
async fn outcome(bench: &Bench, consumer: &Consumer, id: &str) -> String {
    let failed = bench.invoke(consumer, event([order(id)])).await;
    let [(_, outcome)] = bench.outcomes().try_into().unwrap();
    let is_done = matches!(&*outcome, "processed" | "duplicate");
    assert_eq!(failed.is_empty(), is_done, "{id} is {outcome}");
    outcome
}

#[tokio::test(start_paused = true)]
async fn writes_and_record_are_committed_together_in_one_request() {
    let (bench, consumer, _) = setup();
    let failed = bench.invoke(&consumer, event(["a", "b"].map(order))).await;
    assert_eq!(failed, [""; 0]);
    assert_eq!(bench.store.take_calls(), [("commit", 1), ("commit", 1)]);
    assert_eq!(bench.store.written(), ["a", "b"]);
    for id in ["a", "b"] {
        let item = bench.store.item(id).unwrap();
        assert_eq!(item.status, Status::Completed);
        assert_eq!(item.data, Some(format!("\"receipt of {id}\"").into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicates_writes_are_not_made_and_it_is_acknowledged() {
    let (bench, consumer, seen) = setup();
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    assert_eq!(outcome(&bench, &consumer, "a").await, "duplicate");
    assert_eq!(bench.store.written(), ["a"]);
    // Without a claim before it, the handler runs again.
    assert_eq!(*seen.lock().unwrap(), ["a", "a"]);

    // The handler's own condition may fail the second time.
    bench.store.fail_condition(0, usize::MAX);
    assert_eq!(outcome(&bench, &consumer, "a").await, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_is_one_commit() {
    let (bench, consumer, _) = setup();
    bench.invoke(&consumer, event(["a", "a"].map(order))).await;
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "processed"), ("m-1", "duplicate")])
    );
    assert_eq!(bench.store.take_calls(), [("commit", 1)]);

    bench.store.fail_condition(0, usize::MAX);
    let batch = event(["b", "b"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert_eq!(bench.store.take_calls(), [("commit", 1)]);
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_committed_over_a_live_claim_of_another_worker() {
    let (bench, consumer, _) = setup();
    foreign(&bench, "a", Status::InProgress, 60 * SECOND);
    assert_eq!(outcome(&bench, &consumer, "a").await, "in_progress");
    assert_eq!(bench.store.written(), [""; 0]);
    assert_eq!(
        bench.store.item("a").unwrap().owner,
        Some(Owner::from_bits(7))
    );

    sleep(61 * SECOND).await;
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_committed_over_a_status_that_nobody_knows() {
    let (bench, consumer, _) = setup();
    foreign(&bench, "a", Status::Unknown("PAUSED".to_owned()), SECOND);
    assert_eq!(outcome(&bench, &consumer, "a").await, "failed");
    assert_eq!(bench.store.written(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_key_is_not_written_whatever_becomes_of_it() {
    for (policy, expected) in [
        (PayloadMismatch::Warn, "duplicate"),
        (PayloadMismatch::Reject, "failed"),
        (PayloadMismatch::Ignore, "duplicate"),
    ] {
        let (bench, consumer, _) = setup();
        let consumer = consumer.payload_mismatch(policy);
        assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
        let other = body(r#"{"id": "a", "total": 7}"#);
        bench.invoke(&consumer, event([other])).await;
        assert_eq!(bench.outcomes(), outcomes([("m-0", expected)]));
        assert_eq!(bench.store.written(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_asks_nothing_of_the_store_and_its_key_is_free_at_once() {
    for id in ["bad", "hopeless", "panics", "slow"] {
        for record_timeout in [None, Some(SECOND)] {
            let (bench, consumer, seen) = setup();
            let consumer = match record_timeout {
                Some(limit) => consumer.record_timeout(limit),
                None => consumer,
            };
            for delivery in 1..=2 {
                bench.invoke(&consumer, event([order(id)])).await;
                assert_eq!(bench.store.take_calls(), [], "{id}");
                assert_eq!(seen.lock().unwrap().len(), delivery, "{id}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_writes_nothing_and_its_record_is_tried_again() {
    let (bench, consumer, _) = setup();
    bench.store.fail_condition(0, 1);
    let failed = bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(failed, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    assert_eq!(lines[0]["outcome"], "failed");
    let reason = &lines[0]["reason"];
    assert!(reason.contains("write 0 (update of table `a`)"), "{reason}");
    assert_eq!(bench.store.item("a"), None);
    assert_eq!(bench.store.written(), [""; 0]);

    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_conflict_goes_to_the_dead_letter_queue() {
    let (bench, consumer, _) = setup();
    let sqs = Sqs::default();
    let consumer = consumer.dead_letter_queue(DLQ).sqs_client(sqs.client());
    bench.store.fail_condition(0, 1);
    let failed = bench.invoke(&consumer, event([order("sold-out")])).await;
    assert_eq!(failed, [""; 0]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "terminal")]));
    let [sent] = sqs.asked("SendMessage").try_into().unwrap();
    let reason = sent["MessageAttributes"]["sqs-once-reason"]["StringValue"].as_str();
    assert!(
        reason.unwrap().contains("its condition was not met"),
        "{sent}"
    );
    assert_eq!(bench.store.item("sold-out"), None);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_throttled_is_sent_again_as_it_was_until_the_deadline() {
    let (bench, consumer, seen) = setup();
    bench.store.fail("commit", StoreErrorKind::Throttled, 3);
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    let commits = bench.store.take_commits();
    assert_eq!(commits.len(), 4);
    assert!(commits.iter().all(|commit| *commit == commits[0]));
    assert_eq!(seen.lock().unwrap().len(), 1);

    bench
        .store
        .fail("commit", StoreErrorKind::Throttled, usize::MAX);
    let begun = bench.clock.now();
    assert_eq!(outcome(&bench, &consumer, "b").await, "failed");
    assert!(bench.clock.now().since(begun) < bench.timeout);
    let commits = bench.store.take_commits();
    assert!(commits.len() > 10);
    assert!(commits.iter().all(|commit| *commit == commits[0]));

    // Another delivery is another attempt.
    bench.store.fail("commit", StoreErrorKind::Throttled, 0);
    assert_eq!(outcome(&bench, &consumer, "b").await, "processed");
    assert_ne!(bench.store.take_commits()[0].owner, commits[0].owner);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_throttled_holds_up_no_other() {
    let (bench, consumer, _) = setup();
    bench.store.fail("commit", StoreErrorKind::Throttled, 1);
    bench
        .invoke(&consumer, event(["a", "b", "c"].map(order)))
        .await;
    let lines = bench.log.take("sqs_once::record");
    let at_once = |line: &&crate::support::Line| line["duration_ms"] == "0.0";
    let at_once: Vec<_> = lines.iter().filter(at_once).collect();
    assert_eq!(at_once.len(), 2, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_is_sent_again_and_happens_once() {
    let (bench, consumer, _) = setup();
    bench.store.lose_answer("commit", 2);
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    assert_eq!(bench.store.take_commits().len(), 3);
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn when_no_answer_comes_before_the_deadline_the_next_delivery_is_a_duplicate() {
    let (bench, consumer, _) = setup();
    bench.store.lose_answer("commit", usize::MAX);
    assert_eq!(outcome(&bench, &consumer, "a").await, "failed");
    assert_eq!(bench.store.written(), ["a"]);

    bench.store.lose_answer("commit", 0);
    assert_eq!(outcome(&bench, &consumer, "a").await, "duplicate");
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_fails_its_record_alone() {
    let (bench, consumer, _) = setup();
    let consumer = consumer.concurrency(1);
    bench.store.fail("commit", StoreErrorKind::AccessDenied, 2);
    let batch = (0..100).map(|at| order(&at.to_string()));
    let failed = bench.invoke(&consumer, event(batch)).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert_eq!(bench.store.written().len(), 98);
    let lines = bench.log.take("sqs_once::store");
    assert_eq!(lines.len(), 1);
    assert!(lines[0]["error"].contains("grant the function's role"));
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_fifo_group_waits_for_the_commit_before_it() {
    let (bench, consumer, _) = setup();
    bench.store.fail("commit", StoreErrorKind::Throttled, 2);
    let batch = event(["a", "b"].map(|id| grouped("g", id)));
    assert_eq!(bench.invoke(&consumer, batch).await, [""; 0]);
    assert_eq!(bench.store.written(), ["a", "b"]);
    let commits = bench.store.take_commits();
    let ids: Vec<_> = commits.iter().map(|commit| &commit.id).collect();
    assert!(ids[..3].iter().all(|id| *id == ids[0]) && ids[3] != ids[0]);

    bench.store.fail_condition(0, 1);
    let batch = event(["c", "d"].map(|id| grouped("g", id)));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert_eq!(bench.store.written(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn with_claim_first_a_key_is_claimed_before_and_committed_over_its_own_claim() {
    let (bench, consumer, seen) = setup();
    let consumer = consumer.mode(Mode::ClaimFirst);
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("commit", 1)]);
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);

    assert_eq!(outcome(&bench, &consumer, "a").await, "duplicate");
    foreign(&bench, "b", Status::InProgress, 60 * SECOND);
    assert_eq!(outcome(&bench, &consumer, "b").await, "in_progress");
    assert_eq!(*seen.lock().unwrap(), ["a"]);
    assert_eq!(bench.store.written(), ["a"]);

    bench.store.lose_answer("claim", 1);
    bench.store.lose_answer("commit", 1);
    assert_eq!(outcome(&bench, &consumer, "c").await, "processed");
    assert_eq!(bench.store.written(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn with_claim_first_a_failure_and_a_conflict_release_the_claim() {
    for (id, terminal) in [("bad", false), ("a", false), ("sold-out", true)] {
        let (bench, consumer, seen) = setup();
        let consumer = consumer.mode(Mode::ClaimFirst);
        bench.store.fail_condition(0, usize::MAX);
        for delivery in 1..=2 {
            let expected = if terminal { "terminal" } else { "failed" };
            assert_eq!(outcome(&bench, &consumer, id).await, expected);
            let item = bench.store.item(id).unwrap();
            assert_eq!(item.status, Status::InProgress);
            assert_eq!(item.lease_until, Some(Timestamp::default()));
            assert_eq!(seen.lock().unwrap().len(), delivery);
        }
        assert_eq!(bench.store.written(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn with_claim_first_a_cancelled_handlers_claim_is_left_to_lapse() {
    let (bench, consumer, _) = setup();
    let consumer = consumer.mode(Mode::ClaimFirst).record_timeout(SECOND);
    assert_eq!(outcome(&bench, &consumer, "slow").await, "failed");
    assert_eq!(outcome(&bench, &consumer, "slow").await, "in_progress");
    assert_eq!(bench.store.written(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_committed_when_another_worker_took_the_key_over_meanwhile() {
    for (status, expected) in [
        (Status::InProgress, "in_progress"),
        (Status::Completed, "duplicate"),
    ] {
        for mode in [Mode::ClaimFirst, Mode::Transactional] {
            let bench = Bench::new();
            let (store, clock, status) = (bench.store.clone(), bench.clock.clone(), status.clone());
            let consumer = consumer::<Order>()
                .key(|order: &Order| order.id.clone())
                .mode(mode)
                .handler(move |order: Order| {
                    let key = sqs_once::BusinessKey::new(&order.id).unwrap();
                    store.inner.put({
                        let mut item = Item::new(crate::support::item_id(&key), status.clone());
                        item.lease_until = Some(clock.now() + 60 * SECOND);
                        item.owner = Some(Owner::from_bits(7));
                        item
                    });
                    async move { Writes::new().update(update(&order.id)) }
                });
            let consumer = bench.consumer(consumer);
            assert_eq!(outcome(&bench, &consumer, "a").await, expected);
            assert_eq!(bench.store.written(), [""; 0]);
            let owner = bench.store.item("a").unwrap().owner;
            assert_eq!(owner, Some(Owner::from_bits(7)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_to_be_completed_costs_neither_a_request_nor_a_call() {
    let (bench, consumer, seen) = setup();
    let consumer = consumer.cache(Cache::new(10));
    assert_eq!(outcome(&bench, &consumer, "a").await, "processed");
    bench.store.take_calls();
    assert_eq!(outcome(&bench, &consumer, "a").await, "duplicate");
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(*seen.lock().unwrap(), ["a"]);

    // The store's answer tells this process that another process has committed the key.
    let (other, _) = reserving(&bench);
    assert_eq!(outcome(&bench, &other, "b").await, "processed");
    for calls in [&[("commit", 1)][..], &[]] {
        bench.store.take_calls();
        assert_eq!(outcome(&bench, &consumer, "b").await, "duplicate");
        assert_eq!(bench.store.take_calls(), calls);
    }

    // A conflict does not count as a completion.
    bench.store.fail_condition(0, 1);
    assert_eq!(outcome(&bench, &consumer, "c").await, "failed");
    assert_eq!(outcome(&bench, &consumer, "c").await, "processed");
}

#[tokio::test(start_paused = true)]
async fn hooks_get_what_was_recorded_with_the_writes() {
    let (bench, consumer, _) = setup();
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let (told, store) = (Arc::clone(&told), bench.store.clone());
        move |end: RecordEnd| {
            let recorded: Option<String> = end.recorded().unwrap();
            let written = store.written().len();
            told.lock().unwrap().push((name, recorded, written));
            std::future::ready(Ok(()))
        }
    };
    let consumer = consumer
        .on_success(note("success"))
        .on_duplicate(note("duplicate"))
        .on_failure(note("failure"));
    bench.store.fail_condition(0, 1);
    for expected in ["failed", "processed", "duplicate"] {
        assert_eq!(outcome(&bench, &consumer, "a").await, expected);
    }
    let receipt = Some("receipt of a".to_owned());
    assert_eq!(
        *told.lock().unwrap(),
        [
            ("failure", None, 0),
            ("success", receipt.clone(), 1),
            ("duplicate", receipt, 1)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_attribute_claims_first_when_it_says_so() {
    #[sqs_once::handler(key = order.id, mode = claim_first)]
    async fn claimed(order: Order) -> Writes {
        Writes::new().update(update(&order.id))
    }
    #[sqs_once::handler(key = order.id)]
    async fn unclaimed(order: Order) -> Result<Writes, HandlerError> {
        Ok(Writes::new().update(update(&order.id)))
    }
    let bench = Bench::new();
    bench
        .invoke(&bench.consumer(claimed::consumer()), event([order("a")]))
        .await;
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("commit", 1)]);
    bench
        .invoke(&bench.consumer(unclaimed::consumer()), event([order("b")]))
        .await;
    assert_eq!(bench.store.take_calls(), [("commit", 1)]);
}
