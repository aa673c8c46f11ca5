//! Work without SQS that uses the transaction of its key's claim.

use std::time::Duration;

use sqs_once::store::StoreErrorKind;
use sqs_once::time::{Clock, SystemClock};
use sqs_once::{HandlerError, Idempotency, Invocation, Once, RunError, Writes};
use sqs_once_postgres::Transaction;
use tokio::sync::Notify;

use crate::orders::{Order, Orders, insert};
use crate::support::until_waiting;

type Ran = Result<Once<String>, RunError>;

fn idempotency(orders: &Orders) -> Idempotency {
    let store = orders.database.store.clone();
    Idempotency::new().namespace("orders").store(store)
}

/// An invocation that may take this long.
fn invocation(idempotency: &Idempotency, time: Duration) -> Invocation<'_> {
    idempotency.until(SystemClock.now() + time)
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
    let minute = invocation(idempotency, Duration::from_secs(60));
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
    for end in [
        "error",
        "deadline",
        "dropped",
        "swallowed error",
        "ROLLBACK",
        "ROLLBACK; BEGIN",
        "own connection killed",
        "transaction kept",
    ] {
        let orders = Orders::new().await;
        let idempotency = idempotency(&orders);
        let time = match end {
            "deadline" => 2,
            _ => 60,
        };
        let invocation = invocation(&idempotency, Duration::from_secs(time));
        let (mut kept, reached) = (None, Notify::new());
        let placing = place(&invocation, async |tx| {
            match end {
                "error" => Err("not this time")?,
                "deadline" => tx.batch_execute("SELECT pg_sleep(3600)").await?,
                "dropped" => {
                    reached.notify_one();
                    std::future::pending().await
                }
                "swallowed error" => assert!(tx.batch_execute("SELECT 1 / 0").await.is_err()),
                "own connection killed" => {
                    let kill = "SELECT pg_terminate_backend(pg_backend_pid())";
                    assert!(tx.batch_execute(kill).await.is_err());
                }
                "transaction kept" => kept = Some(tx),
                statement => tx.batch_execute(statement).await?,
            }
            Ok(())
        });
        let ran = tokio::select! {
            ran = placing => Some(ran.unwrap_err()),
            () = reached.notified() => None,
        };
        let as_expected = match (end, &ran) {
            ("dropped", None) | ("error", Some(RunError::Work(_))) => true,
            ("deadline", Some(RunError::Cancelled)) => true,
            ("error" | "deadline" | "dropped", _) => false,
            (_, ran) => matches!(ran, Some(RunError::NotCommitted(_))),
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
    let minute = invocation(&idempotency, Duration::from_secs(60));
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
        let minute = Duration::from_secs(60);
        let [first, second] = [&first, &second].map(|one| invocation(one, minute));
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
    let acknowledged = crate::orders::invoke(&orders.sound(), &["o-1"]).await;
    assert_eq!(acknowledged, crate::orders::ACKNOWLEDGED);
    assert_eq!(orders.calls(), 0);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn work_that_returns_writes_to_dynamodb_is_refused_before_it_runs() {
    let orders = Orders::new().await;
    let idempotency = idempotency(&orders);
    let minute = invocation(&idempotency, Duration::from_secs(60));
    let work = async || -> Result<Writes, HandlerError> { panic!("it ran") };
    let refused = minute.run("o-1", work).await.unwrap_err();
    let said = "the setting `store` can't commit `Writes`: expected `DynamoDbStore`";
    assert_eq!(refused.to_string(), said);
}
