//! Handlers that return `Writes`: the writes commit with the completion of their key, or not at all.

use crate::support::sqs::Sqs;
use crate::support::{Bench, DLQ, Order, SECOND, Seen, Tested, assert_contains, grouped, handling};
use crate::transactional_effects::{Committing, ENTRIES, Way};
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use sqs_once::handler::{ClaimFirst, HandlerFn};
use sqs_once::policy::Disposition;
use sqs_once::store::Status;
use sqs_once::store::StoreErrorKind::Throttled;
use sqs_once::{HandlerError, Writes};

/// An update of a table with the order's name.
pub(crate) fn update(id: &str) -> Update {
    Update::builder()
        .table_name(id)
        .key("id", AttributeValue::S(id.to_owned()))
        .update_expression("ADD pieces :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .build()
        .unwrap()
}

/// A consumer whose handler returns an update, and the orders of its calls. A conflict is terminal for orders named
/// `sold-out…`, and the others end as they request.
pub(crate) fn setup() -> (Tested, Seen) {
    let (seen, notes) = Seen::pair();
    (handling(writing(notes)), seen)
}

/// A function that notes its orders, and returns their writes.
fn writing(notes: Seen) -> impl HandlerFn<Order, (), ()> {
    move |order: Order| {
        notes.add(order.id.clone());
        async move {
            order.obey().await?;
            let writes = Writes::new().update(update(&order.id));
            let writes = match order.id.starts_with("sold-out") {
                true => writes.on_conflict(|_| Disposition::Terminal),
                false => writes,
            };
            Ok::<_, HandlerError>(writes.completion(&format!("receipt of {}", order.id)))
        }
    }
}

impl Tested {
    /// Handles one order and returns its outcome.
    pub(crate) async fn outcome(&self, id: &str) -> String {
        let failed = self.run([id]).await;
        let outcome = self.outcomes();
        let is_done = matches!(&*outcome, "processed" | "duplicate");
        assert_eq!(failed.is_empty(), is_done, "{id} is {outcome}");
        outcome
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicates_writes_are_not_made_and_it_is_acknowledged() {
    let (bench, seen) = setup();
    assert_eq!(bench.outcome("a").await, "processed");
    assert_eq!(bench.outcome("a").await, "duplicate");
    assert_eq!(bench.store.written(), ["a"]);
    // Without a claim before it, the handler runs again.
    assert_eq!(seen.take(), ["a", "a"]);

    // The handler's own condition may fail the second time.
    bench.store.fail_condition(0, usize::MAX);
    assert_eq!(bench.outcome("a").await, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_writes_nothing_and_its_record_is_tried_again() {
    let (bench, _) = setup();
    bench.store.fail_condition(0, 1);
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    let said = "write 0 (update of table `a`): its condition was not met";
    bench.assert_ended("failed", said);
    assert_eq!(bench.store.item("a"), None);
    assert_eq!(bench.outcome("a").await, "processed");
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_conflict_goes_to_the_dead_letter_queue() {
    let sqs = Sqs::default();
    let (bench, _) = setup();
    let bench = bench.with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(DLQ)));
    bench.store.fail_condition(0, 1);
    assert_eq!(bench.run(["sold-out"]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "terminal");
    let [reason] = sqs.reasons().try_into().unwrap();
    assert_contains!(reason, "its condition was not met");
    assert_eq!(bench.store.item("sold-out"), None);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_throttled_is_sent_again_as_it_was_until_the_deadline() {
    for entry in ENTRIES {
        let it = Committing::new(entry, Way::Writes);
        it.store.fail("commit", Throttled, 3);
        assert_eq!(it.outcome("a").await, "processed");
        let commits = it.store.take_commits();
        assert_eq!(commits.len(), 4);
        assert!(commits.iter().all(|commit| *commit == commits[0]));
        assert_eq!(it.seen.len(), 1);

        it.store.always_fails("commit", Throttled);
        let begun = it.elapsed();
        assert_eq!(it.outcome("b").await, "failed");
        assert!(it.elapsed() - begun < it.timeout);
        let commits = it.store.take_commits();
        assert!(commits.len() > 10);
        assert!(commits.iter().all(|commit| *commit == commits[0]));

        // Another delivery is another attempt.
        it.store.fail("commit", Throttled, 0);
        assert_eq!(it.outcome("b").await, "processed");
        assert_ne!(it.store.take_commits()[0].owner, commits[0].owner);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_throttled_holds_up_no_other() {
    let (bench, _) = setup();
    bench.store.fail("commit", Throttled, 1);
    bench.run(["a", "b", "c"]).await;
    let lines = bench.lines();
    let at_once = lines.iter().filter(|line| line["duration_ms"] == "0.0");
    assert_eq!(at_once.count(), 2, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn when_no_answer_comes_before_the_deadline_the_next_delivery_is_a_duplicate() {
    for entry in ENTRIES {
        let it = Committing::new(entry, Way::Writes);
        it.store.lose_answer("commit", 3);
        assert_eq!(it.outcome("b").await, "processed");
        it.store.lose_answer("commit", usize::MAX);
        assert_eq!(it.outcome("a").await, "failed");
        it.store.lose_answer("commit", 0);
        assert_eq!(it.outcome("a").await, "duplicate");
        assert_eq!(it.effects(), ["b", "a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_fifo_group_waits_for_the_commit_before_it() {
    let (bench, _) = setup();
    bench.store.fail("commit", Throttled, 2);
    let batch = ["a", "b"].map(|id| grouped("g", id));
    assert_eq!(bench.run(batch).await, [""; 0]);
    assert_eq!(bench.store.written(), ["a", "b"]);
    let commits = bench.store.take_commits();
    let ids: Vec<_> = commits.iter().map(|commit| &commit.id).collect();
    assert!(ids[..3].iter().all(|id| *id == ids[0]) && ids[3] != ids[0]);

    bench.store.fail_condition(0, 1);
    let batch = ["c", "d"].map(|id| grouped("g", id));
    assert_eq!(bench.run(batch).await, ["m-0", "m-1"]);
    assert_eq!(bench.store.written(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn with_claim_first_a_key_is_claimed_before_and_committed_over_its_own_claim() {
    let (bench, seen) = claiming_first();
    assert_eq!(bench.outcome("a").await, "processed");
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("commit", 1)]);
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);

    assert_eq!(bench.outcome("a").await, "duplicate");
    bench.foreign("b", Status::InProgress, 60 * SECOND);
    assert_eq!(bench.outcome("b").await, "in_progress");
    assert_eq!(seen.take(), ["a"]);
    assert_eq!(bench.store.written(), ["a"]);

    bench.store.lose_answer("claim", 1);
    bench.store.lose_answer("commit", 1);
    assert_eq!(bench.outcome("c").await, "processed");
    assert_eq!(bench.store.written(), ["a", "c"]);

    #[sqs_once::handler(key = order.id, mode = claim_first, namespace = "test")]
    async fn claimed(order: Order) -> Writes {
        Writes::new().update(update(&order.id))
    }
    let claimed = Bench::new().on(claimed::handler());
    claimed.run(["a"]).await;
    assert_eq!(claimed.store.take_calls(), [("claim", 1), ("commit", 1)]);
}

fn claiming_first() -> (Tested, Seen) {
    let (seen, notes) = Seen::pair();
    (handling(ClaimFirst(writing(notes))), seen)
}

#[tokio::test(start_paused = true)]
async fn with_claim_first_a_failure_and_a_conflict_release_the_claim_and_a_cancellation_does_not() {
    for (id, expected) in [("bad", "failed"), ("a", "failed"), ("sold-out", "terminal")] {
        let (bench, seen) = claiming_first();
        bench.store.fail_condition(0, usize::MAX);
        for delivery in 1..=2 {
            assert_eq!(bench.outcome(id).await, expected);
            assert!(bench.store.is_released(id));
            assert_eq!(seen.len(), delivery);
        }
        assert_eq!(bench.store.written(), [""; 0]);
    }
    let (bench, _) = claiming_first();
    let bench = bench.with(|it| it.attempt_timeout(SECOND));
    assert_eq!(bench.outcome("slow").await, "failed");
    assert_eq!(bench.outcome("slow").await, "in_progress");
    assert_eq!(bench.store.written(), [""; 0]);
}
