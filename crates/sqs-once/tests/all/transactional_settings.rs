//! Settings that do not work with transactional handlers: the consumer does not start and names the setting to change.

use crate::support::database::{Database, Ledger};
use crate::support::process::has;
use crate::support::{Bench, Order, orders};
use sqs_once::consumer::{Named, Runnable};
use sqs_once::policy::MissingKey;
use sqs_once::store::MemoryStore;
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError, Writes};

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
    for (consumer, says) in [
        (on_all(writing()), no_writes),
        (on_all(writing_together()), no_writes),
        (on_all(booking()), no_transaction),
    ] {
        assert_eq!(refusal(consumer.store(MemoryStore::new())).await, says);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_store_asks_for_one_and_every_other_handler_for_a_table() {
    assert_eq!(
        refusal(booking()).await,
        "the setting `store` is not set, but a transaction needs one: expected `.store(…)` with a store that has them, \
         such as `PostgresStore::from_env()?`"
    );
    for consumer in [
        Consumer::new(plain()),
        Consumer::new(writing()),
        Consumer::new(writing_together()),
    ] {
        let refusal = refusal(consumer).await;
        assert!(refusal.starts_with("SQS_ONCE_TABLE is "), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_can_not_have_an_effect_that_commits_with_its_completion() {
    let consumers = |policy| {
        [
            on_all(writing().missing_key(policy)),
            on_all(writing_together().missing_key(policy)),
            on_all(booking().missing_key(policy)),
        ]
    };
    for allowed in [MissingKey::Terminal, MissingKey::Retry] {
        for consumer in consumers(allowed) {
            consumer.init().await.unwrap();
        }
    }
    for consumer in consumers(MissingKey::ProcessUnprotected) {
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
    for consumer in [
        on_all(writing()),
        on_all(writing_together()),
        on_all(booking()),
    ] {
        let consumer = consumer.init().await;
        started.push(consumer.map_err(|error| error.to_string()));
    }
    for started in started {
        match is_off {
            false => started.unwrap(),
            true => assert_eq!(
                started.unwrap_err(),
                "SQS_ONCE_DISABLED is set, but the effect commits through the store: expected false for handlers and \
                 work that return `Writes` or take a transaction"
            ),
        }
    }
}
