//! Settings that do not work with transactional handlers: the consumer does not start and names the setting to change.

use crate::support::database::{Database, Ledger};
use crate::support::process::has;
use crate::support::{Bench, Order, SECOND, orders};
use sqs_once::consumer::{Named, Runnable};
use sqs_once::policy::MissingKey;
use sqs_once::store::{MemoryStore, Timestamp};
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError, Idempotency, Writes};

fn writing() -> Handler {
    orders().call(async |_: Order| Writes::new())
}

fn writing_together() -> BatchHandler {
    orders().call_batch(async |orders: Batch<Order>| orders.writes())
}

fn booking() -> Handler {
    orders().call(async |_: Order, _: Ledger| {})
}

fn plain() -> Handler {
    orders().call(async |_: Order| {})
}

/// Consumers of every kind of handler whose effect commits with the completion of its key.
fn committing(policy: MissingKey) -> [Consumer; 3] {
    [
        on_all(writing().missing_key(policy)),
        on_all(writing_together().missing_key(policy)),
        on_all(booking().missing_key(policy)),
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
    let says = [no_writes, no_writes, no_transaction];
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
        refusal(writing()).await,
        refusal(writing_together()).await,
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
    for consumer in committing(MissingKey::ProcessUnprotected) {
        assert_eq!(
            refusal(consumer).await,
            "the setting `missing_key` is `ProcessUnprotected`, but the handler's effect commits with the completion of \
             its key: expected `Terminal` or `Retry`"
        );
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
    invocation.run("a", plain).await.unwrap();
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
