//! Handlers that return `Writes`: the writes commit with the completion of their key, or not at all. Settings with which no
//! effect can do so: the consumer does not start, and names the setting to change.

use crate::support::database::{Database, Ledger};
use crate::support::process::has;
use crate::support::sqs::Sqs;
use crate::support::{Bench, DLQ, Order, SECOND, Seen, Tested, assert_contains, handling, orders};
use crate::transactional_effects::{Committing, ENTRIES, Way};
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use sqs_once::consumer::{Named, Runnable};
use sqs_once::handler::{ClaimFirst, HandlerFn};
use sqs_once::policy::{Disposition, MissingKey};
use sqs_once::store::StoreErrorKind::{AccessDenied, Throttled};
use sqs_once::store::{MemoryStore, Status, Timestamp};
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError, Idempotency, Writes};
use tokio::task::yield_now;

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
    pub(crate) async fn outcome(&self, id: &str) -> String {
        let failed = self.run([id]).await;
        let outcome = self.outcomes();
        let is_done = matches!(&*outcome, "processed" | "duplicate");
        assert_eq!(failed.is_empty(), is_done, "{id} is {outcome}");
        outcome
    }
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

fn returning_writes() -> Handler {
    orders().call(async |_: Order| Writes::new())
}

fn returning_writes_together() -> BatchHandler {
    orders().call_batch(async |orders: Batch<Order>| orders.writes())
}

fn booking() -> Handler {
    orders().call(async |_: Order, _: Ledger| {})
}

fn booking_together() -> BatchHandler {
    orders().call_batch(async |orders: Batch<Order>, _: Ledger| orders.all_succeeded())
}

fn plain() -> Handler {
    orders().call(async |_: Order| {})
}

/// Consumers of every kind of handler whose effect commits with the completion of its key.
fn committing(policy: MissingKey) -> [Consumer; 4] {
    [
        on_all(returning_writes().missing_key(policy)),
        on_all(returning_writes_together().missing_key(policy)),
        on_all(booking().missing_key(policy)),
        on_all(booking_together().missing_key(policy)),
    ]
}

/// A consumer whose store supports both.
fn on_all<Kind: Named>(handler: Handler<Kind>) -> Consumer
where
    Handler<Kind>: Runnable,
{
    let bench = Bench::new();
    let database = Database::beside(&bench.store);
    bench.consumer(handler).store(database)
}

async fn refusal(runs: impl Runnable) -> String {
    let error = Consumer::new(runs).init().await.unwrap_err();
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_can_not_commit_the_handlers_effect_is_refused() {
    let no_writes = "the setting `store` can't commit `Writes`: expected `DynamoDbStore`";
    let no_transaction = "the setting `store` has no transactions: expected a store that has them, such as `PostgresStore`";
    let says = [no_writes, no_writes, no_transaction, no_transaction];
    for (consumer, says) in committing(MissingKey::Terminal).into_iter().zip(says) {
        assert_eq!(refusal(consumer.store(MemoryStore::new())).await, says);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_store_asks_for_one_and_all_else_for_a_table() {
    let nowhere = Idempotency::new("test");
    let invocation = nowhere.until(Timestamp::now() + SECOND);
    let in_transaction = async |_: Ledger, _| Ok::<_, HandlerError>(());
    let in_transaction = invocation.run_in_transaction("a", in_transaction).await;
    let says = "the setting `store` is not set, but a transaction needs one: expected `.store(…)` with a store that has them, \
                such as `PostgresStore::from_env()?`";
    assert_eq!(refusal(booking()).await, says);
    assert_eq!(in_transaction.unwrap_err().to_string(), says);

    let work = async || Ok::<_, HandlerError>(Writes::new());
    let work = invocation.run("a", work).await.map(drop).unwrap_err();
    for refusal in [
        work.to_string(),
        refusal(plain()).await,
        refusal(returning_writes()).await,
        refusal(returning_writes_together()).await,
    ] {
        assert!(refusal.starts_with("SQS_ONCE_TABLE is "), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_can_not_have_an_effect_that_commits_with_its_completion() {
    for allowed in [MissingKey::Terminal, MissingKey::Retry] {
        for consumer in committing(allowed) {
            consumer.init().await.unwrap();
        }
    }
    let says = "the setting `missing_key` is `ProcessUnprotected`, but the handler's effect commits with the completion of \
                its key: expected `Terminal` or `Retry`";
    for consumer in committing(MissingKey::ProcessUnprotected) {
        assert_eq!(refusal(consumer).await, says);
    }
}

#[tokio::test(start_paused = true)]
async fn the_off_switch_is_refused_where_the_effect_commits_through_the_store() {
    let is_off = has!(&[("SQS_ONCE_DISABLED", "true")]);
    on_all(plain()).init().await.unwrap();
    let bench = Bench::new();
    let work = bench.idempotency();
    let invocation = work.until(bench.deadline());
    let plain = async || Ok::<_, HandlerError>(());
    for is_known in [false, !is_off] {
        let ran = invocation.run("a", plain).await.unwrap();
        assert_eq!(ran.is_duplicate(), is_known);
    }
    let writing_work = async || Ok::<_, HandlerError>(Writes::new());
    let worked = invocation.run("b", writing_work).await.map(drop);
    let mut started = vec![worked.map_err(|error| error.to_string())];
    for consumer in committing(MissingKey::Terminal) {
        let consumer = consumer.init().await;
        started.push(consumer.map_err(|error| error.to_string()));
    }
    let says = "SQS_ONCE_DISABLED is set, but the effect commits through the store: expected false for handlers and work \
                that return `Writes` or take a transaction";
    for started in started {
        match is_off {
            false => started.unwrap(),
            true => assert_eq!(started.unwrap_err(), says),
        }
    }
}

/// The answer to the first copy of the commit is lost, and the later ones fail.
#[tokio::test(start_paused = true)]
async fn a_commit_of_which_one_copy_had_no_answer_is_unconfirmed_whatever_the_last_one_said() {
    for error in [Throttled, AccessDenied] {
        let (bench, _) = setup();
        bench.store.lose_answer("commit", 1);
        let later = async {
            while bench.store.take_commits().is_empty() {
                yield_now().await;
            }
            bench.store.always_fails("commit", error);
        };
        let (failed, ()) = tokio::join!(bench.run(["a"]), later);
        assert_eq!(failed, ["m-0"]);
        assert_eq!(bench.codes(), "failed: commit-unconfirmed", "{error:?}");
        bench.store.fail("commit", error, 0);
        assert_eq!(bench.outcome("a").await, "duplicate");
        assert_eq!(bench.store.written(), ["a"]);
    }
}
