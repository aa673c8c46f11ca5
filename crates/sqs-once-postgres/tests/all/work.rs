//! Work without SQS that uses the transaction of its key's claim.

use std::time::Duration;

use sqs_once::once::{Invocation, Once, RunError};
use sqs_once::store::{StoreErrorKind, Timestamp};
use sqs_once::{HandlerError, Idempotency, Writes};
use sqs_once_postgres::Transaction;
use tokio::sync::Notify;

use crate::orders::{ACKNOWLEDGED, BAD_ENDS, Order, Orders, end_badly, insert, invoke, time_for};
use crate::support::{MINUTE, until_waiting};

type Ran = Result<Once<String>, RunError>;

fn idempotency(orders: &Orders) -> Idempotency {
    let store = orders.database.store.clone();
    Idempotency::new("orders").store(store)
}

/// An invocation that may take this long.
fn invocation(idempotency: &Idempotency, time: Duration) -> Invocation<'_> {
    idempotency.until(Timestamp::now() + time)
}

fn minute(idempotency: &Idempotency) -> Invocation<'_> {
    invocation(idempotency, MINUTE)
}

/// Inserts the order `o-1`, and ends after `then`.
async fn place(
    invocation: &Invocation<'_>,
    then: impl AsyncFnOnce(Transaction) -> Result<(), HandlerError>,
) -> Ran {
    let order = Order {
        id: "o-1".to_owned(),
    };
    let work = async |tx, _| {
        insert(&order, &tx).await?;
        then(tx).await?;
        Ok::<_, HandlerError>("receipt".to_owned())
    };
    invocation.run_in_transaction("o-1", work).await
}

async fn is_placed_once(orders: &Orders, idempotency: &Idempotency) {
    let minute = minute(idempotency);
    let receipt = "receipt".to_owned();
    for expected in [
        Once::Processed(receipt.clone()),
        Once::Duplicate(Some(receipt)),
    ] {
        let placed = place(&minute, async |_| Ok(())).await.unwrap();
        assert_eq!(placed, expected);
    }
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn however_work_ends_badly_nothing_has_happened_and_the_next_attempt_does_it() {
    for end in BAD_ENDS.into_iter().chain(["dropped", "transaction kept"]) {
        let orders = Orders::new().await;
        let idempotency = idempotency(&orders);
        let invocation = invocation(&idempotency, time_for(end));
        let (mut kept, reached) = (None, Notify::new());
        let placing = place(&invocation, async |tx| match end {
            "dropped" => {
                reached.notify_one();
                std::future::pending().await
            }
            "transaction kept" => {
                kept = Some(tx);
                Ok(())
            }
            _ => end_badly(end, &tx).await,
        });
        let ran = tokio::select! {
            ran = placing => Some(ran.unwrap_err()),
            () = reached.notified() => None,
        };
        let as_expected = match end {
            "dropped" => ran.is_none(),
            "error" => matches!(ran, Some(RunError::Work { .. })),
            "deadline" => matches!(ran, Some(RunError::Cancelled)),
            _ => matches!(ran, Some(RunError::NotCommitted(_))),
        };
        assert!(as_expected, "{end}: {ran:?}");
        drop(kept);
        assert_eq!(orders.rows("o-1").await, (0, None), "{end}");
        is_placed_once(&orders, &idempotency).await;
    }
}

#[tokio::test]
async fn work_that_commits_by_itself_is_never_reported_as_done() {
    let orders = Orders::new().await;
    let idempotency = idempotency(&orders);
    let minute = minute(&idempotency);
    let committed = place(&minute, async |tx| Ok(tx.batch_execute("COMMIT").await?)).await;
    match committed.unwrap_err() {
        RunError::NotCommitted(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Other);
            assert!(error.to_string().contains("only the store may send"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_attempt_at_the_same_time_waits_for_the_first_and_then_has_its_value_or_does_the_work() {
    for fails in [false, true] {
        let orders = Orders::new().await;
        // As in two processes.
        let [first, second] = [(); 2].map(|()| idempotency(&orders));
        let [first, second] = [minute(&first), minute(&second)];
        let (reached, goes_on) = (Notify::new(), Notify::new());
        let (first, second, ()) = tokio::join!(
            place(&first, async |_| {
                reached.notify_one();
                goes_on.notified().await;
                match fails {
                    true => Err("not this time".into()),
                    false => Ok(()),
                }
            }),
            async {
                reached.notified().await;
                place(&second, async |_| Ok(())).await
            },
            async {
                until_waiting(&orders.database.client, 1).await;
                goes_on.notify_one();
            }
        );
        assert_eq!(first.is_err(), fails);
        assert_eq!(second.unwrap().is_duplicate(), !fails);
        orders.assert_done_once("o-1").await;
    }
}

#[tokio::test]
async fn a_consumer_with_the_same_namespace_knows_the_keys_of_the_work() {
    let orders = Orders::new().await;
    is_placed_once(&orders, &idempotency(&orders)).await;
    assert_eq!(invoke(&orders.sound(), &["o-1"]).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 0);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn work_that_returns_writes_to_dynamodb_is_refused_before_it_runs() {
    let orders = Orders::new().await;
    let idempotency = idempotency(&orders);
    let minute = minute(&idempotency);
    let work = async || -> Result<Writes, HandlerError> { panic!("it ran") };
    let refused = minute.run("o-1", work).await.unwrap_err();
    let said = "the setting `store` can't commit `Writes`: expected `DynamoDbStore`";
    assert_eq!(refused.to_string(), said);
}
