//! Settings that do not work with transactional handlers: the consumer does not start and names the setting to change.

use crate::support::database::{Database, Ledger};
use crate::support::process::has;
use crate::support::{Bench, Order, assert_contains, orders, set};
use sqs_once::policy::{MissingKey, Mode};
use sqs_once::{Batch, Consumer, HandlerError, MemoryStore, Writes};

fn writing() -> Consumer {
    orders().handler(async |_: Order| Writes::new())
}

fn writing_together() -> Consumer {
    orders().batch_handler(async |orders: Batch<Order>| orders.writes())
}

fn booking() -> Consumer {
    orders().handler(async |_: Order, _: Ledger| {})
}

fn both() -> Consumer {
    orders().handler(async |_: Order, _: Ledger| Ok::<_, HandlerError>(Writes::new()))
}

fn plain() -> Consumer {
    orders().handler(async |_: Order| {})
}

/// Sets a store that supports both.
fn on_all(consumer: Consumer) -> Consumer {
    let bench = Bench::new();
    let database = Database::beside(&bench.store);
    bench.consumer(consumer).store(database)
}

async fn refusal(consumer: &Consumer) -> String {
    consumer.init().await.unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_the_handlers_effect_can_not_have_is_refused() {
    const RECORD_AFTER: Option<Mode> = Some(Mode::RecordAfter);
    const CLAIM_FIRST: Option<Mode> = Some(Mode::ClaimFirst);
    const APART: &str = "they don't commit together";
    for (consumer, mode, says) in [
        (plain(), Some(Mode::Transactional), "can't commit with"),
        (writing(), RECORD_AFTER, "is `RecordAfter`, but"),
        (writing_together(), RECORD_AFTER, "is `RecordAfter`, but"),
        (booking(), RECORD_AFTER, "is `RecordAfter`, but"),
        (booking(), CLAIM_FIRST, "in which its key is claimed"),
        (both(), None, APART),
        (both(), CLAIM_FIRST, APART),
    ] {
        let consumer = set(on_all(consumer), mode, Consumer::mode);
        let refusal = refusal(&consumer).await;
        assert!(refusal.starts_with("the setting `mode` "), "{refusal}");
        assert_contains!(refusal, says, "expected `Transactional`");
    }
}

#[tokio::test(start_paused = true)]
async fn the_modes_that_a_handlers_effect_can_have_are_accepted() {
    for (consumer, mode) in [
        (plain(), Mode::ClaimFirst),
        (plain(), Mode::RecordAfter),
        (writing(), Mode::ClaimFirst),
        (writing(), Mode::Transactional),
        (writing_together(), Mode::ClaimFirst),
        (writing_together(), Mode::Transactional),
        (booking(), Mode::Transactional),
    ] {
        on_all(consumer).mode(mode).init().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_can_not_commit_the_handlers_effect_is_refused() {
    let no_writes = "the setting `store` can't commit `Writes`: expected `DynamoDbStore`";
    let no_transaction = "the setting `store` has no transactions: expected a store that has them, such as `PostgresStore`";
    for (consumer, says) in [
        (writing(), no_writes),
        (writing_together(), no_writes),
        (booking(), no_transaction),
    ] {
        let consumer = consumer.namespace("test").store(MemoryStore::new());
        assert_eq!(refusal(&consumer).await, says);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_store_asks_for_one_and_every_other_handler_for_a_table() {
    assert_eq!(
        refusal(&booking()).await,
        "the setting `store` is not set, but a transaction needs one: expected `.store(…)` with a store that has them, \
         such as `PostgresStore::from_env()?`"
    );
    for consumer in [plain(), writing(), writing_together()] {
        let refusal = refusal(&consumer).await;
        assert!(refusal.starts_with("SQS_ONCE_TABLE is "), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_can_not_have_an_effect_that_commits_with_its_record() {
    for consumer in [writing(), writing_together(), booking()] {
        let consumer = on_all(consumer);
        for allowed in [MissingKey::Terminal, MissingKey::Retry] {
            let consumer = consumer.clone().missing_key(allowed);
            consumer.init().await.unwrap();
        }
        assert_eq!(
            refusal(&consumer.missing_key(MissingKey::ProcessUnprotected)).await,
            "the setting `missing_key` is `ProcessUnprotected`, but the handler's effect commits with the record of \
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
    for consumer in [writing(), writing_together(), booking()] {
        let consumer = on_all(consumer).init().await;
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
