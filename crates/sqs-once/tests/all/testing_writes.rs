//! The test kit with handlers that return `Writes`.

use std::time::Duration;

use crate::support::{Order, Transaction, assert_contains, one, orders, several};
use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use sqs_once::policy::Disposition;
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation};
use sqs_once::{Batch, HandlerError, Writes};

/// Stores the order and takes it from the stock. If the stock is empty, retries no earlier than tomorrow.
#[sqs_once::handler(key = order.id, namespace = "test")]
async fn reserve(order: Order) -> Result<Writes, HandlerError> {
    let id = || AttributeValue::S(order.id.clone());
    let put = Put::builder().table_name("orders").item("id", id());
    let update = Update::builder().table_name("stock").key("id", id());
    let update = update.update_expression("ADD pieces :less");
    Ok(Writes::new()
        .put_item(put.build()?)
        .update(update.build()?)
        .on_conflict(0, |_| Disposition::Terminal)
        .on_conflict(1, |_| Disposition::RetryAfter(Duration::from_secs(86_400))))
}

fn setup() -> (Bench, Event) {
    (Bench::new(reserve::consumer()), one("o-1"))
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_writes_nothing_and_its_rule_decides() {
    let (bench, event) = setup();
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

    // Each fault occurred once.
    bench.run(&event).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_a_write_that_is_none_waits_for_one() {
    let (bench, event) = setup();
    bench.store().fail_condition(2, 1);
    bench.run(&event).await.assert_processed("m-1");
    assert_eq!(bench.store().writes().len(), 2);
}

/// The type of a batch handler does not reveal that its records end with `Writes`.
#[tokio::test(start_paused = true)]
async fn writes_of_a_batch_handler_that_were_denied_did_not_commit_and_the_other_records_go_on() {
    let reserve_all = async |orders: Batch<Order>| {
        let mut outcome = orders.outcome();
        for record in orders.iter() {
            let id = || AttributeValue::S(record.payload().id.clone());
            let put = Put::builder().table_name("orders").item("id", id());
            outcome.ended(record, Writes::new().put_item(put.build()?));
        }
        Ok::<_, HandlerError>(outcome)
    };
    let bench = Bench::new(orders().batch_handler(reserve_all));
    let (store, denied) = (bench.store(), StoreErrorKind::AccessDenied);
    store.fail(Operation::Complete, denied, 1);
    let answer = bench.run(several(["o-1", "o-2"])).await;
    answer
        .assert_failed("m-1")
        .assert_reason("m-1", "its effect did not commit: the store denies access")
        .assert_processed("m-2");
    assert_eq!(store.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_nothing_behind_and_nothing_to_wait_for() {
    let (bench, event) = setup();
    bench.run_and_crash(&event).await;
    assert!(bench.store().writes().is_empty());
    assert_eq!(bench.item("o-1").await, None);
    bench.run(&event).await.assert_processed("m-1");
    assert_eq!(bench.store().writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_a_transaction_is_told_that_the_kit_has_none() {
    let consumer = orders().handler(async |_: Order, _: Transaction| {});
    let (_, event) = setup();
    let error = Bench::new(consumer).try_run(&event).await.unwrap_err();
    assert_contains!(error.to_string(), "has no transactions");
}
