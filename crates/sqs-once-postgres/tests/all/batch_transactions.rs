//! Batch handlers with a `BatchTransaction`: a savepoint for each record in one transaction for all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sqs_once::store::{Claimed, FromTransaction, Status, Transactions};
use sqs_once::{Batch, BatchOutcome, Consumer, Handler, HandlerError};
use sqs_once_postgres::{BatchTransaction, Transaction};
use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};

use crate::orders::{ACKNOWLEDGED, Order, Orders, insert, invoke, invoke_for, names};
use crate::support::{MINUTE, is_written, new_claims, open, rival, rivals};

impl Orders {
    /// A consumer with its own store, whose batch handler calls `place` for each record in its savepoint.
    pub(crate) fn batches<F, Fut>(&self, place: F) -> Consumer
    where
        F: Fn(Order, Transaction) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.batch_handler(
            move |orders: Batch<Order>, mut tx: BatchTransaction| async move {
                let mut outcome = orders.outcome();
                for record in &orders {
                    let order = record.payload().clone();
                    let placed = tx.savepoint([record], async |tx| place(order, tx).await);
                    outcome.ended(record, placed.await);
                }
                outcome
            },
        )
    }

    fn batch_handler<F, Fut>(&self, handler: F) -> Consumer
    where
        F: Fn(Batch<Order>, BatchTransaction) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = BatchOutcome> + Send + 'static,
    {
        Consumer::new(
            Handler::json::<Order>()
                .key(|order: &Order| order.id.clone())
                .call_batch(handler)
                .namespace("orders"),
        )
        .store(self.database.store.clone())
    }

    /// The orders that have a row, and how many keys are completed.
    async fn done(&self) -> (Vec<String>, i64) {
        let client = &self.database.client;
        let rows = client.query("SELECT id FROM orders ORDER BY id", &[]).await;
        let completed = "SELECT count(*) FROM processed_events WHERE status = 'COMPLETED'";
        let [completed] = self.database.numbers(completed).await;
        (
            rows.unwrap().iter().map(|row| row.get(0)).collect(),
            completed,
        )
    }

    pub(crate) async fn assert_done(&self, orders: &[&str]) {
        let (rows, completed) = self.done().await;
        assert_eq!(rows, orders);
        assert_eq!(completed, orders.len() as i64);
    }
}

/// Inserts the order. Orders named `bad…` then fail, and those named `wrong…` violate a constraint.
pub(crate) async fn place(order: Order, tx: Transaction) -> Result<(), HandlerError> {
    insert(&order, &tx).await?;
    match order.id.split('-').next() {
        Some("bad") => Err(HandlerError::retry("not this time")),
        Some("wrong") => {
            tx.execute("INSERT INTO orders VALUES (NULL)", &[]).await?;
            Ok(())
        }
        _ => Ok(()),
    }
}

#[tokio::test]
async fn records_that_fail_undo_no_other_and_every_success_is_done_once() {
    let orders = Orders::new().await;
    let consumer = orders.batches(place);
    let batch = ["o-1", "bad-1", "o-2", "wrong-1", "o-3"];
    for _ in 0..2 {
        assert_eq!(invoke(&consumer, &batch).await, ["bad-1", "wrong-1"]);
        orders.assert_done(&["o-1", "o-2", "o-3"]).await;
    }
    let hundred = names(100);
    assert_eq!(invoke(&consumer, &hundred).await, ACKNOWLEDGED);
    assert_eq!(orders.done().await.1, 103);
}

#[tokio::test]
async fn one_statement_for_all_records_is_undone_for_all_of_them() {
    let orders = Orders::new().await;
    let consumer = orders.batch_handler(async |orders: Batch<Order>, mut tx: BatchTransaction| {
        let ids: Vec<_> = orders.payloads().map(|order| order.id.clone()).collect();
        let insert =
            "INSERT INTO orders SELECT nullif(id, 'null') FROM unnest($1::text[]) AS new (id)";
        let inserted = tx.savepoint(&orders, async |tx| tx.execute(insert, &[&ids]).await);
        match inserted.await {
            Ok(_) => orders.all_succeeded(),
            Err(_) => orders.outcome(),
        }
    });
    assert_eq!(invoke(&consumer, &["o-1", "null"]).await, ["o-1", "null"]);
    orders.assert_done(&[]).await;
    assert_eq!(invoke(&consumer, &["o-1", "o-2"]).await, ACKNOWLEDGED);
    orders.assert_done(&["o-1", "o-2"]).await;
}

#[tokio::test]
async fn a_record_that_fails_although_its_statements_were_kept_commits_nothing() {
    let orders = Orders::new().await;
    let consumer = orders.batch_handler(async |orders: Batch<Order>, mut tx: BatchTransaction| {
        let mut outcome = orders.outcome();
        for record in &orders {
            let order = record.payload();
            let placed = tx.savepoint([record], async |tx| insert(order, &tx).await);
            outcome.ended(record, placed.await);
        }
        outcome.failed(&orders.records()[1], "too late");
        outcome
    });
    assert_eq!(invoke(&consumer, &["o-1", "o-2"]).await, ["o-1", "o-2"]);
    orders.assert_done(&[]).await;
}

/// Orders named `sleeps…` never end after their statement, and those named `waits…` run another one for a second before.
async fn place_slowly(order: &Order, tx: Transaction) -> Result<(), HandlerError> {
    if order.id.starts_with("waits") {
        tx.batch_execute("SELECT pg_sleep(1)").await?;
    }
    insert(order, &tx).await?;
    if order.id.starts_with("sleeps") {
        sleep(MINUTE).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_savepoint_that_is_dropped_is_undone_and_the_others_stay() {
    let orders = Orders::new().await;
    let consumer = orders.batch_handler(async |orders: Batch<Order>, mut tx: BatchTransaction| {
        let mut outcome = orders.outcome();
        for record in &orders {
            let order = record.payload();
            let limit = match order.id.starts_with("o-") {
                true => MINUTE,
                false => Duration::from_millis(200),
            };
            let placed = tx.savepoint([record], async |tx| place_slowly(order, tx).await);
            let placed = timeout(limit, placed).await;
            outcome.ended(record, placed.unwrap_or_else(|_| Err("too slow".into())));
        }
        outcome
    });
    for (batch, failed) in [
        (&["sleeps-1", "o-1", "o-2"][..], &["sleeps-1"][..]),
        (&["o-3", "o-4", "sleeps-2"], &["sleeps-2"]),
        // The server works on the first savepoint's statement while the second one is dropped, too.
        (&["o-5", "waits", "behind", "o-6"], &["waits", "behind"]),
    ] {
        assert_eq!(invoke(&consumer, batch).await, failed);
    }
    let all = ["o-1", "o-2", "o-3", "o-4", "o-5", "o-6"];
    orders.assert_done(&all).await;
}

#[tokio::test]
async fn what_leaves_its_savepoint_commits_nothing() {
    let orders = Orders::new().await;
    let kept: Arc<Mutex<Vec<Transaction>>> = Arc::default();
    let keeper = Arc::clone(&kept);
    let keeps = orders.batch_handler(move |orders: Batch<Order>, mut tx: BatchTransaction| {
        let kept = Arc::clone(&keeper);
        async move {
            let keep = tx.savepoint([&orders.records()[0]], async |tx| {
                kept.lock().await.push(tx);
                Ok::<_, HandlerError>(())
            });
            let error = keep.await.unwrap_err().to_string();
            assert!(error.contains("still holds the transaction"), "{error}");
            // The statement runs outside of any savepoint, and then the task lets go.
            let tx = kept.lock().await.pop().unwrap();
            insert(orders.records()[0].payload(), &tx).await.unwrap();
            drop(tx);
            orders.all_succeeded()
        }
    });
    assert_eq!(invoke(&keeps, &["o-1", "o-2"]).await, ["o-1", "o-2"]);

    for statement in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN"] {
        let ends = orders.batch_handler(
            move |orders: Batch<Order>, mut tx: BatchTransaction| async move {
                let ended = tx.savepoint(&orders, async |tx| tx.batch_execute(statement).await);
                drop(ended.await);
                orders.all_succeeded()
            },
        );
        assert_eq!(
            invoke(&ends, &["o-1", "o-2"]).await,
            ["o-1", "o-2"],
            "{statement}"
        );
    }
    orders.assert_done(&[]).await;
}

/// A task of the first record's savepoint, which is dropped or fails, goes on in the second record's savepoint.
#[tokio::test]
async fn a_task_that_outlives_its_savepoint_commits_nothing_in_the_next_one() {
    let orders = Orders::new().await;
    for dropped in [true, false] {
        let handler = move |orders: Batch<Order>, mut tx: BatchTransaction| async move {
            let mut outcome = orders.outcome();
            let (goes_on, mut left) = (Arc::new(Notify::new()), None);
            let first = tx.savepoint([&orders.records()[0]], async |tx| {
                let (order, signal) = (orders.records()[0].payload().clone(), Arc::clone(&goes_on));
                left = Some(tokio::spawn(async move {
                    signal.notified().await;
                    insert(&order, &tx).await
                }));
                if dropped {
                    std::future::pending::<()>().await;
                }
                Err::<(), _>(HandlerError::retry("not this time"))
            });
            let first = timeout(Duration::from_millis(100), first).await;
            outcome.ended(
                &orders.records()[0],
                first.unwrap_or_else(|_| Err("too slow".into())),
            );
            let second = tx.savepoint([&orders.records()[1]], async |tx| {
                goes_on.notify_one();
                left.expect("the first savepoint began").await??;
                insert(orders.records()[1].payload(), &tx).await
            });
            outcome.ended(&orders.records()[1], second.await);
            outcome
        };
        let consumer = orders.batch_handler(handler);
        assert_eq!(invoke(&consumer, &["o-1", "o-2"]).await, ["o-1", "o-2"]);
        orders.assert_done(&[]).await;
    }
}

#[tokio::test]
async fn a_statement_that_is_sent_before_the_first_await_is_in_its_savepoint() {
    let orders = Orders::new().await;
    let consumer = orders.batch_handler(async |orders: Batch<Order>, mut tx: BatchTransaction| {
        let mut outcome = orders.outcome();
        for record in &orders {
            let id = record.payload().id.clone();
            let placed = tx.savepoint([record], |tx: Transaction| {
                let insert = format!("INSERT INTO orders VALUES ('{id}')");
                assert!(tx.batch_execute(&insert).now_or_never().is_none());
                async move {
                    match &*id {
                        "bad" => Err(HandlerError::retry("not this time")),
                        _ => Ok(()),
                    }
                }
            });
            outcome.ended(record, placed.await);
        }
        outcome
    });
    assert_eq!(invoke(&consumer, &["bad", "o-1"]).await, ["bad"]);
    orders.assert_done(&["o-1"]).await;
}

#[tokio::test]
async fn savepoints_of_the_work_do_not_hide_that_of_the_record() {
    let orders = Orders::new().await;
    let consumer = orders.batches(async |order, tx| {
        insert(&order, &tx).await?;
        tx.batch_execute("SAVEPOINT sqs_once; SAVEPOINT record")
            .await?;
        if order.id == "bad" {
            Err("not this time")?;
        }
        Ok(())
    });
    assert_eq!(invoke(&consumer, &["o-1", "bad"]).await, ["bad"]);
    orders.assert_done(&["o-1"]).await;
}

/// A decoder may take all of the time for claims.
#[tokio::test]
async fn a_transaction_that_begins_late_lasts_as_long_as_the_handler_may_run() {
    let orders = Orders::new().await;
    for (count, patience) in [(1, Duration::ZERO), (3, Duration::ZERO), (3, MINUTE)] {
        let claims = new_claims(count);
        let begun = orders.database.store.begin(&claims, patience, MINUTE).await;
        let transaction = begun.unwrap().transaction.unwrap();
        let tx = Transaction::from_transaction(transaction.handle()).unwrap();
        for (limit, expected) in [
            ("lock_timeout", "1min"),
            ("statement_timeout", "61s"),
            ("idle_in_transaction_session_timeout", "1min"),
        ] {
            let shown = tx.query_one(&format!("SHOW {limit}"), &[]).await.unwrap();
            let shown: &str = shown.get(0);
            assert_eq!(shown, expected, "{limit} of {count} claims");
        }
    }
}

#[tokio::test]
async fn a_statement_that_fails_must_fail_its_savepoint() {
    let orders = Orders::new().await;
    let consumer = orders.batches(async |order, tx| {
        insert(&order, &tx).await?;
        if order.id == "careless" {
            drop(tx.execute("INSERT INTO orders VALUES (NULL)", &[]).await);
        }
        Ok(())
    });
    assert_eq!(
        invoke(&consumer, &["o-1", "careless", "o-2"]).await,
        ["careless"]
    );
    orders.assert_done(&["o-1", "o-2"]).await;
}

#[tokio::test]
async fn a_statement_that_a_migration_made_invalid_fails_one_batch_although_others_commit() {
    let orders = Orders::new().await;
    let consumer = orders.batches(async |order, tx| {
        insert(&order, &tx).await?;
        if order.id.starts_with("reads") {
            let read = tx.client().prepare_cached("SELECT * FROM orders").await?;
            tx.query(&read, &[]).await?;
        }
        Ok(())
    });
    assert_eq!(invoke(&consumer, &["o-1", "reads-1"]).await, ACKNOWLEDGED);
    let migration = "ALTER TABLE orders ADD COLUMN note text";
    orders.database.run(migration).await;
    assert_eq!(invoke(&consumer, &["o-2", "reads-2"]).await, ["reads-2"]);
    assert_eq!(invoke(&consumer, &["o-3", "reads-2"]).await, ACKNOWLEDGED);
}

/// Runs `meanwhile` while a batch handler has written the orders of its batch.
async fn while_written(orders: &Orders, batch: &[&str], meanwhile: impl AsyncFnOnce()) {
    let (reached, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (Arc::clone(&reached), Arc::clone(&goes_on));
    let consumer = orders.batch_handler(move |orders: Batch<Order>, mut tx: BatchTransaction| {
        let (reached, goes_on) = (Arc::clone(&signals.0), Arc::clone(&signals.1));
        async move {
            for record in &orders {
                let order = record.payload();
                let placed = tx.savepoint([record], async |tx| insert(order, &tx).await);
                placed.await.unwrap();
            }
            reached.notify_one();
            goes_on.notified().await;
            orders.all_succeeded()
        }
    });
    let (failed, ()) = tokio::join!(invoke(&consumer, batch), async {
        reached.notified().await;
        meanwhile().await;
        goes_on.notify_one();
    });
    assert_eq!(failed, ACKNOWLEDGED);
}

#[tokio::test]
async fn keys_that_another_batch_holds_are_in_progress_and_the_rest_is_done() {
    let orders = Orders::new().await;
    let second = orders.batches(place);
    while_written(&orders, &["o-2", "o-4"], async || {
        let batch = ["o-1", "o-2", "o-3", "o-4", "o-5"];
        assert_eq!(invoke(&second, &batch).await, ["o-2", "o-4"]);
    })
    .await;
    orders
        .assert_done(&["o-1", "o-2", "o-3", "o-4", "o-5"])
        .await;
    assert_eq!(invoke(&second, &["o-2", "o-4"]).await, ACKNOWLEDGED);
}

/// The claims of a batch handler have half of the invocation's time.
#[tokio::test]
async fn many_keys_that_others_hold_are_found_in_the_time_for_claims() {
    let orders = Orders::new().await;
    let second = orders.batches(place);
    // Each that is held takes its wait, of which a slow machine must have time for all.
    let all = names(32);
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let held: Vec<_> = all.iter().copied().step_by(4).collect();
    while_written(&orders, &held, async || {
        let failed = invoke_for(Duration::from_secs(8), &second, &all).await;
        assert_eq!(failed, held);
    })
    .await;
    orders.assert_done(&all).await;
}

#[tokio::test]
async fn claims_that_wait_longer_than_they_may_are_all_in_progress() {
    let orders = Orders::new().await;
    let store = &orders.database.store;
    let claims = new_claims(4);
    let held = store.begin(&claims, MINUTE, MINUTE).await.unwrap();
    assert!(held.answers.iter().all(is_written));
    let begun = store.begin(&rivals(&claims), Duration::ZERO, MINUTE).await;
    let begun = begun.unwrap();
    assert!(begun.transaction.is_none());
    for answer in begun.answers {
        let Ok(Claimed::Refused(item)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!((item.status, item.lease_until), (Status::InProgress, None));
    }
    // The first transaction is not disturbed, and the keys are free afterwards.
    drop(held);
    open(store, &rival(&claims[0])).await;
}
